//! A plugin's cache: its watches by name, its own writes on top.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_informer::{IndexFn, StoreReader, Subscription};
use pilothouse_model::{FieldSelector, LabelSelector, Object, ObjectKey, ResourceType};
use pilothouse_plugin::{CacheFilter, CachePage, Misuse};

use crate::own_writes::{Cached, OwnWrite, OwnWrites};
use crate::server::Written;

/// One index of a watch: how the plugin calls it, how the shared informer does, and what it computes.
#[derive(Clone)]
pub(crate) struct ViewIndex {
    /// The name in the informer, made from the definition, so that equal indexes of several plugins are one.
    pub(crate) shared_name: String,
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
    pub(crate) is_target: bool,
    pub(crate) own_writes: Arc<OwnWrites>,
}

/// All watches of a plugin.
#[derive(Default)]
pub(crate) struct Views {
    pub(crate) by_name: BTreeMap<Arc<str>, View>,
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

    /// Remembers a write in every watch that covers it.
    pub(crate) fn record(&self, written: &Written) {
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
        let known = self.index(index)?;
        let mut objects: Vec<Object> = self
            .readers
            .iter()
            .flat_map(|reader| reader.by_index(&known.shared_name, value).unwrap_or_default())
            .collect();
        objects.sort_by(|left, right| left.key().cmp(right.key()));
        let mut objects = self.with_own_writes(objects, |_| true);
        if !self.own_writes.is_empty() {
            objects.retain(|object| known.function.values(object).iter().any(|found| found == value));
        }
        Ok(objects)
    }

    pub(crate) fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Misuse> {
        let known = self.index(index)?;
        if !self.own_writes.is_empty() {
            return Ok(self.by_index(index, value)?.iter().map(|object| object.key().clone()).collect());
        }
        let mut keys: Vec<ObjectKey> = self
            .readers
            .iter()
            .flat_map(|reader| reader.index_keys(&known.shared_name, value).unwrap_or_default())
            .collect();
        keys.sort();
        Ok(keys)
    }

    pub(crate) fn index_values(&self, index: &str) -> Result<Vec<String>, Misuse> {
        let known = self.index(index)?;
        let mut values: Vec<String> = if self.own_writes.is_empty() {
            self.readers
                .iter()
                .flat_map(|reader| reader.index_values(&known.shared_name).unwrap_or_default())
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
