//! One watch as its plugin reads it: the cache, with the plugin's own writes on top.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_informer::{IndexFn, IndexHandle, StoreReader, Subscription};
use pilothouse_model::{
    FieldSelector, LabelSelector, Object, ObjectKey, ParseOptions, Projection, ResourceType, Transform,
};
use pilothouse_plugin::{CacheFilter, CachePage, Misuse};

use crate::cache::computed::ComputedIndexes;
use crate::cache::own_writes::{CacheState, CacheStateReader, Entry, OwnWrites, ReadResult};

/// One index of a watch.
#[derive(Clone)]
pub(crate) enum ViewIndex {
    /// An index of the shared informer.
    Shared(SharedIndex),
    /// An index that the plugin computes, in [`View::computed`] under the same name.
    Computed,
}

/// An index of the shared informer.
#[derive(Clone)]
pub(crate) struct SharedIndex {
    /// The name in the informer, derived from the definition, so that plugins with equal indexes share one.
    pub(crate) name: String,
    pub(crate) function: IndexFn,
}

/// One watch as its plugin reads it.
///
/// Every read takes the own writes first and the cache after them. So a write that has just been forgotten is in the cache that is read.
pub(crate) struct View {
    pub(crate) resource: ResourceType,
    pub(crate) label_selector: LabelSelector,
    pub(crate) field_selector: FieldSelector,
    pub(crate) projection: Projection,
    /// One per namespace of the watch, or one for all namespaces.
    pub(crate) subscriptions: Vec<Arc<Subscription>>,
    pub(crate) cache: Arc<WatchCache>,
    /// By the name that the plugin declares.
    pub(crate) indexes: BTreeMap<String, ViewIndex>,
    /// Keep the shared indexes of this version. The subscriptions may outlive the version, and an index is dropped with the last version
    /// that declares it.
    pub(crate) _index_handles: Vec<IndexHandle>,
    pub(crate) computed: ComputedIndexes,
    pub(crate) is_target: bool,
    pub(crate) own_writes: Arc<OwnWrites>,
}

/// The cached objects of one watch, without the plugin's own writes.
pub(crate) struct WatchCache {
    /// Empty for a watch of all namespaces, or of a cluster-scoped kind.
    pub(crate) namespaces: Vec<String>,
    /// One per namespace of the watch, or one for all namespaces.
    pub(crate) readers: Vec<StoreReader>,
    /// Whether the watch has selectors.
    pub(crate) is_selective: bool,
}

impl WatchCache {
    /// Whether the watch includes this namespace.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|covered| covered == namespace)
    }

    fn reader(&self, namespace: &str) -> Option<&StoreReader> {
        match self.namespaces.iter().position(|covered| covered == namespace) {
            Some(position) => self.readers.get(position),
            None if self.namespaces.is_empty() => self.readers.first(),
            None => None,
        }
    }

    /// Whether exactly this object is cached: the same allocation, not only an equal one.
    pub(crate) fn contains(&self, object: &Object) -> bool {
        let cached = self.reader(object.namespace()).and_then(|reader| reader.get(object.key()));
        cached.is_some_and(|cached| cached.ptr_eq(object))
    }

    /// Returns all keys, in the order of the readers.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.readers.iter().flat_map(StoreReader::list_keys)
    }
}

impl CacheStateReader for WatchCache {
    fn state(&self, key: &ObjectKey) -> Option<CacheState> {
        let reader = self.reader(key.namespace())?;
        // The version is read before the object, which is therefore at least as new.
        let (listed_after, version) = (reader.last_list_began_after(), reader.resource_version());
        Some(CacheState { object: reader.get(key), version, listed_after })
    }

    fn is_selective(&self) -> bool {
        self.is_selective
    }
}

