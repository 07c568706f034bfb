use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::Notification;
use tokio::sync::watch;

use super::index_handle::IndexHandle;
use super::subscriber::Subscriber;
use super::registry::RegistryInner;
use crate::key::InformerKey;
use crate::status::InformerStatus;
use crate::store::{IndexError, IndexFn, StoreReader};

/// How a subscriber is served.
///
/// ```
/// use pilothouse_informer::SubscribeOptions;
///
/// // One notification at a time, merged from the first that waits: for a subscriber that only wants the newest state.
/// let newest = SubscribeOptions { batch: 1, backlog: 1, ..SubscribeOptions::default() };
/// assert_eq!(newest.resync, None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SubscribeOptions {
    /// How often every object is told again, unchanged. Periods below a second are raised to one (B35).
    pub resync: Option<Duration>,
    /// How many notifications a batch has at most.
    pub batch: usize,
    /// How many notifications may wait before those of one object are merged. Merged, at most two wait for each object that
    /// is live or that the subscriber was told of (B19).
    pub backlog: usize,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        Self { resync: None, batch: 256, backlog: 1024 }
    }
}

/// One subscriber's notifications and its view of the shared cache. Dropping it unsubscribes; nothing is delivered after
/// that, and the informer stops with its last subscriber (B30).
///
/// Notifications are taken in batches, one after the other and in order (B33). What they tell is never newer than what
/// [`store`](Self::store) returns (B31). A subscriber that does not take them costs the others nothing.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// use pilothouse_informer::{InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions};
/// use pilothouse_model::{FieldSelector, Notification, ObjectKey, ResourceType};
///
/// let namespaces = ResourceType {
///     group: String::new(), version: "v1".into(), kind: "Namespace".into(), plural: "namespaces".into(), namespaced: false,
/// };
/// let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
/// let only_default = InformerKey::new(namespaces).with_fields(FieldSelector::parse("metadata.name=default").unwrap());
/// let options = SubscribeOptions { resync: Some(std::time::Duration::from_secs(600)), ..SubscribeOptions::default() };
/// let subscription = registry.subscribe(only_default, options).unwrap();
///
/// let batch = subscription.next_batch().await.expect("the informer runs");
/// assert!(matches!(&batch[0], Notification::Added { object, initial: true } if object.name() == "default"));
/// assert!(subscription.has_synced(), "the whole initial list was in that batch");
/// assert_eq!(subscription.store().list_keys(), [ObjectKey::new("", "default")]);
/// assert_eq!(subscription.status().error.map(|error| error.to_string()), None);
/// # });
/// ```
pub struct Subscription {
    pub(super) subscriber: Arc<Subscriber>,
    registry: Arc<RegistryInner>,
    store: StoreReader,
}

impl Subscription {
    pub(super) fn new(subscriber: Arc<Subscriber>, registry: Arc<RegistryInner>) -> Self {
        let store = StoreReader::new(Arc::clone(&subscriber.source));
        Self { subscriber, registry, store }
    }

    /// What was asked for.
    #[must_use]
    pub fn key(&self) -> &InformerKey {
        &self.subscriber.key
    }

    /// Waits for notifications; `None` once the informer has stopped.
    ///
    /// # Cancellation safety
    /// A call that is dropped has taken nothing. A batch that was returned is not returned again.
    pub async fn next_batch(&self) -> Option<Vec<Notification>> {
        self.subscriber.next_batch().await
    }

    /// Takes all notifications that wait, without waiting for more; none once the informer has stopped. For a subscriber
    /// that is about to end, or that has to count as told of what waits.
    #[must_use]
    pub fn take_pending(&self) -> Vec<Notification> {
        self.subscriber.take_pending()
    }

    /// The cache, restricted to what was asked for.
    #[must_use]
    pub fn store(&self) -> StoreReader {
        self.store.clone()
    }

    /// Whether the whole initial list has been taken by [`next_batch`](Self::next_batch) (B36).
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.subscriber.has_synced()
    }

    /// Waits for [`has_synced`](Self::has_synced). `false` when the informer stopped before.
    ///
    /// # Cancellation safety
    /// Safe.
    pub async fn synced(&self) -> bool {
        self.subscriber.synced().await
    }

    /// What the informer behind this subscription is doing, and what keeps it from doing so.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        self.subscriber.informer.lock().status()
    }

    /// Changes of [`status`](Self::status). It ends when the informer stops or when the subscription is moved to another
    /// informer: then ask again.
    #[must_use]
    pub fn status_changes(&self) -> watch::Receiver<InformerStatus> {
        self.subscriber.informer.lock().status_changes()
    }

    /// Adds an index over the cached objects, complete when the call returns (B22). Its name is this subscriber's own.
    ///
    /// # Errors
    /// When this subscriber has an index of that name.
    pub fn add_index(&self, name: &str, function: IndexFn) -> Result<(), IndexError> {
        self.subscriber.add_index(name, function)
    }

    /// As [`add_index`](Self::add_index), for as long as the handle lives. Where this subscription has an index of that name and function
    /// already, it is shared: it is dropped with the last of its handles.
    ///
    /// # Errors
    /// When this subscriber has another index of that name.
    pub fn acquire_index(&self, name: &str, function: IndexFn) -> Result<IndexHandle, IndexError> {
        self.subscriber.acquire_index(name, function)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.registry.unsubscribe(&self.subscriber);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("key", &self.subscriber.key.to_string())
            .field("store", &self.store)
            .field("synced", &self.has_synced())
            .finish_non_exhaustive()
    }
}

/// Waits until all subscriptions have been given their initial lists (B37, client-go's `WaitForCacheSync`). `false` when one
/// of them stopped before. Something else must take the notifications meanwhile.
///
/// # Cancellation safety
/// Safe.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// # use pilothouse_informer::{InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions};
/// # use pilothouse_model::ResourceType;
/// # let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
/// # let subscribe = |kind: &str, plural: &str| {
/// #     let resource = ResourceType {
/// #         group: String::new(), version: "v1".into(), kind: kind.into(), plural: plural.into(), namespaced: true,
/// #     };
/// #     registry.subscribe(InformerKey::new(resource), SubscribeOptions::default()).unwrap()
/// # };
/// use pilothouse_informer::wait_for_cache_sync;
///
/// let (pods, secrets) = (subscribe("Pod", "pods"), subscribe("Secret", "secrets"));
/// let synced = tokio::select! {
///     synced = wait_for_cache_sync([&pods, &secrets]) => synced,
///     // Your loops over the notifications; they go on until the informers stop.
///     () = async { while pods.next_batch().await.is_some() {} } => false,
///     () = async { while secrets.next_batch().await.is_some() {} } => false,
/// };
/// assert!(synced);
/// # });
/// ```
pub async fn wait_for_cache_sync<'a>(subscriptions: impl IntoIterator<Item = &'a Subscription>) -> bool {
    for subscription in subscriptions {
        if !subscription.synced().await {
            return false;
        }
    }
    true
}
