//! A plugin's cache: its watches by name, its own writes on top.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_informer::{IndexFn, StoreReader, Subscription};
use pilothouse_model::{FieldSelector, LabelSelector, Object, ObjectKey, ResourceType};
use pilothouse_plugin::{CacheFilter, CachePage, Misuse};

use crate::computed::Computed;
use crate::indexer::Indexer;
use crate::own_writes::{Cached, OwnWrite, OwnWrites};
use crate::server::Written;

/// One index of a watch, as the plugin calls it.
#[derive(Clone)]
pub(crate) enum ViewIndex {
    /// The host's.
    Shared(SharedIndex),
    /// The plugin's own, in [`View::computed`] under the same name.
    Computed,
}

/// How the shared informer calls an index, and what it computes.
#[derive(Clone)]
pub(crate) struct SharedIndex {
    /// Made from the definition, so that equal indexes of several plugins are one.
    pub(crate) name: String,
    pub(crate) function: IndexFn,
}

/// One watch as its plugin reads it.
pub(crate) struct View {
    pub(crate) resource: ResourceType,
    pub(crate) label_selector: LabelSelector,
    pub(crate) field_selector: FieldSelector,
    pub(crate) namespaces: Vec<String>,
    /// One per namespace of the watch, or one for all.
    pub(crate) subscriptions: Vec<Arc<Subscription>>,
    pub(crate) readers: Vec<StoreReader>,
    pub(crate) indexes: BTreeMap<String, ViewIndex>,
    pub(crate) computed: Computed,
    pub(crate) is_target: bool,
    pub(crate) own_writes: Arc<OwnWrites>,
}

/// All watches of a plugin.
#[derive(Default)]
pub(crate) struct Views {
    pub(crate) by_name: BTreeMap<Arc<str>, View>,
    /// Present when a watch has a computed index.
    pub(crate) indexer: Option<Indexer>,
}

impl Views {
    pub(crate) fn get(&self, watch: &str) -> Result<&View, Misuse> {
        self.by_name.get(watch).ok_or_else(|| Misuse::UnknownWatch {
            watch: watch.to_owned(),
            declared: self.by_name.keys().map(ToString::to_string).collect(),
        })
    }

    /// The shared name of a target watch.
    pub(crate) fn target(&self, watch: &str) -> Result<Arc<str>, Misuse> {
        self.get(watch)?;
        match self.by_name.get_key_value(watch) {
            Some((name, view)) if view.is_target => Ok(Arc::clone(name)),
            _ => Err(Misuse::NotATarget {
                watch: watch.to_owned(),
                targets: self
                    .by_name
                    .iter()
                    .filter(|(_, view)| view.is_target)
                    .map(|(name, _)| name.to_string())
                    .collect(),
            }),
        }
    }

    /// Whether the watch has an index that the plugin computes.
    pub(crate) fn is_computed(&self, watch: &str) -> bool {
        self.indexer.is_some() && self.by_name.get(watch).is_some_and(|view| !view.computed.is_empty())
    }

    /// Has the computed indexes of a watch know these objects as the plugin's reads answer them now. Cancellation safe.
    pub(crate) async fn index<'a>(
        self: &Arc<Self>,
        watch: &str,
        keys: impl IntoIterator<Item = &'a ObjectKey> + Send,
    ) {
        let Some(indexer) = &self.indexer else { return };
        let Some((watch, view)) = self.by_name.get_key_value(watch) else { return };
        if view.computed.is_empty() {
            return;
        }
        let is_stale = |key: &&ObjectKey| !view.computed.is_current(key, view.object(key).as_ref());
        let stale: Vec<ObjectKey> = keys.into_iter().filter(is_stale).cloned().collect();
        if !stale.is_empty() {
            indexer.index(Arc::clone(self), watch, stale).await;
        }
    }

    /// [`index`](Self::index) for all objects of all watches.
    pub(crate) async fn index_all(self: &Arc<Self>) {
        for (watch, view) in self.by_name.iter().filter(|(_, view)| !view.computed.is_empty()) {
            let mut keys: Vec<_> = view.readers.iter().flat_map(StoreReader::list_keys).collect();
            // Also those that are gone: they have to be taken out.
            keys.extend(view.computed.objects());
            keys.sort_unstable();
            keys.dedup();
            self.index(watch, &keys).await;
        }
    }

    /// Remembers a write in every watch that covers it, and has it found by the computed indexes when it returns.
    pub(crate) async fn record(self: &Arc<Self>, written: &Written) {
        self.remember(written);
        for (watch, view) in &self.by_name {
            if view.covers(written.resource(), written.key()) {
                self.index(watch, [written.key()]).await;
            }
        }
    }

    fn remember(&self, written: &Written) {
        for view in self.by_name.values() {
            match written {
                // The answer of a subresource such as `scale` is another kind, and no state of the object.
                Written::Object(resource, object) if object.kind() != resource.kind => {}
                Written::Object(resource, object) if view.covers(resource, object.key()) => {
                    view.own_writes.record(object.key().clone(), OwnWrite::Object(object.clone()));
                }
                Written::Ended(resource, object) if view.covers(resource, object.key()) => {
                    let write = OwnWrite::Deleted { uid: object.uid().to_owned() };
                    view.own_writes.record(object.key().clone(), write);
                }
                Written::Deleted(resource, key, uid) if view.covers(resource, key) => {
                    view.own_writes.record(key.clone(), OwnWrite::Deleted { uid: uid.clone() });
                }
                _ => {}
            }
        }
    }
}

