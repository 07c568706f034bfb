//! One watch as its plugin reads it: the cache, and the plugin's own writes on top.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_informer::{IndexFn, IndexHandle, StoreReader, Subscription};
use pilothouse_model::{
    FieldSelector, LabelSelector, Object, ObjectKey, ParseOptions, Projection, ResourceType, Transform,
};
use pilothouse_plugin::{CacheFilter, CachePage, Misuse};

use crate::cache::computed::Computed;
use crate::cache::own_writes::{Cache, Entry, Look, OwnWrites, Seen};

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
///
/// Every read takes the own writes first and the cache after them. So a write that is not among them any more is in the
/// cache that is read.
pub(crate) struct View {
    pub(crate) resource: ResourceType,
    pub(crate) label_selector: LabelSelector,
    pub(crate) field_selector: FieldSelector,
    pub(crate) projection: Projection,
    /// One per namespace of the watch, or one for all.
    pub(crate) subscriptions: Vec<Arc<Subscription>>,
    pub(crate) cache: Arc<WatchCache>,
    pub(crate) indexes: BTreeMap<String, ViewIndex>,
    /// Keep the shared indexes on the subscriptions, which the next version may reuse: an index is dropped with the last version that
    /// declares it.
    pub(crate) _held_indexes: Vec<IndexHandle>,
    pub(crate) computed: Computed,
    pub(crate) is_target: bool,
    pub(crate) own_writes: Arc<OwnWrites>,
}

/// The cached objects of one watch, without the plugin's own writes.
pub(crate) struct WatchCache {
    /// Empty for a watch of all namespaces, or of a cluster-scoped kind.
    pub(crate) namespaces: Vec<String>,
    /// One per namespace of the watch, or one for all.
    pub(crate) readers: Vec<StoreReader>,
    /// Whether the watch has selectors.
    pub(crate) is_selective: bool,
}

impl WatchCache {
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|known| known == namespace)
    }

    fn reader(&self, namespace: &str) -> Option<&StoreReader> {
        match self.namespaces.iter().position(|known| known == namespace) {
            Some(position) => self.readers.get(position),
            None if self.namespaces.is_empty() => self.readers.first(),
            None => None,
        }
    }

    /// Whether this very version of the object is cached.
    pub(crate) fn has(&self, object: &Object) -> bool {
        let cached = self.reader(object.namespace()).and_then(|reader| reader.get(object.key()));
        cached.is_some_and(|cached| cached.ptr_eq(object))
    }

    /// All keys, in the order of the readers.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.readers.iter().flat_map(StoreReader::list_keys)
    }
}

impl Cache for WatchCache {
    fn look(&self, key: &ObjectKey) -> Option<Look> {
        let reader = self.reader(key.namespace())?;
        // In this order: an object that comes in between is at least as new as the version.
        let (listed_after, seen) = (reader.last_list_began_after(), reader.resource_version());
        Some(Look { object: reader.get(key), seen, listed_after })
    }

    fn is_selective(&self) -> bool {
        self.is_selective
    }
}

