//! Collects changes and commits them in groups.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::changes::Changes;
use super::database::Database;
use super::error::DataError;
use crate::storage::{ChangeLog, StoredObject, TableName};

/// The changes that a thread commits. All that arrive during one commit share the next one, and so one flush of the disk.
#[derive(Debug, Default)]
pub(crate) struct CommitLog {
    pending: Mutex<Pending>,
    wake: Condvar,
    progress: watch::Sender<Progress>,
}

#[derive(Debug, Default)]
struct Pending {
    changes: Changes,
    /// The number of changes that were ever recorded.
    recorded: u64,
    is_closing: bool,
    /// Whether a commit failed. No further changes are collected.
    has_failed: bool,
}

/// What was committed.
#[derive(Debug, Default)]
struct Progress {
    /// The number of changes on disk.
    durable: u64,
    /// Why nothing more can be committed.
    failure: Option<Arc<str>>,
}

impl CommitLog {
    /// Commits changes until [`Self::close`] is called and nothing is pending, or until a commit fails.
    pub(super) fn run(&self, database: &Database) {
        while let Some((changes, recorded)) = self.take() {
            // Without this, requests would wait forever after a panic.
            let commit = AssertUnwindSafe(|| database.commit(changes));
            let result = std::panic::catch_unwind(commit)
                .unwrap_or_else(|_| Err(DataError::write(database.path(), &"the database panicked")));
            match result {
                Ok(()) => self.progress.send_modify(|progress| progress.durable = recorded),
                Err(error) => {
                    tracing::error!(%error, "objects can no longer be stored; every further write fails until a restart");
                    self.fail(&error.to_string());
                    return;
                }
            }
        }
    }

    /// Waits for changes and takes them, with the number of changes that were recorded so far. Returns `None` once the log is
    /// closed and empty.
    fn take(&self) -> Option<(Changes, u64)> {
        let mut pending = self.pending.lock();
        while pending.changes.is_empty() && !pending.is_closing {
            self.wake.wait(&mut pending);
        }
        let changes = std::mem::take(&mut pending.changes);
        (!changes.is_empty()).then_some((changes, pending.recorded))
    }

    fn fail(&self, problem: &str) {
        {
            let mut pending = self.pending.lock();
            pending.has_failed = true;
            pending.changes = Changes::default();
        }
        self.progress.send_modify(|progress| progress.failure = Some(problem.into()));
    }

    /// Lets [`Self::run`] return when nothing is pending any more.
    pub(super) fn close(&self) {
        self.pending.lock().is_closing = true;
        self.wake.notify_one();
    }

    /// Waits until all changes up to now are on disk.
    pub(super) async fn flush(&self) -> Result<(), Arc<str>> {
        let recorded = self.pending.lock().recorded;
        let mut progress = self.progress.subscribe();
        loop {
            {
                let current = progress.borrow_and_update();
                if current.durable >= recorded {
                    return Ok(());
                }
                if let Some(failure) = &current.failure {
                    return Err(Arc::clone(failure));
                }
            }
            if progress.changed().await.is_err() {
                return Err("the server ends".into());
            }
        }
    }

    /// Returns why nothing more can be committed; `None` if it can.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.progress.borrow().failure.clone()
    }

    fn record(&self, change: impl FnOnce(&mut Changes)) {
        let mut pending = self.pending.lock();
        pending.recorded += 1;
        if !pending.has_failed {
            change(&mut pending.changes);
            self.wake.notify_one();
        }
    }
}

impl ChangeLog for CommitLog {
    fn stored(&self, table: &TableName, object: &Arc<StoredObject>) {
        self.record(|changes| changes.stored(table, object));
    }

    fn deleted(&self, table: &TableName, last: &StoredObject) {
        self.record(|changes| changes.deleted(table, last));
    }

    fn cleared(&self, table: &TableName) {
        self.record(|changes| changes.cleared(table));
    }
}
