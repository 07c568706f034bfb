//! The objects of one resource.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::history::History;
use super::{ChangeLog, Event, EventKind, HistoryLimits, ObjectDraft, Revision, StoredObject, TableName};
use crate::etcd_limits::MAX_OBJECT_BYTES;
use crate::status::Status;

/// The objects of one resource and their recent history.
#[derive(Debug)]
pub(crate) struct Table {
    name: Arc<TableName>,
    revision: Arc<Revision>,
    /// Whether objects keep their values.
    keeps_values: bool,
    contents: RwLock<Contents>,
    changed: watch::Sender<u64>,
    cut: RwLock<Arc<WatchCut>>,
    /// Whether watches send nothing, for tests of clients.
    frozen: watch::Sender<bool>,
    closed: CancellationToken,
}

#[derive(Debug)]
struct Contents {
    /// The objects by namespace and name; those of cluster-scoped resources are under "".
    namespaces: Namespaces,
    history: History,
    /// Receive every change; none if the table was dropped.
    logs: Vec<Arc<dyn ChangeLog>>,
}

/// Objects by namespace and name.
type Namespaces = BTreeMap<Box<str>, BTreeMap<Box<str>, Arc<StoredObject>>>;

/// A write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// An object of this name exists.
    Exists,
    /// The object is not in the state that the writer expected.
    Changed,
    /// The object has this many bytes, more than [`MAX_OBJECT_BYTES`].
    TooLarge(usize),
}

/// The history does not reach back to a revision; `oldest` is the earliest revision that it reaches back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionTooOld {
    pub oldest: u64,
}

/// Consecutive events of a table, oldest first.
#[derive(Debug)]
pub(crate) struct EventBatch {
    pub events: Vec<Arc<Event>>,
    /// The batch contains every event up to this revision.
    pub complete_to: u64,
}

impl Table {
    pub(super) fn new(
        name: TableName,
        revision: Arc<Revision>,
        limits: HistoryLimits,
        logs: Vec<Arc<dyn ChangeLog>>,
    ) -> Self {
        Self {
            name: Arc::new(name),
            keeps_values: logs.iter().any(|log| log.reads_values()),
            // The history begins now: earlier events, of another process or of an earlier CRD of the same name, are unknown.
            contents: RwLock::new(Contents {
                namespaces: BTreeMap::new(),
                history: History::new(limits, revision.current()),
                logs,
            }),
            revision,
            changed: watch::Sender::new(0),
            cut: RwLock::default(),
            frozen: watch::Sender::new(false),
            closed: CancellationToken::new(),
        }
    }

    /// Returns the group and plural name of the resource.
    pub(crate) fn name(&self) -> &TableName {
        &self.name
    }

