//! What a collection must contain and report: its state at each resourceVersion, and the events between them. Pure.

use std::collections::BTreeMap;

/// A namespace and a name.
pub(crate) type Key = (&'static str, &'static str);
pub(crate) type State = BTreeMap<Key, Object>;

/// What the model knows of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub revision: u64,
    pub generation: u64,
    /// The label `color`.
    pub color: Option<u8>,
    pub replicas: u64,
    /// `status.replicas`.
    pub observed: u64,
}

/// The part of the collection that a list or a watch selects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    pub namespace: Option<&'static str>,
    pub filter: Filter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    None,
    Color(u8),
    NotColor(u8),
    Name(&'static str),
}

impl Selection {
    pub(crate) fn matches(&self, key: Key, object: &Object) -> bool {
        let matches = match self.filter {
            Filter::None => true,
            Filter::Color(color) => object.color == Some(color),
            Filter::NotColor(color) => object.color != Some(color),
            Filter::Name(name) => key.1 == name,
        };
        matches && self.namespace.is_none_or(|namespace| namespace == key.0)
    }

    /// Returns the selected objects, in the order of lists.
    pub(crate) fn of(&self, state: &State) -> Vec<(Key, Object)> {
        let selected = state.iter().filter(|(key, object)| self.matches(**key, object));
        selected.map(|(key, object)| (*key, object.clone())).collect()
    }
}

/// The answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The write makes a new version.
    Written,
    /// The write succeeds and makes no version.
    Unchanged,
    NotFound,
    /// Another write was first, or the object exists already.
    Conflict,
    Invalid,
}

/// One event of a watch: its type, and the object in it.
pub(crate) type WatchEvent = (&'static str, Key, Object);

/// A change of one object.
#[derive(Clone, Debug)]
struct Change {
    revision: u64,
    key: Key,
    before: Option<Object>,
    after: Option<Object>,
}

/// The collection and its history.
#[derive(Debug)]
pub(crate) struct Model {
    state: State,
    changes: Vec<Change>,
    /// How many changes the server retains.
    retained: usize,
    /// The server has each change after this revision, and none before it.
    pub complete_after: u64,
}

impl Model {
    pub(crate) fn new(retained: usize, revision: u64) -> Self {
        Self { state: State::new(), changes: Vec::new(), retained, complete_after: revision }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Object> {
        self.state.get(&key)
    }

    pub(crate) fn current(&self) -> &State {
        &self.state
    }

    /// Predicts a write that sets what `change` sets, if the object still has the version `known`. Returns the object that it would make.
    pub(crate) fn predict_update(
        &self,
        key: Key,
        known: Option<u64>,
        change: impl FnOnce(&mut Object),
    ) -> (Outcome, Option<Object>) {
        let Some(before) = self.state.get(&key) else { return (Outcome::NotFound, None) };
        if known.is_some_and(|known| known != before.revision) {
            return (Outcome::Conflict, None);
        }
        let mut after = before.clone();
        change(&mut after);
        if after == *before {
            return (Outcome::Unchanged, None);
        }
        // Only the specification has generations.
        after.generation += u64::from(after.replicas != before.replicas);
        (Outcome::Written, Some(after))
    }

    /// Records that the server wrote or deleted an object.
    pub(crate) fn record(&mut self, revision: u64, key: Key, after: Option<Object>) {
        let after = after.map(|object| Object { revision, ..object });
        let before = match &after {
            Some(object) => self.state.insert(key, object.clone()),
            None => self.state.remove(&key),
        };
        self.changes.push(Change { revision, key, before, after });
        if let Some(discarded) = self.changes.len().checked_sub(self.retained + 1) {
            self.complete_after = self.complete_after.max(self.changes[discarded].revision);
        }
    }

    /// Records that the server discarded its history.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.complete_after = revision;
    }

    /// Returns the state at a revision.
    pub(crate) fn state_at(&self, revision: u64) -> State {
        let mut state = State::new();
        for change in self.changes.iter().take_while(|change| change.revision <= revision) {
            match &change.after {
                Some(object) => drop(state.insert(change.key, object.clone())),
                None => drop(state.remove(&change.key)),
            }
        }
        state
    }

    /// Returns the events that a watch of the selection sends after a revision.
    pub(crate) fn events_after(&self, revision: u64, selection: &Selection) -> Vec<WatchEvent> {
        let later = self.changes.iter().filter(|change| change.revision > revision);
        later.filter_map(|change| event(change, selection)).collect()
    }
}

fn event(change: &Change, selection: &Selection) -> Option<WatchEvent> {
    let selected =
        |object: &Option<Object>| object.clone().filter(|object| selection.matches(change.key, object));
    match (selected(&change.before), selected(&change.after)) {
        (None, Some(after)) => Some(("ADDED", change.key, after)),
        (Some(_), Some(after)) => Some(("MODIFIED", change.key, after)),
        // The last state that was selected, at the version of the change.
        (Some(before), None) => Some(("DELETED", change.key, Object { revision: change.revision, ..before })),
        (None, None) => None,
    }
}
