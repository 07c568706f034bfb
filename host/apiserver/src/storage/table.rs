use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::history::History;
use super::{Draft, Event, EventKind, HistoryLimits, Revision, Stored};
use crate::status::Status;

/// The objects of one resource and their recent history.
#[derive(Debug)]
pub(crate) struct Table {
    revision: Arc<Revision>,
    state: RwLock<State>,
    changed: watch::Sender<u64>,
    cut: RwLock<Arc<Cut>>,
    closed: CancellationToken,
}

#[derive(Debug)]
struct State {
    namespaces: BTreeMap<Box<str>, BTreeMap<Box<str>, Arc<Stored>>>,
    history: History,
}

/// Why a write did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// The name is taken.
    Exists,
    /// The object is not, or no longer, in the state that the writer expected.
    Changed,
}

/// The history does not reach back so far; `oldest` is the earliest revision that it does reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld {
    pub oldest: u64,
}

/// Some events of a table, in order.
#[derive(Debug)]
pub(crate) struct Batch {
    pub events: Vec<Arc<Event>>,
    /// Nothing up to this revision is missing.
    pub complete_to: u64,
}

impl Table {
    pub(super) fn new(revision: Arc<Revision>, limits: HistoryLimits) -> Self {
        Self {
            // Of what was before the table, nobody here can tell: an earlier process, or a CRD of the same name.
            state: RwLock::new(State {
                namespaces: BTreeMap::new(),
                history: History::new(limits, revision.current()),
            }),
            revision,
            changed: watch::Sender::new(0),
            cut: RwLock::default(),
            closed: CancellationToken::new(),
        }
    }

