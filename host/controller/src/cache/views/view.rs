//! One watch as its plugin reads it: the cache, with the plugin's own writes on top.

use std::collections::BTreeMap;
#[cfg(test)]
use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_informer::{
    IndexError, IndexFn, IndexHandle, IndexValueCursor, ScanPage, StoreReader, Subscription,
};
use pilothouse_model::{
    FieldSelector, LabelSelector, Object, ObjectKey, ParseOptions, Projection, ResourceType, Transform,
};
use pilothouse_plugin::{CacheFilter, CachePage, IndexCursor, IndexPage, Misuse};

use crate::cache::computed::ComputedIndexes;
use crate::cache::own_writes::{CacheState, CacheStateReader, Entry, OwnWrites, ReadResult};

/// The number of objects that a search in an index looks at for one page.
pub(crate) const INDEX_STEP: usize = 4096;
/// The number of objects that a list looks at for one page: some more than it usually wants, so that a full page is one read.
pub(crate) const PAGE_STEP: usize = 2 * INDEX_STEP;

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

impl SharedIndex {
    /// Whether an object has this value in the index.
    fn has_value(&self, object: &Object, value: &str) -> bool {
        self.function.values(object).iter().any(|found| found == value)
    }
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
    /// The only name that the field selector allows; "" for any.
    pub(crate) only_name: String,
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

    /// Returns all keys, in the order of the readers. A reader is locked for [`INDEX_STEP`] objects at a time.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.readers.iter().flat_map(|reader| {
            let mut next = Some(None::<ObjectKey>);
            let pages = std::iter::from_fn(move || {
                let scan = reader.scan_keys(None, next.take()?.as_ref(), INDEX_STEP);
                next = scan.next.map(Some);
                Some(scan.found)
            });
            pages.flatten()
        })
    }

    /// Returns objects of the filter's namespace after its key, in order: up to `limit`, and perhaps a few more. Looks at about `step` objects,
    /// and returns the last key that was looked at if it stopped before the end for that reason. A reader is locked for [`INDEX_STEP`] objects at
    /// a time.
    pub(super) fn page(
        &self,
        filter: &CacheFilter,
        limit: usize,
        mut step: usize,
    ) -> (Vec<Object>, Option<ObjectKey>) {
        let mut objects = Vec::new();
        for (namespace, reader) in self.readers_in_order(filter) {
            let mut after = filter.after.clone();
            loop {
                if objects.len() >= limit {
                    return (objects, None);
                }
                if step == 0 {
                    // No object has an empty name, so this key is before all objects of the namespace.
                    let start = ObjectKey::new(namespace, "");
                    return (objects, after.max(Some(start)));
                }
                let (looked, wanted) = (step.min(INDEX_STEP), limit - objects.len());
                let scan = reader.scan(filter.namespace.as_deref(), after.as_ref(), looked, wanted);
                let is_last_part = scan.next.is_none();
                // What a reader without selectors looks at, it finds.
                step -= if is_last_part && !self.is_selective { scan.found.len() } else { looked };
                objects.extend(scan.found);
                if is_last_part {
                    break;
                }
                after = scan.next;
            }
        }
        (objects, None)
    }

    /// Returns the readers to search, each with its namespace, ordered by namespace: those that may have objects after the filter's key.
    fn readers_in_order<'a>(&'a self, filter: &'a CacheFilter) -> Vec<(&'a str, &'a StoreReader)> {
        if let Some(namespace) = &filter.namespace {
            return self.reader(namespace).map(|reader| (namespace.as_str(), reader)).into_iter().collect();
        }
        if self.namespaces.is_empty() {
            return self.readers.iter().map(|reader| ("", reader)).collect();
        }
        let first = filter.after.as_ref().map_or("", ObjectKey::namespace);
        let namespaces = self.namespaces.iter().map(String::as_str);
        let mut readers: Vec<_> = namespaces.zip(&self.readers).collect();
        readers.retain(|(namespace, _)| *namespace >= first);
        readers.sort_by_key(|(namespace, _)| *namespace);
        // A watch may name a namespace twice.
        readers.dedup_by_key(|(namespace, _)| *namespace);
        readers
    }

    /// Returns the cached state of the same version as the object, so that one copy of it suffices; the object itself if there is none.
    /// Its text is not unpacked.
    pub(crate) fn shared_copy(&self, object: &Object) -> Object {
        let cached = self.reader(object.namespace()).and_then(|reader| reader.get(object.key()));
        let is_same = |cached: &Object| {
            cached.resource_version() == object.resource_version() && cached.uid() == object.uid()
        };
        cached.filter(is_same).unwrap_or_else(|| object.clone()).fresh_view()
    }
}

