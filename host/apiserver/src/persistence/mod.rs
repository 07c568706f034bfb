//! Objects on disk: a database that follows the tables, and from which they are filled at the next start.
//!
//! [`DataDirectory`] is the handle. [`commit_log`] collects changes and commits them in a thread, all those that arrived
//! during one commit in the next; a request is answered when its changes are on disk. [`database`] does the I/O, [`record`]
//! is the format of an object, and [`changes`] merges what was not committed yet. The last two are pure.

mod changes;
mod commit_log;
mod database;
mod error;
mod record;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use commit_log::{CommitGroup, CommitLog};
use database::Database;
pub use error::DataError;
use parking_lot::Mutex;
pub(crate) use record::LoadedObject;

use crate::storage::{ChangeLog, StoredState};

/// How far resource versions advance at each start, beyond the last one on disk.
///
/// A crash loses changes that were not acknowledged. Their resource versions may have been visible to watches and must not be used
/// again for other content. Far fewer writes than this fit between two commits.
const REVISION_MARGIN: u64 = 1_000_000;

/// A directory with the objects of a server. Dropping it writes what is pending and closes the database.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    log: Arc<CommitLog>,
    database: Arc<Database>,
    thread: Option<JoinHandle<()>>,
    /// Held while a named state changes.
    state_changes: Arc<Mutex<()>>,
}

impl DataDirectory {
    /// Opens the database in a directory. Creates both if they do not exist.
    ///
    /// # Errors
    /// If the database is damaged, belongs to another program or is in use, or if the directory cannot be used.
    pub(crate) fn open(directory: &Path) -> Result<Self, DataError> {
        let database = Arc::new(Database::open(directory)?);
        let log = Arc::new(CommitLog::default());
        let (thread_log, thread_database) = (Arc::clone(&log), Arc::clone(&database));
        let thread = std::thread::Builder::new()
            .name("apiserver-data".into())
            .spawn(move || thread_log.run(&thread_database))
            .map_err(|error| DataError::io(directory, "start a thread for", &error))?;
        Ok(Self { log, database, thread: Some(thread), state_changes: Arc::default() })
    }

    /// Returns the first revision that no earlier process used.
    pub(crate) fn first_revision(&self) -> Result<u64, DataError> {
        Ok(self.database.revision()?.map_or(1, |revision| revision.saturating_add(REVISION_MARGIN)))
    }

    /// Returns the receiver of the tables' changes.
    pub(crate) fn log(&self) -> Arc<dyn ChangeLog> {
        Arc::clone(&self.log) as Arc<dyn ChangeLog>
    }

    /// Calls `on_object` for each stored object.
    ///
    /// # Errors
    /// If an object cannot be read; some were passed to `on_object` then.
    pub(crate) fn load(&self, on_object: &mut dyn FnMut(LoadedObject)) -> Result<(), DataError> {
        self.database.load(on_object)
    }

    /// Waits until all changes up to now are on disk.
    ///
    /// # Errors
    /// The reason why they cannot be written.
    pub(crate) async fn flush(&self) -> Result<(), Arc<str>> {
        self.log.flush().await
    }

    /// Returns a guard. The changes that are made while it lives become durable together.
    pub(crate) fn begin_group(&self) -> CommitGroup {
        self.log.begin_group()
    }

    /// Returns why nothing more can be written; `None` if it can.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        self.log.failure()
    }

    /// Returns all named states, which [`Self::save_state`] stored.
    pub(crate) fn states(&self) -> Result<Vec<(String, String, StoredState)>, DataError> {
        self.database.states()
    }

    /// Stores a named state with a description, and replaces the one of this name. Calls `on_success` before any later change of a
    /// named state, even if the future was dropped.
    pub(crate) async fn save_state(
        &self,
        name: String,
        description: String,
        state: Arc<StoredState>,
        on_success: impl FnOnce() + Send + 'static,
    ) -> Result<(), DataError> {
        let save = move |database: &Database| database.save_state(&name, &description, &state);
        self.change_states(save, on_success).await
    }

    /// Removes a named state. Calls `on_success` as [`Self::save_state`] does.
    pub(crate) async fn remove_state(
        &self,
        name: String,
        on_success: impl FnOnce() + Send + 'static,
    ) -> Result<(), DataError> {
        self.change_states(move |database| database.remove_state(&name), on_success).await
    }

    /// Changes named states in a thread that may block, one change after the other.
    async fn change_states(
        &self,
        change: impl FnOnce(&Database) -> Result<(), DataError> + Send + 'static,
        on_success: impl FnOnce() + Send + 'static,
    ) -> Result<(), DataError> {
        let (database, one_at_a_time) = (Arc::clone(&self.database), Arc::clone(&self.state_changes));
        let path = database.path().to_owned();
        let run = move || {
            let _change = one_at_a_time.lock();
            change(&database).map(|()| on_success())
        };
        let finished = tokio::task::spawn_blocking(run).await;
        finished.unwrap_or_else(|error| Err(DataError::write(&path, &error)))
    }
}

impl Drop for DataDirectory {
    fn drop(&mut self) {
        self.log.close();
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the panic hook.
            let _ = thread.join();
        }
    }
}
