//! Read-only views of a store.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use arc_swap::ArcSwap;
use pilothouse_model::{Object, ObjectKey};
use tokio::time::Instant;

use super::state::{IndexId, State};
use super::{IndexError, ScopeId, Store, StoredObject};
use crate::key::Restriction;

/// The view that a reader reads. An informer swaps it when it moves a subscriber to another cache.
pub(crate) type ReaderSource = ArcSwap<StoreView>;

/// A store as one subscriber sees it.
pub(crate) struct StoreView {
    pub(crate) store: Arc<Store>,
    /// The subscriber's filter, if the store holds more than it requested.
    pub(crate) restriction: Option<Restriction>,
    /// The scope of the subscriber's index names.
    pub(crate) id: ScopeId,
}

/// A read-only view of a cache, restricted to the objects that its subscriber requested (client-go's `Lister`). Cloning it
/// copies a pointer.
///
/// Every call sees one consistent state, at least as new as any notification that the subscriber received before. Calls never
/// wait for a list that is being replaced.
///
/// [`Subscription::store`](crate::Subscription::store) returns one:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// # use pilothouse_informer::{InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions};
/// # use pilothouse_model::{ObjectKey, ResourceType};
/// # let namespaces = ResourceType {
/// #     group: String::new(), version: "v1".into(), kind: "Namespace".into(), plural: "namespaces".into(), namespaced: false,
/// # };
/// # let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
/// # let subscription = registry.subscribe(InformerKey::new(namespaces), SubscribeOptions::default()).unwrap();
/// use pilothouse_informer::IndexFn;
///
/// subscription.add_index("first letter", IndexFn::computed(|object| vec![object.name()[..1].to_owned()])).unwrap();
/// let store = subscription.store();
/// subscription.next_batch().await.expect("the informer runs");
/// assert_eq!(store.index_keys("first letter", "d").unwrap(), [ObjectKey::new("", "default")]);
/// let error = store.by_index("first lettre", "d").unwrap_err();
/// assert_eq!(error.to_string(), "there is no index \"first lettre\"; there are: first letter");
/// # });
/// ```
#[derive(Clone)]
pub struct StoreReader {
    source: Arc<ReaderSource>,
}

/// A part of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPage<T> {
    /// What was found, in key order.
    pub found: Vec<T>,
    /// The last key that was looked at, if the search continues after it; `None` if it is complete.
    pub next: Option<ObjectKey>,
}

/// A place in the values of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexValueCursor {
    /// The last value that was looked at.
    pub value: String,
    /// The last of its objects that was looked at; `None` if it needs no further look.
    pub key: Option<ObjectKey>,
}

impl<T> ScanPage<T> {
    fn of<'a>(
        candidates: impl Iterator<Item = &'a StoredObject>,
        limit: usize,
        max_found: usize,
        visible: impl Fn(&'a StoredObject) -> Option<T>,
    ) -> Self {
        let mut candidates = candidates.peekable();
        let (mut found, mut last) = (Vec::new(), None);
        for stored in candidates.by_ref().take(limit.max(1)) {
            found.extend(visible(stored));
            last = Some(stored.key());
            if found.len() >= max_found {
                break;
            }
        }
        let next = candidates.peek().and(last).cloned();
        Self { found, next }
    }
}

impl<T> Default for ScanPage<T> {
    fn default() -> Self {
        Self { found: Vec::new(), next: None }
    }
}

impl StoreView {
    fn includes(&self, object: &Object) -> bool {
        self.restriction.as_ref().is_none_or(|restriction| restriction.matches(object))
    }

    /// Like `includes`, for a stored object. Unpacks nothing if the view has no restriction.
    fn includes_stored(&self, stored: &StoredObject) -> bool {
        self.restriction.is_none() || self.includes(&stored.object())
    }

    /// Returns the object if the view includes it. Its text is not unpacked, even if the view's filter had to read it.
    fn visible(&self, stored: &StoredObject) -> Option<Object> {
        let object = stored.object();
        match &self.restriction {
            None => Some(object),
            Some(restriction) => restriction.matches(&object).then(|| object.fresh_view()),
        }
    }
}

impl StoreReader {
    pub(crate) fn new(source: Arc<ReaderSource>) -> Self {
        Self { source }
    }

    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Object> {
        let view = self.source.load();
        view.store.get(key).filter(|object| view.includes(object))
    }

    /// Returns all objects in key order.
    #[must_use]
    pub fn list(&self) -> Vec<Object> {
        self.page(None, None, usize::MAX)
    }

