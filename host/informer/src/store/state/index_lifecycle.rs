//! How indexes are built, named and removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::{IndexFn, IndexMemory, ScopeId, StoredObject};
use super::index::Index;
use super::{IndexId, State};

/// An index that is about to get a name: an existing one or a new one.
pub(in crate::store) enum PreparedIndex {
    Shared(IndexId),
    New(BuiltIndex),
}

/// A complete index that is not part of the state yet.
pub(in crate::store) struct BuiltIndex(Index);

/// An index of the objects that were in the store some time ago. It is built without the store's lock.
pub(in crate::store) struct SnapshotIndex {
    index: Index,
    /// The objects in key order.
    objects: Vec<StoredObject>,
}

impl State {
    /// Returns the objects in key order, of which a new index is built; none if there is an equivalent index.
    pub(in crate::store) fn objects_to_index(&self, function: &IndexFn) -> Vec<StoredObject> {
        match self.equivalent_index(function) {
            Some(_) => Vec::new(),
            None => self.range(None, None).cloned().collect(),
        }
    }

    fn equivalent_index(&self, function: &IndexFn) -> Option<IndexId> {
        let equivalent = self.indexes.iter().find(|(_, index)| index.function.is_equivalent(function));
        equivalent.map(|(id, _)| *id)
    }

    /// Completes an index with what has changed since its snapshot, unless there is an equivalent index.
    pub(in crate::store) fn prepare_index(&self, snapshot: &mut SnapshotIndex) -> PreparedIndex {
        if let Some(id) = self.equivalent_index(&snapshot.index.function) {
            return PreparedIndex::Shared(id);
        }
        snapshot.catch_up(self);
        let empty = Index::new(snapshot.index.function.clone());
        PreparedIndex::New(BuiltIndex(std::mem::replace(&mut snapshot.index, empty)))
    }

    /// Gives an index a name. It is charged to `memory` until the name is removed.
    pub(in crate::store) fn name_index(
        &mut self,
        scope: ScopeId,
        name: &str,
        index: PreparedIndex,
        memory: Option<Arc<dyn IndexMemory>>,
    ) {
        let id = match index {
            PreparedIndex::Shared(id) => id,
            PreparedIndex::New(BuiltIndex(index)) => {
                let id = self.next_index;
                self.next_index += 1;
                self.indexes.insert(id, index);
                id
            }
        };
        if let (Some(index), Some(memory)) = (self.indexes.get_mut(&id), memory) {
            index.charge_to(memory, (scope, name.to_owned()));
        }
        self.names.insert((scope, name.to_owned()), id);
    }

    pub(in crate::store) fn index_count(&self) -> usize {
        self.indexes.len()
    }

    /// Like [`drop_scope`](Self::drop_scope), for one name.
    pub(in crate::store) fn drop_index(&mut self, scope: ScopeId, name: &str) -> Option<BuiltIndex> {
        let id = self.names.remove(&(scope, name.to_owned()))?;
        if let Some(index) = self.indexes.get_mut(&id) {
            index.release(|named| named.0 == scope && named.1 == name);
        }
        let has_name = self.names.values().any(|named| *named == id);
        if has_name { None } else { self.indexes.remove(&id).map(BuiltIndex) }
    }

    /// Removes all index names of a scope, and returns the indexes that lost their last name, so that the caller frees them
    /// after releasing the lock.
    pub(in crate::store) fn drop_scope(&mut self, scope: ScopeId) -> Vec<BuiltIndex> {
        self.names.retain(|(owner, _), _| *owner != scope);
        self.indexes.values_mut().for_each(|index| index.release(|named| named.0 == scope));
        let named: BTreeSet<_> = self.names.values().copied().collect();
        let unnamed: Vec<_> = self.indexes.keys().copied().filter(|id| !named.contains(id)).collect();
        unnamed.into_iter().filter_map(|id| self.indexes.remove(&id)).map(BuiltIndex).collect()
    }
}

impl SnapshotIndex {
    /// Builds an index of these objects, which are in key order.
    pub(in crate::store) fn of(function: IndexFn, objects: Vec<StoredObject>) -> Self {
        let mut index = Index::new(function);
        objects.iter().for_each(|stored| index.add(&stored.object()));
        Self { index, objects }
    }

    /// Replaces the values of the objects that changed since the snapshot. Compares only which objects are the same, so that the lock is
    /// held for a short time.
    fn catch_up(&mut self, state: &State) {
        let mut before = self.objects.iter().peekable();
        for stored in state.range(None, None) {
            while let Some(gone) = before.next_if(|before| before.key() < stored.key()) {
                self.index.forget(&gone.object());
            }
            let before = before.next_if(|before| before.key() == stored.key());
            if before.is_some_and(|before| before.is_same_stored(stored)) {
                continue;
            }
            if let Some(before) = before {
                self.index.forget(&before.object());
            }
            self.index.add(&stored.object());
        }
        before.for_each(|gone| self.index.forget(&gone.object()));
    }
}
