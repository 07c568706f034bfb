//! Collects changes and commits them in groups.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::changes::Changes;
use super::database::Database;
use super::error::DataError;
use crate::storage::{ChangeLog, Event, EventKind, StoredObject, TableName};

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
    /// The number of [`CommitGroup`]s that exist. Nothing is committed meanwhile.
    open_groups: usize,
    is_closing: bool,
    /// Whether a commit failed. No further changes are collected.
    has_failed: bool,
}

impl Pending {
    /// Whether there is something to commit, or the log ends.
    fn is_ready(&self) -> bool {
        self.open_groups == 0 && (!self.changes.is_empty() || self.is_closing)
    }
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
        while !pending.is_ready() {
            self.wake.wait(&mut pending);
        }
        let changes = std::mem::take(&mut pending.changes);
        // Tables record independently of each other, so a later change may have a lower revision.
        pending.changes.revision = changes.revision;
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

    /// Returns a guard that keeps changes from being committed while it lives, so that they are committed together.
    pub(super) fn begin_group(self: &Arc<Self>) -> CommitGroup {
        self.pending.lock().open_groups += 1;
        CommitGroup { log: Arc::clone(self) }
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
    fn written(&self, table: &Arc<TableName>, event: &Arc<Event>) {
        self.record(|changes| match event.kind {
            EventKind::Added | EventKind::Modified => changes.stored(table, &event.object),
            EventKind::Deleted => changes.deleted(table, &event.object),
        });
    }

    fn replaced(&self, table: &Arc<TableName>, objects: &[Arc<StoredObject>], revision: u64) {
        self.record(|changes| changes.replaced(table, objects, revision));
    }
}

/// Changes that are committed in one transaction, or not at all if the process ends before.
#[derive(Debug)]
#[must_use = "the group ends when it is dropped"]
pub(crate) struct CommitGroup {
    log: Arc<CommitLog>,
}

impl Drop for CommitGroup {
    fn drop(&mut self) {
        self.log.pending.lock().open_groups -= 1;
        self.log.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_committed_while_a_group_is_open() {
        let log = Arc::new(CommitLog::default());
        let table = |plural: &str| Arc::new((String::new(), plural.to_owned()));
        let (first, second) = (log.begin_group(), log.begin_group());
        log.replaced(&table("pods"), &[], 2);
        log.close();
        drop(first);
        log.replaced(&table("nodes"), &[], 3);
        assert!(!log.pending.lock().is_ready());
        drop(second);
        let (changes, recorded) = log.take().expect("changes");
        assert_eq!((changes.tables.len(), recorded), (2, 2));
        assert!(log.take().is_none(), "the log is closed");
    }

    #[test]
    fn revision_on_disk_never_decreases() {
        let log = CommitLog::default();
        let table = Arc::new((String::new(), "pods".to_owned()));
        for (recorded, expected) in [(7, 7), (5, 7), (9, 9)] {
            log.replaced(&table, &[], recorded);
            assert_eq!(log.take().expect("changes").0.revision, expected);
        }
    }
}