impl View {
    fn covers(&self, resource: &ResourceType, key: &ObjectKey) -> bool {
        self.resource == *resource
            && (self.namespaces.is_empty()
                || self.namespaces.iter().any(|namespace| namespace == key.namespace()))
    }

    fn reader(&self, namespace: &str) -> Option<&StoreReader> {
        match self.namespaces.iter().position(|known| known == namespace) {
            Some(position) => self.readers.get(position),
            None if self.namespaces.is_empty() => self.readers.first(),
            None => None,
        }
    }

    /// The object as the plugin sees it.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<Object> {
        let reader = self.reader(key.namespace())?;
        if self.own_writes.is_empty() {
            return reader.get(key);
        }
        // The version is read first: an object that comes in between is at least that new.
        let seen = reader.resource_version();
        let object = reader.get(key);
        self.own_writes
            .see(key, &Cached { object: object.as_ref(), seen: &seen })
            .filter(|object| self.selects(object))
    }

    fn selects(&self, object: &Object) -> bool {
        self.label_selector.matches_object(object) && self.field_selector.matches_object(object)
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.subscriptions.iter().all(|subscription| subscription.status().synced)
    }

    pub(crate) fn page(&self, filter: &CacheFilter) -> CachePage {
        let limit = filter.limit.unwrap_or(usize::MAX);
        let mut items = self.after(filter);
        items.retain(|object| filter.labels.matches_object(object));
        let more = items.len() > limit;
        items.truncate(limit);
        CachePage { items, more }
    }

    /// All objects after the filter's key, in order. Where nothing but the position limits, no more than one page is
    /// copied from the store.
    fn after(&self, filter: &CacheFilter) -> Vec<Object> {
        let plain = filter.labels.is_empty() && self.own_writes.is_empty();
        let limit = match filter.limit {
            Some(limit) if plain => limit.saturating_add(1),
            _ => usize::MAX,
        };
        let readers = match &filter.namespace {
            Some(namespace) => self.reader(namespace).into_iter().collect::<Vec<_>>(),
            None => self.readers.iter().collect(),
        };
        let mut objects: Vec<Object> = readers
            .iter()
            .flat_map(|reader| reader.page(filter.namespace.as_deref(), filter.after.as_ref(), limit))
            .collect();
        if readers.len() > 1 {
            objects.sort_by(|left, right| left.key().cmp(right.key()));
        }
        self.with_own_writes(objects, |key| {
            filter.namespace.as_deref().is_none_or(|namespace| namespace == key.namespace())
                && filter.after.as_ref().is_none_or(|after| key > after)
        })
    }

    pub(crate) fn by_index(&self, index: &str, value: &str) -> Result<Vec<Object>, Misuse> {
        let known = match self.index(index)? {
            ViewIndex::Shared(known) => known,
            ViewIndex::Computed => {
                let keys = self.computed.keys(index, value);
                return Ok(keys.iter().filter_map(|key| self.object(key)).collect());
            }
        };
        let mut objects: Vec<Object> = self
            .readers
            .iter()
            .flat_map(|reader| reader.by_index(&known.name, value).unwrap_or_default())
            .collect();
        objects.sort_by(|left, right| left.key().cmp(right.key()));
        let mut objects = self.with_own_writes(objects, |_| true);
        if !self.own_writes.is_empty() {
            objects.retain(|object| known.function.values(object).iter().any(|found| found == value));
        }
        Ok(objects)
    }

    pub(crate) fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Misuse> {
        let ViewIndex::Shared(known) = self.index(index)? else {
            let mut keys = self.computed.keys(index, value);
            keys.retain(|key| self.object(key).is_some());
            return Ok(keys);
        };
        if !self.own_writes.is_empty() {
            return Ok(self.by_index(index, value)?.iter().map(|object| object.key().clone()).collect());
        }
        let mut keys: Vec<ObjectKey> = self
            .readers
            .iter()
            .flat_map(|reader| reader.index_keys(&known.name, value).unwrap_or_default())
            .collect();
        keys.sort();
        Ok(keys)
    }

    pub(crate) fn index_values(&self, index: &str) -> Result<Vec<String>, Misuse> {
        let ViewIndex::Shared(known) = self.index(index)? else { return Ok(self.computed.values(index)) };
        let mut values: Vec<String> = if self.own_writes.is_empty() {
            self.readers
                .iter()
                .flat_map(|reader| reader.index_values(&known.name).unwrap_or_default())
                .collect()
        } else {
            let objects = self.readers.iter().flat_map(StoreReader::list).collect();
            self.with_own_writes(objects, |_| true)
                .iter()
                .flat_map(|object| known.function.values(object))
                .collect()
        };
        values.sort();
        values.dedup();
        Ok(values)
    }

    fn index(&self, index: &str) -> Result<&ViewIndex, Misuse> {
        self.indexes.get(index).ok_or_else(|| Misuse::UnknownIndex {
            watch: self.resource.to_string(),
            index: index.to_owned(),
            declared: self.indexes.keys().cloned().collect(),
        })
    }

    /// Replaces, adds and takes away what the plugin itself wrote; `wanted` says which keys belong into the answer.
    fn with_own_writes(&self, mut objects: Vec<Object>, wanted: impl Fn(&ObjectKey) -> bool) -> Vec<Object> {
        if self.own_writes.is_empty() {
            return objects;
        }
        for key in self.own_writes.keys().into_iter().filter(|key| wanted(key)) {
            objects.retain(|object| *object.key() != key);
            objects.extend(self.object(&key));
        }
        objects.sort_by(|left, right| left.key().cmp(right.key()));
        objects
    }
}
