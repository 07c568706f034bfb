//! One watch as its plugin reads it: the cache, with the plugin's own writes on top.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_informer::{IndexHandle, ScanPage, Subscription};
use pilothouse_model::{
    FieldSelector, LabelSelector, Object, ObjectKey, ParseOptions, Projection, ResourceType, Transform,
};
use pilothouse_plugin::{CacheFilter, CachePage, IndexCursor, IndexPage};

use super::index_reads::ViewIndex;
use super::watch_cache::WatchCache;
use crate::cache::computed::ComputedIndexes;
use crate::cache::own_writes::{CacheStateReader, Entry, OwnWrites, ReadResult};

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
    pub(super) fn with_own_write(&self, key: &ObjectKey, entry: &Entry) -> Option<Object> {
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

    /// Returns the keys of cached objects in a namespace, after the key of `from`. Looks at no more than `step` objects.
    pub(crate) fn keys_in(&self, namespace: &str, from: &IndexCursor, step: usize) -> IndexPage<ObjectKey> {
        let Some(reader) = self.cache.reader(namespace) else { return IndexPage::default() };
        let ScanPage { found, next } = reader.scan_keys(Some(namespace), from.key.as_ref(), step);
        IndexPage { found, next: next.map(|key| IndexCursor { key: Some(key), ..IndexCursor::default() }) }
    }

    /// Whether the initial list of every subscription is in the cache.
    pub(crate) fn has_synced(&self) -> bool {
        self.subscriptions.iter().all(|subscription| subscription.status().synced)
    }

    /// Returns a page of objects, in the order of their keys. Looks at about `step` cached objects, of which a narrow watch may see few.
    pub(crate) fn page(&self, filter: &CacheFilter, step: usize) -> CachePage {
        let limit = filter.limit.unwrap_or(usize::MAX);
        let (mut items, searched_to) = self.candidates(filter, step);
        items.retain(|object| filter.labels.matches_object(object));
        if items.len() > limit {
            items.truncate(limit);
            return CachePage { items, more: true, searched_to: None };
        }
        CachePage { items, more: searched_to.is_some(), searched_to }
    }

    /// Returns the objects after the filter's key, in order. Also returns the last key that was looked at, if the search stopped early. Without a
    /// label selector, returns at most one object more than the limit, so that the caller knows whether there are more.
    fn candidates(&self, filter: &CacheFilter, step: usize) -> (Vec<Object>, Option<ObjectKey>) {
        let mut own = self.own_entries(|key| {
            filter.namespace.as_deref().is_none_or(|namespace| namespace == key.namespace())
                && filter.after.as_ref().is_none_or(|after| key > after)
        });
        let limit = match filter.limit {
            // Each own write hides at most one object of the cache.
            Some(limit) if filter.labels.is_empty() => limit.saturating_add(1 + own.len()),
            _ => usize::MAX,
        };
        let (objects, searched_to) = self.cache.page(filter, limit, step);
        if let Some(last) = &searched_to {
            // Later own writes belong to the next page.
            own.truncate(own.partition_point(|(key, _)| key <= last));
        }
        (self.with_own_writes(objects, &own), searched_to)
    }

    /// Returns the own writes to the keys that pass the filter, in order.
    pub(super) fn own_entries(&self, filter: impl Fn(&ObjectKey) -> bool) -> Vec<(ObjectKey, Entry)> {
        if self.own_writes.is_empty() { Vec::new() } else { self.own_writes.entries(filter) }
    }

    /// Applies the own writes to a sorted list of objects.
    fn with_own_writes(&self, mut objects: Vec<Object>, own: &[(ObjectKey, Entry)]) -> Vec<Object> {
        for (key, entry) in own {
            let written = self.with_own_write(key, entry);
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
