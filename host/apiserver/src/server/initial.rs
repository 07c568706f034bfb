//! The objects with which a server begins, shared by servers that are built one after the other.

use std::sync::Arc;

use crate::storage::{Storage, StoredState};

/// The objects of a server that was just built. Servers that are built from them share their memory, and need not create them: for
/// simulations, which build a server for each run.
#[derive(Clone, Debug)]
pub struct InitialObjects(Arc<StoredState>);

impl InitialObjects {
    /// Returns the objects of the storage; `None` if they change meanwhile.
    pub(super) fn of(storage: &Storage) -> Option<Self> {
        storage.state().map(|state| Self(Arc::new(state)))
    }

    /// Returns the revision of the last write.
    pub(super) fn revision(&self) -> u64 {
        self.0.revision
    }

    /// Puts the objects into empty storage of the same revision.
    pub(super) fn fill(&self, storage: &Storage) {
        storage.fill(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use crate::ApiServer;

    #[test]
    fn a_server_begins_with_the_objects_of_another() {
        let first = ApiServer::builder().seed(1).first_revision(10).record_commits(true).build();
        let created = first.take_commits();
        assert!(created.len() > 4, "{created:?}");
        let initial = first.initial_objects().expect("nobody writes");
        let second = ApiServer::builder().seed(2).record_commits(true).initial_objects(initial).build();
        let objects = |server: &ApiServer| {
            let tables = server.inner.state.storage.state().expect("nobody writes").tables;
            tables
                .into_values()
                .flatten()
                .map(|object| (object.uid.clone(), object.revision))
                .collect::<Vec<_>>()
        };
        assert_eq!(objects(&first), objects(&second));
        assert!(second.take_commits().is_empty(), "nothing was written");
        assert_eq!(second.random_draws(), 0);
        let revisions = [&first, &second].map(|server| server.inner.state.storage.revision());
        assert_eq!(revisions[0], revisions[1]);
    }
}