    /// Returns the current state of an object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
        self.contents.read().namespaces.get(namespace)?.get(name).cloned()
    }

    /// Returns all objects, or those of one namespace, ordered by namespace and name, and their revision.
    pub(crate) fn list(&self, namespace: Option<&str>) -> (Vec<Arc<StoredObject>>, u64) {
        let contents = self.contents.read();
        (contents.objects(namespace), self.revision.current())
    }

    /// Returns the objects of all namespaces, or of one, that meet a condition. The table is locked meanwhile, so the
    /// condition must be quick and must not use the table.
    pub(crate) fn select(
        &self,
        namespace: Option<&str>,
        is_selected: impl Fn(&StoredObject) -> bool,
    ) -> Vec<Arc<StoredObject>> {
        let contents = self.contents.read();
        let keep = |object: &&Arc<StoredObject>| is_selected(object);
        match namespace {
            Some(namespace) => {
                let objects = contents.namespaces.get(namespace).into_iter().flat_map(BTreeMap::values);
                objects.filter(keep).cloned().collect()
            }
            None => contents.namespaces.values().flat_map(BTreeMap::values).filter(keep).cloned().collect(),
        }
    }

    /// Returns the objects as they were at `revision`, reconstructed from the current state and the history.
    pub(crate) fn list_at(
        &self,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<Arc<StoredObject>>, RevisionTooOld> {
        let contents = self.contents.read();
        let Some(later_events) = contents.history.after(revision) else {
            return Err(RevisionTooOld { oldest: contents.history.complete_after() });
        };
        let mut earlier_states: BTreeMap<(&str, &str), Option<&Arc<StoredObject>>> = BTreeMap::new();
        for event in later_events.rev() {
            earlier_states.insert((&event.object.namespace, &event.object.name), event.previous.as_ref());
        }
        let key = |object: &Arc<StoredObject>| (object.namespace.clone(), object.name.clone());
        let mut objects: BTreeMap<_, _> =
            contents.objects(namespace).into_iter().map(|object| (key(&object), object)).collect();
        for ((ns, name), earlier) in earlier_states {
            if namespace.is_some_and(|namespace| namespace != ns) {
                continue;
            }
            match earlier {
                Some(object) => drop(objects.insert((ns.into(), name.into()), Arc::clone(object))),
                None => drop(objects.remove(&(Box::from(ns), Box::from(name)))),
            }
        }
        Ok(objects.into_values().collect())
    }

    /// Returns the number of objects in a namespace, or in all.
    pub(crate) fn count(&self, namespace: Option<&str>) -> usize {
        let contents = self.contents.read();
        match namespace {
            Some(namespace) => contents.namespaces.get(namespace).map_or(0, BTreeMap::len),
            None => contents.namespaces.values().map(BTreeMap::len).sum(),
        }
    }

    /// Stores a new object.
    pub(crate) fn create(&self, draft: ObjectDraft) -> Result<Arc<StoredObject>, WriteError> {
        let mut contents = self.contents.write();
        let metadata = &draft.value["metadata"];
        let (namespace, name) =
            (metadata["namespace"].as_str().unwrap_or(""), metadata["name"].as_str().unwrap_or(""));
        if contents.namespaces.get(namespace).is_some_and(|names| names.contains_key(name)) {
            return Err(WriteError::Exists);
        }
        let object = self.version(draft)?;
        contents.insert(Arc::clone(&object));
        self.record(&mut contents, Event::new(EventKind::Added, Arc::clone(&object), None));
        Ok(object)
    }

    /// Replaces `expected`, if it is still the current state.
    pub(crate) fn update(
        &self,
        expected: &Arc<StoredObject>,
        draft: ObjectDraft,
    ) -> Result<Arc<StoredObject>, WriteError> {
        let mut contents = self.contents.write();
        let slot = contents.slot(expected).ok_or(WriteError::Changed)?;
        let object = self.version(draft)?;
        *slot = Arc::clone(&object);
        self.record(
            &mut contents,
            Event::new(EventKind::Modified, Arc::clone(&object), Some(Arc::clone(expected))),
        );
        Ok(object)
    }

    /// Removes `expected`, if it is still the current state; `last` is the state in the watch event.
    pub(crate) fn delete(
        &self,
        expected: &Arc<StoredObject>,
        last: ObjectDraft,
    ) -> Result<Arc<StoredObject>, WriteError> {
        let mut contents = self.contents.write();
        contents.slot(expected).ok_or(WriteError::Changed)?;
        let object = Arc::new(self.next_version(last));
        if let Some(names) = contents.namespaces.get_mut(&expected.namespace) {
            names.remove(&expected.name);
            if names.is_empty() {
                contents.namespaces.remove(&expected.namespace);
            }
        }
        self.record(
            &mut contents,
            Event::new(EventKind::Deleted, Arc::clone(&object), Some(Arc::clone(expected))),
        );
        Ok(object)
    }

    /// Returns the next version of an object. One that is too large uses up a revision without an event, which no client can tell from a
    /// write to another table.
    fn version(&self, draft: ObjectDraft) -> Result<Arc<StoredObject>, WriteError> {
        let object = self.next_version(draft);
        match object.body().len() {
            len if len > MAX_OBJECT_BYTES => Err(WriteError::TooLarge(len)),
            _ => Ok(Arc::new(object)),
        }
    }

    fn next_version(&self, draft: ObjectDraft) -> StoredObject {
        let create = if self.keeps_values { StoredObject::with_value } else { StoredObject::new };
        create(draft, self.revision.next())
    }

    fn record(&self, contents: &mut Contents, event: Event) {
        let revision = event.revision();
        let event = Arc::new(event);
        for log in &contents.logs {
            log.written(&self.name, &event);
        }
        contents.history.push(event);
        self.changed.send_replace(revision);
        self.revision.announce(revision);
    }

    /// Adds an object that an earlier process stored, as if it had been there from the start: without an event, and with
    /// its resourceVersion.
    #[cfg(feature = "persistence")]
    pub(crate) fn load(&self, object: StoredObject) {
        self.fill(&[Arc::new(object)]);
    }

    /// Adds objects as if they had been there from the start: without an event, and with their resourceVersions.
    pub(super) fn fill(&self, objects: &[Arc<StoredObject>]) {
        let mut contents = self.contents.write();
        for object in objects {
            contents.insert(Arc::clone(object));
        }
        // The caches of configurations and policies compare the last change.
        self.changed.send_replace(self.revision.current());
    }

    /// Stops sending changes to the logs, and records that the table has no objects.
    pub(super) fn detach(&self) {
        let mut contents = self.contents.write();
        for log in std::mem::take(&mut contents.logs) {
            log.replaced(&self.name, &[], self.revision.current());
        }
    }

    /// Returns the first events after `revision`, at most `limit`.
    pub(crate) fn events_after(&self, revision: u64, limit: usize) -> Result<EventBatch, RevisionTooOld> {
        let contents = self.contents.read();
        let Some(events) = contents.history.after(revision) else {
            return Err(RevisionTooOld { oldest: contents.history.complete_after() });
        };
        let all = events.len() <= limit;
        let events: Vec<_> = events.take(limit).cloned().collect();
        let complete_to = match events.last() {
            Some(last) if !all => last.revision(),
            _ => self.revision.current().max(revision),
        };
        Ok(EventBatch { events, complete_to })
    }

    /// Discards the history: watches and exact lists from earlier revisions are answered with 410.
    pub(crate) fn compact(&self) {
        let mut contents = self.contents.write();
        let current = self.revision.current();
        contents.history.compact(current);
    }

    /// Returns the revision of the last write to this table, 0 before the first.
    pub(crate) fn last_change(&self) -> u64 {
        *self.changed.borrow()
    }

    /// Returns a receiver that is notified of every write to this table.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Returns the signal by which [`Self::cut_watches`] ends the watches that are started now.
    pub(crate) fn cut(&self) -> Arc<WatchCut> {
        Arc::clone(&self.cut.read())
    }

    /// Ends all watches after they have sent the events so far; the resource is no longer served.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Returns the token that is cancelled by [`Self::close`].
    pub(crate) fn closed_token(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Ends all open watches at once, with an ERROR event if there is an error.
    pub(crate) fn cut_watches(&self, error: Option<Status>) {
        let cut = std::mem::take(&mut *self.cut.write());
        if let Some(error) = error {
            // Cannot fail: each signal is used once.
            let _ = cut.error.set(error);
        }
        cut.token.cancel();
    }

    /// Sets whether all watches send nothing, not even bookmarks, as if the network lost their packets.
    pub(crate) fn freeze_watches(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }

    /// Whether [`Self::freeze_watches`] has stopped all watches.
    pub(crate) fn has_frozen_watches(&self) -> bool {
        *self.frozen.borrow()
    }

    /// Returns a receiver of whether watches are frozen.
    pub(crate) fn subscribe_frozen(&self) -> watch::Receiver<bool> {
        self.frozen.subscribe()
    }

    /// Locks the table for reading while the guard lives. Any other access to this table by the same thread may deadlock.
    pub(crate) fn lock_read(&self) -> TableReadGuard<'_> {
        TableReadGuard(self.contents.read())
    }

    /// Locks the table for writing while the guard lives. Any other access to this table by the same thread deadlocks.
    pub(super) fn lock_write(&self) -> TableWriteGuard<'_> {
        TableWriteGuard { table: self, contents: self.contents.write() }
    }
}

