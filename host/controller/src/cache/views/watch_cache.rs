//! The cached objects of one watch, without the plugin's own writes.

use pilothouse_informer::StoreReader;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::CacheFilter;

use super::INDEX_STEP;
use crate::cache::own_writes::{CacheState, CacheStateReader};

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

    pub(super) fn reader(&self, namespace: &str) -> Option<&StoreReader> {
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