    /// Returns the objects of one namespace in key order.
    #[must_use]
    pub fn list_in(&self, namespace: &str) -> Vec<Object> {
        self.page(Some(namespace), None, usize::MAX)
    }

    /// Returns up to `limit` objects in key order, of one namespace or of all, after the key `after`. Each page is a snapshot of
    /// its own: changes between two calls may show in the second.
    #[must_use]
    pub fn page(&self, namespace: Option<&str>, after: Option<&ObjectKey>, limit: usize) -> Vec<Object> {
        let view = self.source.load();
        let own = view.restriction.as_ref().and_then(|restriction| restriction.namespace.as_deref());
        if own.is_some() && namespace.is_some() && own != namespace {
            return Vec::new();
        }
        view.store.read(|state| {
            state
                .range(namespace.or(own), after)
                .filter_map(|stored| view.visible(stored))
                .take(limit)
                .collect()
        })
    }

    /// Like [`page`](Self::page) with a limit of `max_found`, but looks at no more than `limit` objects, so that the cache is not locked for
    /// long.
    #[must_use]
    pub fn scan(
        &self,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        limit: usize,
        max_found: usize,
    ) -> ScanPage<Object> {
        let view = self.source.load();
        let own = view.restriction.as_ref().and_then(|restriction| restriction.namespace.as_deref());
        if own.is_some() && namespace.is_some() && own != namespace {
            return ScanPage::default();
        }
        view.store.read(|state| {
            let candidates = state.range(namespace.or(own), after);
            ScanPage::of(candidates, limit, max_found, |stored| view.visible(stored))
        })
    }

    /// Like [`scan`](Self::scan), but returns the keys only.
    #[must_use]
    pub fn scan_keys(
        &self,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> ScanPage<ObjectKey> {
        let view = self.source.load();
        let own = view.restriction.as_ref().and_then(|restriction| restriction.namespace.as_deref());
        if own.is_some() && namespace.is_some() && own != namespace {
            return ScanPage::default();
        }
        let visible_key = |stored: &StoredObject| view.includes_stored(stored).then(|| stored.key().clone());
        view.store
            .read(|state| ScanPage::of(state.range(namespace.or(own), after), limit, usize::MAX, visible_key))
    }

    /// Returns all keys in order. The cache is locked meanwhile; [`scan_keys`](Self::scan_keys) locks it for a part at a time.
    #[must_use]
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        let view = self.source.load();
        view.store.read(|state| {
            state
                .range(None, None)
                .filter(|stored| view.includes_stored(stored))
                .map(|stored| stored.key().clone())
                .collect()
        })
    }

    /// Returns the keys of one namespace in order.
    #[must_use]
    pub fn list_keys_in(&self, namespace: &str) -> Vec<ObjectKey> {
        let view = self.source.load();
        view.store.read(|state| {
            state
                .range(Some(namespace), None)
                .filter(|stored| view.includes_stored(stored))
                .map(|stored| stored.key().clone())
                .collect()
        })
    }

    /// Returns the number of objects. A restricted view counts them one by one.
    #[must_use]
    pub fn len(&self) -> usize {
        let view = self.source.load();
        match view.restriction {
            None => view.store.len(),
            Some(_) => view
                .store
                .read(|state| state.range(None, None).filter(|stored| view.includes_stored(stored)).count()),
        }
    }