impl CacheStateReader for WatchCache {
    fn state(&self, key: &ObjectKey) -> Option<CacheState> {
        if !self.only_name.is_empty() && self.only_name != key.name() {
            return None;
        }
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
        (self.with_own_writes(objects, &own, |_| true), searched_to)
    }

    /// Returns objects with this index value, after the place `from`. Looks at no more than `step` cached objects and as many own writes. Errors
    /// if there is no such index.
    pub(crate) fn by_index(
        &self,
        index: &str,
        value: &str,
        from: &IndexCursor,
        step: usize,
    ) -> Result<IndexPage<Object>, Misuse> {
        let ViewIndex::Shared(shared) = self.index(index)? else {
            let IndexPage { found, next } = self.computed_keys(index, value, from, step);
            return Ok(IndexPage { found: found.iter().filter_map(|key| self.object(key)).collect(), next });
        };
        let page = self.search_reader(
            from,
            step,
            |reader, after| reader.scan_index(&shared.name, value, after, step),
            Object::key,
            |written| shared.has_value(&written, value).then_some(written),
        );
        Ok(page)
    }

    /// Returns the keys of the objects that [`by_index`](Self::by_index) returns.
    pub(crate) fn index_keys(
        &self,
        index: &str,
        value: &str,
        from: &IndexCursor,
        step: usize,
    ) -> Result<IndexPage<ObjectKey>, Misuse> {
        let ViewIndex::Shared(shared) = self.index(index)? else {
            let mut page = self.computed_keys(index, value, from, step);
            page.found.retain(|key| self.object(key).is_some());
            return Ok(page);
        };
        let page = self.search_reader(
            from,
            step,
            |reader, after| reader.scan_index_keys(&shared.name, value, after, step),
            |key| key,
            |written| shared.has_value(&written, value).then(|| written.key().clone()),
        );
        Ok(page)
    }

    /// Returns the keys of all objects with this index value, in order. Errors if there is no such index.
    #[cfg(test)]
    pub(crate) fn all_index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Misuse> {
        let (mut keys, mut from) = (BTreeSet::new(), Some(IndexCursor::default()));
        while let Some(cursor) = from {
            let page = self.index_keys(index, value, &cursor, INDEX_STEP)?;
            keys.extend(page.found);
            from = page.next;
        }
        Ok(keys.into_iter().collect())
    }

    /// Returns values of an index that at least one object has, after the place `from`, possibly more than once. Looks at no more than `step`
    /// cached objects, and at all own writes. Errors if there is no such index.
    pub(crate) fn index_values(
        &self,
        index: &str,
        from: &IndexCursor,
        step: usize,
    ) -> Result<IndexPage<String>, Misuse> {
        let ViewIndex::Shared(shared) = self.index(index)? else {
            let is_present = |key: &ObjectKey| self.object(key).is_some();
            let (found, last) = self.computed.values(index, from.value.as_deref(), step, is_present);
            let next = last.map(|value| IndexCursor { value: Some(value), ..IndexCursor::default() });
            return Ok(IndexPage { found, next });
        };
        let Some(reader) = self.cache.readers.get(from.reader) else { return Ok(IndexPage::default()) };
        let (own, _) = self.own_writes_after(from.reader, None, usize::MAX);
        let place = from.value.clone().map(|value| IndexValueCursor { value, key: from.key.clone() });
        let (mut found, next) = reader
            .scan_index_values(&shared.name, place.as_ref(), step, &|key| is_written(&own, key))
            .unwrap_or_default();
        // The own writes have their values in the page to which the values belong, as cached objects have.
        let belongs = |value: &String| {
            place.as_ref().is_none_or(|place| *value >= place.value)
                && next.as_ref().is_none_or(|next| *value <= next.value)
        };
        for written in own.iter().filter_map(|(key, entry)| self.with_own_write(key, entry)) {
            found.extend(shared.function.values(&written).into_iter().filter(&belongs));
        }
        let next = match next {
            Some(IndexValueCursor { value, key }) => {
                Some(IndexCursor { reader: from.reader, value: Some(value), key })
            }
            None => self.next_reader(from.reader),
        };
        Ok(IndexPage { found, next })
    }