/// A signal that ends the watches that hold it.
#[derive(Debug, Default)]
pub(crate) struct WatchCut {
    pub token: CancellationToken,
    /// The error that the watches send; unset for none.
    pub error: OnceLock<Status>,
}

/// A table locked for reading.
pub(crate) struct TableReadGuard<'a>(RwLockReadGuard<'a, Contents>);

impl TableReadGuard<'_> {
    /// Returns the current state of an object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<StoredObject>> {
        self.0.namespaces.get(namespace)?.get(name)
    }
}

/// A table locked for writing.
pub(super) struct TableWriteGuard<'a> {
    table: &'a Table,
    contents: RwLockWriteGuard<'a, Contents>,
}

impl TableWriteGuard<'_> {
    /// Replaces all objects at `revision`. They keep their resourceVersions. The history begins anew, so that watches and exact
    /// lists from earlier revisions are answered with 410. Open watches end, as after [`Table::cut_watches`].
    pub(super) fn replace(
        &mut self,
        objects: &[Arc<StoredObject>],
        revision: u64,
        watch_error: Option<Status>,
    ) {
        let Self { table, contents } = self;
        contents.namespaces.clear();
        for object in objects {
            contents.insert(Arc::clone(object));
        }
        contents.history.compact(revision);
        for log in &contents.logs {
            log.replaced(&table.name, objects, revision);
        }
        // A watch that finds the history too short learns from its signal why.
        table.cut_watches(watch_error);
        table.changed.send_replace(revision);
    }
}

impl Contents {
    fn insert(&mut self, object: Arc<StoredObject>) {
        let names = self.namespaces.entry(object.namespace.clone()).or_default();
        names.insert(object.name.clone(), object);
    }

    fn objects(&self, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        match namespace {
            Some(namespace) => self
                .namespaces
                .get(namespace)
                .map(|names| names.values().cloned().collect())
                .unwrap_or_default(),
            None => self.namespaces.values().flat_map(BTreeMap::values).cloned().collect(),
        }
    }

    /// Returns the entry of an object, if `expected` is still its current state.
    fn slot(&mut self, expected: &Arc<StoredObject>) -> Option<&mut Arc<StoredObject>> {
        let slot = self.namespaces.get_mut(&expected.namespace)?.get_mut(&expected.name)?;
        Arc::ptr_eq(slot, expected).then_some(slot)
    }
}