    /// The present state of an object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.state.read().namespaces.get(namespace)?.get(name).cloned()
    }

    /// All objects, or those of one namespace, by namespace and name, and the revision at which that is so.
    pub(crate) fn list(&self, namespace: Option<&str>) -> (Vec<Arc<Stored>>, u64) {
        let state = self.state.read();
        (state.objects(namespace), self.revision.current())
    }

    /// The objects as they were at `revision`.
    pub(crate) fn list_at(&self, namespace: Option<&str>, revision: u64) -> Result<Vec<Arc<Stored>>, TooOld> {
        let state = self.state.read();
        let Some(later) = state.history.after(revision) else {
            return Err(TooOld { oldest: state.history.complete_after() });
        };
        let mut undone: BTreeMap<(&str, &str), Option<&Arc<Stored>>> = BTreeMap::new();
        for event in later.rev() {
            undone.insert((&event.object.namespace, &event.object.name), event.previous.as_ref());
        }
        let key = |object: &Arc<Stored>| (object.namespace.clone(), object.name.clone());
        let mut objects: BTreeMap<_, _> =
            state.objects(namespace).into_iter().map(|object| (key(&object), object)).collect();
        for ((ns, name), before) in undone {
            if namespace.is_some_and(|wanted| wanted != ns) {
                continue;
            }
            match before {
                Some(object) => drop(objects.insert((ns.into(), name.into()), Arc::clone(object))),
                None => drop(objects.remove(&(Box::from(ns), Box::from(name)))),
            }
        }
        Ok(objects.into_values().collect())
    }

    /// How many objects there are, in a namespace or in all.
    pub(crate) fn count(&self, namespace: Option<&str>) -> usize {
        let state = self.state.read();
        match namespace {
            Some(namespace) => state.namespaces.get(namespace).map_or(0, BTreeMap::len),
            None => state.namespaces.values().map(BTreeMap::len).sum(),
        }
    }

    /// Stores a new object.
    pub(crate) fn create(&self, draft: Draft) -> Result<Arc<Stored>, WriteError> {
        let mut state = self.state.write();
        let metadata = &draft.value["metadata"];
        let (namespace, name) =
            (metadata["namespace"].as_str().unwrap_or(""), metadata["name"].as_str().unwrap_or(""));
        if state.namespaces.get(namespace).is_some_and(|names| names.contains_key(name)) {
            return Err(WriteError::Exists);
        }
        let object = Arc::new(Stored::new(draft, self.revision.next()));
        let names = state.namespaces.entry(object.namespace.clone()).or_default();
        names.insert(object.name.clone(), Arc::clone(&object));
        self.record(&mut state, Event::new(EventKind::Added, Arc::clone(&object), None));
        Ok(object)
    }

    /// Replaces `expected`, if that is still the present state.
    pub(crate) fn update(&self, expected: &Arc<Stored>, draft: Draft) -> Result<Arc<Stored>, WriteError> {
        let mut state = self.state.write();
        let slot = state.slot(expected).ok_or(WriteError::Changed)?;
        let object = Arc::new(Stored::new(draft, self.revision.next()));
        *slot = Arc::clone(&object);
        self.record(
            &mut state,
            Event::new(EventKind::Modified, Arc::clone(&object), Some(Arc::clone(expected))),
        );
        Ok(object)
    }

    /// Removes `expected`, if that is still the present state; `last` is the state that watchers are told.
    pub(crate) fn delete(&self, expected: &Arc<Stored>, last: Draft) -> Result<Arc<Stored>, WriteError> {
        let mut state = self.state.write();
        state.slot(expected).ok_or(WriteError::Changed)?;
        let object = Arc::new(Stored::new(last, self.revision.next()));
        if let Some(names) = state.namespaces.get_mut(&expected.namespace) {
            names.remove(&expected.name);
            if names.is_empty() {
                state.namespaces.remove(&expected.namespace);
            }
        }
        self.record(
            &mut state,
            Event::new(EventKind::Deleted, Arc::clone(&object), Some(Arc::clone(expected))),
        );
        Ok(object)
    }

    fn record(&self, state: &mut State, event: Event) {
        let revision = event.revision();
        state.history.push(Arc::new(event));
        self.changed.send_replace(revision);
        self.revision.announce(revision);
    }

    /// At most `limit` events after `revision`.
    pub(crate) fn events_after(&self, revision: u64, limit: usize) -> Result<Batch, TooOld> {
        let state = self.state.read();
        let Some(events) = state.history.after(revision) else {
            return Err(TooOld { oldest: state.history.complete_after() });
        };
        let all = events.len() <= limit;
        let events: Vec<_> = events.take(limit).cloned().collect();
        let complete_to = match events.last() {
            Some(last) if !all => last.revision(),
            _ => self.revision.current().max(revision),
        };
        Ok(Batch { events, complete_to })
    }

    /// Forgets the history up to now: watches and lists from earlier revisions are answered with 410.
    pub(crate) fn compact(&self) {
        let mut state = self.state.write();
        let current = self.revision.current();
        state.history.compact(current);
    }

    /// The revision of the last write to this table, 0 before the first.
    pub(crate) fn last_change(&self) -> u64 {
        *self.changed.borrow()
    }

    /// Tells of every write to this table.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// How the present watches may be cut.
    pub(crate) fn cut(&self) -> Arc<Cut> {
        Arc::clone(&self.cut.read())
    }

    /// Ends all watches for good, once they have sent what happened so far.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// The token that is cancelled when the table is closed.
    pub(crate) fn closed_token(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Ends all present watches at once, with an ERROR event if there is an error.
    pub(crate) fn cut_watches(&self, error: Option<Status>) {
        let before = std::mem::take(&mut *self.cut.write());
        if let Some(error) = error {
            // A new cut has no error yet, and this one is cut once.
            let _ = before.error.set(error);
        }
        before.token.cancel();
    }

    /// Keeps the table from changing while the guard lives. Other tables may be written meanwhile; reading or writing
    /// this one by other means than the guard may be a deadlock.
    pub(crate) fn freeze(&self) -> Frozen<'_> {
        Frozen(self.state.read())
    }
}

/// Ends the watches that were started before it is cut.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    pub token: CancellationToken,
    /// What the watches are told.
    pub error: OnceLock<Status>,
}

/// A table that does not change.
pub(crate) struct Frozen<'a>(RwLockReadGuard<'a, State>);

impl Frozen<'_> {
    /// The state of an object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.0.namespaces.get(namespace)?.get(name)
    }
}

impl State {
    fn objects(&self, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        match namespace {
            Some(namespace) => self
                .namespaces
                .get(namespace)
                .map(|names| names.values().cloned().collect())
                .unwrap_or_default(),
            None => self.namespaces.values().flat_map(BTreeMap::values).cloned().collect(),
        }
    }

    fn slot(&mut self, expected: &Arc<Stored>) -> Option<&mut Arc<Stored>> {
        let slot = self.namespaces.get_mut(&expected.namespace)?.get_mut(&expected.name)?;
        Arc::ptr_eq(slot, expected).then_some(slot)
    }
}