    /// Searches the reader of the cursor, from the object after its key. `written` returns what an object that the plugin has written adds to the result.
    ///
    /// Each key belongs to exactly one page, and its own write replaces what the cache has. A write that is recorded during the scan
    /// leaves the cached object in the result. So an object that has the value before and after the write is found.
    fn search_reader<T>(
        &self,
        from: &IndexCursor,
        step: usize,
        scan: impl FnOnce(&StoreReader, Option<&ObjectKey>) -> Result<ScanPage<T>, IndexError>,
        key_of: impl Fn(&T) -> &ObjectKey,
        written: impl Fn(Object) -> Option<T>,
    ) -> IndexPage<T> {
        let Some(reader) = self.cache.readers.get(from.reader) else { return IndexPage::default() };
        let (own, last_own) = self.own_writes_after(from.reader, from.key.as_ref(), step);
        // A reader without the index has no objects yet.
        let ScanPage { mut found, next } = scan(reader, from.key.as_ref()).unwrap_or_default();
        let last = next.into_iter().chain(last_own).min();
        if !own.is_empty() {
            let belongs = |key: &ObjectKey| last.as_ref().is_none_or(|last| key <= last);
            found.retain(|item| belongs(key_of(item)) && !is_written(&own, key_of(item)));
            let own = own.iter().filter(|(key, _)| belongs(key));
            found.extend(own.filter_map(|(key, entry)| written(self.with_own_write(key, entry)?)));
            found.sort_by(|left, right| key_of(left).cmp(key_of(right)));
        }
        let next = match last {
            Some(key) => Some(IndexCursor { reader: from.reader, value: None, key: Some(key) }),
            None => self.next_reader(from.reader),
        };
        IndexPage { found, next }
    }

    /// Returns up to `limit` own writes to objects of a reader after a key, in order, and the key of the last one if there are more.
    /// Must be read before the cache, so that a write that is forgotten meanwhile is in the cache that is read then.
    fn own_writes_after(
        &self,
        reader: usize,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> (Vec<(ObjectKey, Entry)>, Option<ObjectKey>) {
        let namespace = self.cache.namespaces.get(reader).map(String::as_str);
        let mut own = self.own_entries(|key| {
            namespace.is_none_or(|namespace| namespace == key.namespace())
                && after.is_none_or(|after| key > after)
        });
        let is_complete = own.len() <= limit;
        own.truncate(limit);
        let last = own.last().filter(|_| !is_complete).map(|(key, _)| key.clone());
        (own, last)
    }

    /// Returns the beginning of the next reader; `None` after the last one.
    fn next_reader(&self, reader: usize) -> Option<IndexCursor> {
        let next = reader + 1;
        (next < self.cache.readers.len()).then(|| IndexCursor { reader: next, ..IndexCursor::default() })
    }

    fn computed_keys(
        &self,
        index: &str,
        value: &str,
        from: &IndexCursor,
        step: usize,
    ) -> IndexPage<ObjectKey> {
        let found = self.computed.keys(index, value, from.key.as_ref(), step);
        let last = found.last().filter(|_| found.len() == step).cloned();
        let next = last.map(|key| IndexCursor { key: Some(key), ..IndexCursor::default() });
        IndexPage { found, next }
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

/// Whether the key is among these own writes, which are in order.
fn is_written(own: &[(ObjectKey, Entry)], key: &ObjectKey) -> bool {
    own.binary_search_by(|(written, _)| written.cmp(key)).is_ok()
}