    /// Whether the view has no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.page(None, None, 1).is_empty()
    }

    /// Returns the objects that have this value in an index of this subscriber, in key order.
    ///
    /// # Errors
    /// Errors if there is no such index; the error lists the existing ones.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Object>, IndexError> {
        self.with_index(name, |view, state, id| {
            state.objects_with_value(id, value).filter_map(|stored| view.visible(stored)).collect()
        })
    }

    /// Returns the keys that have this value in an index, in order.
    ///
    /// # Errors
    /// Same as [`by_index`](Self::by_index).
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.with_index(name, |view, state, id| {
            let visible = state.objects_with_value(id, value).filter(|stored| view.includes_stored(stored));
            visible.map(|stored| stored.key().clone()).collect()
        })
    }

    /// Returns all values that objects have in an index, in order.
    ///
    /// # Errors
    /// Same as [`by_index`](Self::by_index).
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, IndexError> {
        self.with_index(name, |view, state, id| {
            let visible =
                |value: &&str| state.objects_with_value(id, value).any(|stored| view.includes_stored(stored));
            state.index_values(id).filter(visible).map(str::to_owned).collect()
        })
    }

    /// Returns objects with this value in an index, after the key `after`. Looks at no more than `limit` objects, so that the cache is not
    /// locked for long.
    ///
    /// # Errors
    /// Same as [`by_index`](Self::by_index).
    pub fn scan_index(
        &self,
        name: &str,
        value: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<ScanPage<Object>, IndexError> {
        self.with_index(name, |view, state, id| {
            let candidates = state.objects_with_value_after(id, value, after);
            ScanPage::of(candidates, limit, usize::MAX, |stored| view.visible(stored))
        })
    }

    /// Like [`scan_index`](Self::scan_index), but returns the keys only.
    ///
    /// # Errors
    /// Same as [`by_index`](Self::by_index).
    pub fn scan_index_keys(
        &self,
        name: &str,
        value: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<ScanPage<ObjectKey>, IndexError> {
        self.with_index(name, |view, state, id| {
            let candidates = state.objects_with_value_after(id, value, after);
            let visible_key =
                |stored: &StoredObject| view.includes_stored(stored).then(|| stored.key().clone());
            ScanPage::of(candidates, limit, usize::MAX, visible_key)
        })
    }

    /// Returns values that objects have in an index, from the place `from` on. Ignores the objects whose keys `is_ignored` accepts. Looks at
    /// no more than `limit` objects and values, so that the cache is not locked for long.
    ///
    /// # Errors
    /// Same as [`by_index`](Self::by_index).
    pub fn scan_index_values(
        &self,
        name: &str,
        from: Option<&IndexValueCursor>,
        limit: usize,
        is_ignored: &dyn Fn(&ObjectKey) -> bool,
    ) -> Result<(Vec<String>, Option<IndexValueCursor>), IndexError> {
        self.with_index(name, |view, state, id| {
            let (mut values, mut left) = (Vec::new(), limit.max(1));
            // A place with a key is in the middle of the value's objects.
            let start = match from {
                None => Bound::Unbounded,
                Some(IndexValueCursor { value, key: None }) => Bound::Excluded(value.as_str()),
                Some(IndexValueCursor { value, key: Some(_) }) => Bound::Included(value.as_str()),
            };
            let mut after = from.and_then(|place| place.key.as_ref());
            for value in state.index_values_from(id, start) {
                // The value may be gone meanwhile.
                let after = after.take().filter(|_| from.is_some_and(|place| place.value == value));
                for stored in state.objects_with_value_after(id, value, after) {
                    if !is_ignored(stored.key()) && view.includes_stored(stored) {
                        values.push(value.to_owned());
                        break;
                    }
                    left -= 1;
                    if left == 0 {
                        let place =
                            IndexValueCursor { value: value.to_owned(), key: Some(stored.key().clone()) };
                        return (values, Some(place));
                    }
                }
                left -= 1;
                if left == 0 {
                    return (values, Some(IndexValueCursor { value: value.to_owned(), key: None }));
                }
            }
            (values, None)
        })
    }

    /// Returns the objects that share at least one value with `object` in an index, in key order.
    ///
    /// # Errors
    /// Same as [`by_index`](Self::by_index).
    pub fn index(&self, name: &str, object: &Object) -> Result<Vec<Object>, IndexError> {
        self.with_index(name, |view, state, id| {
            state
                .objects_sharing_value(id, object)
                .into_iter()
                .filter_map(|stored| view.visible(stored))
                .collect()
        })
    }

    /// Returns the names of this subscriber's indexes, sorted.
    #[must_use]
    pub fn index_names(&self) -> Vec<String> {
        let view = self.source.load();
        view.store.index_names(view.id)
    }

    /// Calls `read` with an index. An informer that moves the subscriber to another cache removes its indexes from the old one,
    /// so a call that still loaded the old view retries with the new one.
    fn with_index<R>(
        &self,
        name: &str,
        read: impl Fn(&StoreView, &State, IndexId) -> R,
    ) -> Result<R, IndexError> {
        loop {
            let view = self.source.load();
            let result = view.store.with_index(view.id, name, |state, id| read(&view, state, id));
            if result.is_ok() || Arc::ptr_eq(&*view, &*self.source.load()) {
                return result;
            }
        }
    }

    /// Returns the resource version up to which the cache is complete; "" before the first list.
    #[must_use]
    pub fn resource_version(&self) -> String {
        self.source.load().store.resource_version()
    }

    /// Returns a lower bound of the time at which the most recent list started: the time at which the list before it was stored.
    /// `None` until there were two lists.
    #[must_use]
    pub fn last_list_began_after(&self) -> Option<Instant> {
        self.source.load().store.read(State::last_list_began_after)
    }
}

impl fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = self.source.load();
        f.debug_struct("StoreReader")
            .field("store", &view.store)
            .field("restriction", &view.restriction)
            .finish()
    }
}