impl View {
    /// The object as the plugin sees it.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<Object> {
        let entry = if self.own_writes.is_empty() { None } else { self.own_writes.get(key) };
        match entry {
            Some(entry) => self.seen(key, &entry),
            None => self.cache.reader(key.namespace())?.get(key),
        }
    }

    fn seen(&self, key: &ObjectKey, entry: &Entry) -> Option<Object> {
        match entry.seen(self.cache.look(key)?) {
            Seen::Cached(object) => object,
            Seen::Written(object) => self.selects(&object).then(|| self.projected(object)),
        }
    }

    fn selects(&self, object: &Object) -> bool {
        self.label_selector.matches_object(object) && self.field_selector.matches_object(object)
    }

    /// As the watch will bring it.
    fn projected(&self, object: Object) -> Object {
        if self.projection == Projection::Full {
            return object;
        }
        let transform = Transform { projection: self.projection, ..Transform::standard() };
        let options =
            ParseOptions { api_version: object.api_version(), kind: object.kind(), transform: &transform };
        Object::parse(object.json().as_bytes(), &options).unwrap_or_else(|_| object.clone())
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

    /// Objects after the filter's key, in order: all, or where nothing but the position limits, at least one more than
    /// asked for if there is one.
    fn after(&self, filter: &CacheFilter) -> Vec<Object> {
        let own = self.own(|key| {
            filter.namespace.as_deref().is_none_or(|namespace| namespace == key.namespace())
                && filter.after.as_ref().is_none_or(|after| key > after)
        });
        let limit = match filter.limit {
            // Each own write hides one object of the cache at most.
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

    pub(crate) fn by_index(&self, index: &str, value: &str) -> Result<Vec<Object>, Misuse> {
        let known = match self.index(index)? {
            ViewIndex::Shared(known) => known,
            ViewIndex::Computed => {
                let keys = self.computed.keys(index, value);
                return Ok(keys.iter().filter_map(|key| self.object(key)).collect());
            }
        };
        let own = self.own(|_| true);
        let readers = self.cache.readers.iter();
        let mut objects: Vec<Object> =
            readers.flat_map(|reader| reader.by_index(&known.name, value).unwrap_or_default()).collect();
        if self.cache.readers.len() > 1 {
            sort(&mut objects);
        }
        let has_value = |object: &Object| known.function.values(object).iter().any(|found| found == value);
        Ok(self.with_own_writes(objects, &own, has_value))
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
        let readers = self.cache.readers.iter();
        let mut keys: Vec<ObjectKey> =
            readers.flat_map(|reader| reader.index_keys(&known.name, value).unwrap_or_default()).collect();
        keys.sort();
        Ok(keys)
    }

    pub(crate) fn index_values(&self, index: &str) -> Result<Vec<String>, Misuse> {
        let ViewIndex::Shared(known) = self.index(index)? else {
            return Ok(self.computed.values(index, |key| self.object(key).is_some()));
        };
        let own = self.own(|_| true);
        let readers = self.cache.readers.iter();
        let mut values: BTreeSet<String> =
            readers.flat_map(|reader| reader.index_values(&known.name).unwrap_or_default()).collect();
        // What the cache shows of a written object may be the last that has its values. Each value is looked at once, however many
        // own writes there are.
        let cached = own.iter().filter_map(|(key, _)| self.cache.reader(key.namespace())?.get(key));
        let doubtful: BTreeSet<String> = cached.flat_map(|cached| known.function.values(&cached)).collect();
        let is_written = |key: &ObjectKey| own.binary_search_by(|(written, _)| written.cmp(key)).is_ok();
        for value in &doubtful {
            let mut readers = self.cache.readers.iter();
            let keys = |reader: &StoreReader| reader.index_keys(&known.name, value).unwrap_or_default();
            if readers.all(|reader| keys(reader).iter().all(is_written)) {
                values.remove(value);
            }
        }
        for (key, entry) in &own {
            values.extend(self.seen(key, entry).iter().flat_map(|seen| known.function.values(seen)));
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

    /// The own writes to the keys that are wanted.
    fn own(&self, wanted: impl Fn(&ObjectKey) -> bool) -> Vec<(ObjectKey, Entry)> {
        if self.own_writes.is_empty() { Vec::new() } else { self.own_writes.entries(wanted) }
    }

    /// Replaces, adds and takes away what the plugin itself wrote, in objects that are in order; `belongs` says which
    /// states of those keys are part of the answer.
    fn with_own_writes(
        &self,
        mut objects: Vec<Object>,
        own: &[(ObjectKey, Entry)],
        belongs: impl Fn(&Object) -> bool,
    ) -> Vec<Object> {
        for (key, entry) in own {
            let seen = self.seen(key, entry).filter(&belongs);
            match (objects.binary_search_by(|object| object.key().cmp(key)), seen) {
                (Ok(position), Some(seen)) => objects[position] = seen,
                (Ok(position), None) => drop(objects.remove(position)),
                (Err(position), Some(seen)) => objects.insert(position, seen),
                (Err(_), None) => {}
            }
        }
        objects
    }
}

fn sort(objects: &mut [Object]) {
    objects.sort_by(|left, right| left.key().cmp(right.key()));
}