impl View {
    /// Returns an object as the plugin sees it.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<Object> {
        let entry = if self.own_writes.is_empty() { None } else { self.own_writes.get(key) };
        match entry {
            Some(entry) => self.with_own_write(key, &entry),
            None => self.cache.reader(key.namespace())?.get(key),
        }
    }

    /// Returns an object that the plugin has written, as the plugin sees it.
    fn with_own_write(&self, key: &ObjectKey, entry: &Entry) -> Option<Object> {
        match entry.read(self.cache.state(key)?) {
            ReadResult::Cached(object) => object,
            ReadResult::Written(object) => self.selects(&object).then(|| self.project(object)),
        }
    }

    fn selects(&self, object: &Object) -> bool {
        self.label_selector.matches_object(object) && self.field_selector.matches_object(object)
    }

    /// Reduces an object to what the watch's projection keeps, as the informer does.
    fn project(&self, object: Object) -> Object {
        if self.projection == Projection::Full {
            return object;
        }
        let transform = Transform::standard().with_projection(self.projection);
        let options =
            ParseOptions::default().with_type(object.api_version(), object.kind()).with_transform(&transform);
        Object::parse(object.json().as_bytes(), &options).unwrap_or_else(|_| object.clone())
    }

    /// Whether the initial list of every subscription is in the cache.
    pub(crate) fn has_synced(&self) -> bool {
        self.subscriptions.iter().all(|subscription| subscription.status().synced)
    }

    /// Returns a page of objects, in the order of their keys.
    pub(crate) fn page(&self, filter: &CacheFilter) -> CachePage {
        let limit = filter.limit.unwrap_or(usize::MAX);
        let mut items = self.candidates(filter);
        items.retain(|object| filter.labels.matches_object(object));
        let more = items.len() > limit;
        items.truncate(limit);
        CachePage { items, more }
    }

    /// Returns the objects after the filter's key, in order. Without a label selector, returns only one more than the limit, so that the
    /// caller knows whether there are more.
    fn candidates(&self, filter: &CacheFilter) -> Vec<Object> {
        let own = self.own_entries(|key| {
            filter.namespace.as_deref().is_none_or(|namespace| namespace == key.namespace())
                && filter.after.as_ref().is_none_or(|after| key > after)
        });
        let limit = match filter.limit {
            // Each own write hides at most one object of the cache.
            Some(limit) if filter.labels.is_empty() => limit.saturating_add(1 + own.len()),
            _ => usize::MAX,
        };
        let readers = match &filter.namespace {
            Some(namespace) => self.cache.reader(namespace).into_iter().collect::<Vec<_>>(),
            None => self.cache.readers.iter().collect(),
        };
        let mut objects: Vec<Object> = readers
            .iter()
            .flat_map(|reader| reader.page(filter.namespace.as_deref(), filter.after.as_ref(), limit))
            .collect();
        if readers.len() > 1 {
            sort(&mut objects);
        }
        self.with_own_writes(objects, &own, |_| true)
    }

    /// Returns the objects with this index value, in the order of their keys. Errors if there is no such index.
    pub(crate) fn by_index(&self, index: &str, value: &str) -> Result<Vec<Object>, Misuse> {
        let shared = match self.index(index)? {
            ViewIndex::Shared(shared) => shared,
            ViewIndex::Computed => {
                let keys = self.computed.keys(index, value);
                return Ok(keys.iter().filter_map(|key| self.object(key)).collect());
            }
        };
        let own = self.own_entries(|_| true);
        let readers = self.cache.readers.iter();
        let mut objects: Vec<Object> =
            readers.flat_map(|reader| reader.by_index(&shared.name, value).unwrap_or_default()).collect();
        if self.cache.readers.len() > 1 {
            sort(&mut objects);
        }
        let has_value = |object: &Object| shared.function.values(object).iter().any(|found| found == value);
        Ok(self.with_own_writes(objects, &own, has_value))
    }

    /// Returns the keys of the objects with this index value, in order. Errors if there is no such index.
    pub(crate) fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Misuse> {
        let ViewIndex::Shared(shared) = self.index(index)? else {
            let mut keys = self.computed.keys(index, value);
            keys.retain(|key| self.object(key).is_some());
            return Ok(keys);
        };
        if !self.own_writes.is_empty() {
            return Ok(self.by_index(index, value)?.iter().map(|object| object.key().clone()).collect());
        }
        let readers = self.cache.readers.iter();
        let mut keys: Vec<ObjectKey> =
            readers.flat_map(|reader| reader.index_keys(&shared.name, value).unwrap_or_default()).collect();
        keys.sort();
        Ok(keys)
    }

    /// Returns the values of an index that at least one object has, in order. Errors if there is no such index.
    pub(crate) fn index_values(&self, index: &str) -> Result<Vec<String>, Misuse> {
        let ViewIndex::Shared(shared) = self.index(index)? else {
            return Ok(self.computed.values(index, |key| self.object(key).is_some()));
        };
        let own = self.own_entries(|_| true);
        let readers = self.cache.readers.iter();
        let mut values: BTreeSet<String> =
            readers.flat_map(|reader| reader.index_values(&shared.name).unwrap_or_default()).collect();
        // A value may be in the index only because of cached states that own writes replace. Each such value is checked once, however
        // many own writes there are.
        let replaced = own.iter().filter_map(|(key, _)| self.cache.reader(key.namespace())?.get(key));
        let doubtful: BTreeSet<String> =
            replaced.flat_map(|cached| shared.function.values(&cached)).collect();
        let is_written = |key: &ObjectKey| own.binary_search_by(|(written, _)| written.cmp(key)).is_ok();
        for value in &doubtful {
            let mut readers = self.cache.readers.iter();
            let keys = |reader: &StoreReader| reader.index_keys(&shared.name, value).unwrap_or_default();
            if readers.all(|reader| keys(reader).iter().all(is_written)) {
                values.remove(value);
            }
        }
        for (key, entry) in &own {
            let object = self.with_own_write(key, entry);
            values.extend(object.iter().flat_map(|object| shared.function.values(object)));
        }
        Ok(values.into_iter().collect())
    }

    fn index(&self, index: &str) -> Result<&ViewIndex, Misuse> {
        self.indexes.get(index).ok_or_else(|| Misuse::UnknownIndex {
            watch: self.resource.to_string(),
            index: index.to_owned(),
            declared: self.indexes.keys().cloned().collect(),
        })
    }

    /// Returns the own writes to the keys that pass the filter, in order.
    fn own_entries(&self, filter: impl Fn(&ObjectKey) -> bool) -> Vec<(ObjectKey, Entry)> {
        if self.own_writes.is_empty() { Vec::new() } else { self.own_writes.entries(filter) }
    }

    /// Applies the own writes to a sorted list of objects. `belongs` tells whether a written state is part of the result.
    fn with_own_writes(
        &self,
        mut objects: Vec<Object>,
        own: &[(ObjectKey, Entry)],
        belongs: impl Fn(&Object) -> bool,
    ) -> Vec<Object> {
        for (key, entry) in own {
            let written = self.with_own_write(key, entry).filter(&belongs);
            match (objects.binary_search_by(|object| object.key().cmp(key)), written) {
                (Ok(position), Some(written)) => objects[position] = written,
                (Ok(position), None) => drop(objects.remove(position)),
                (Err(position), Some(written)) => objects.insert(position, written),
                (Err(_), None) => {}
            }
        }
        objects
    }
}

fn sort(objects: &mut [Object]) {
    objects.sort_by(|left, right| left.key().cmp(right.key()));
}
