//! The subscriber's handle: its notifications and its view of the shared cache.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::Notification;
use tokio::sync::watch;

use super::index_handle::IndexHandle;
use super::registry::RegistryInner;
use super::subscriber::Subscriber;
use crate::condition::Condition;
use crate::key::InformerKey;
use crate::status::InformerStatus;
use crate::store::{IndexError, IndexFn, StoreReader};

/// Options of one subscription.
///
/// ```
/// use pilothouse_informer::SubscribeOptions;
///
/// // One notification at a time, merged as soon as one is pending: for a subscriber that only wants the newest state.
/// let newest = SubscribeOptions::default().with_batch(1).with_backlog(1);
/// assert_eq!(newest.resync, None);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SubscribeOptions {
    /// Period after which every cached object is delivered again as an update without change; `None` (the default) disables
    /// resync. Periods below one second are raised to one second.
    pub resync: Option<Duration>,
    /// The most notifications in a batch. Default: 256.
    pub batch: usize,
    /// Pending notifications above which those of one object are merged. After merging, at most two are pending for each
    /// object that exists or that the subscriber was notified of. Default: 1024.
    pub backlog: usize,
}

impl SubscribeOptions {
    /// Sets [`resync`](Self::resync).
    #[must_use]
    pub fn with_resync(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.resync = period.into();
        self
    }

    /// Sets [`batch`](Self::batch).
    #[must_use]
    pub fn with_batch(mut self, notifications: usize) -> Self {
        self.batch = notifications;
        self
    }

    /// Sets [`backlog`](Self::backlog).
    #[must_use]
    pub fn with_backlog(mut self, notifications: usize) -> Self {
        self.backlog = notifications;
        self
    }
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        Self { resync: None, batch: 256, backlog: 1024 }
    }
}

/// One subscriber's notifications and its view of the shared cache. Dropping it unsubscribes: nothing is delivered
/// afterwards, and the informer stops with its last subscriber.
///
/// Notifications are taken in batches, one batch at a time and in order. An object in a notification is never newer than
/// the one that [`store`](Self::store) returns. A subscriber that does not take its notifications does not delay others.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// use k8s_openapi::api::core::v1::Namespace;
/// use pilothouse_informer::{
///     FieldSelector, InformerKey, InformerOptions, InformerRegistry, KubeListWatches, Notification, ObjectKey,
///     SubscribeOptions,
/// };
///
/// let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
/// let only_default =
///     InformerKey::of::<Namespace>().with_fields(FieldSelector::parse("metadata.name=default").unwrap());
/// let options = SubscribeOptions::default().with_resync(std::time::Duration::from_secs(600));
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

    /// Returns the key that was subscribed to.
    #[must_use]
    pub fn key(&self) -> &InformerKey {
        &self.subscriber.key
    }

    /// Waits for the next batch of notifications. Returns `None` once the informer has stopped.
    ///
    /// # Cancellation safety
    /// A call that is dropped has taken nothing. A returned batch is not returned again.
    pub async fn next_batch(&self) -> Option<Vec<Notification>> {
        self.subscriber.next_batch().await
    }

    /// Takes all pending notifications without waiting for more. Returns none once the informer has stopped. For a
    /// subscriber that is about to end, or that has to account for everything that was delivered to it.
    #[must_use]
    pub fn take_pending(&self) -> Vec<Notification> {
        self.subscriber.take_pending()
    }

    /// Sets which changes are worth being woken for: those that do not meet the condition are not delivered. Initially, every change is.
    ///
    /// The informer evaluates equal conditions of all subscribers once, so that a change costs nothing for a subscriber that does not
    /// receive it. It leaves out only changes for which the condition is [`False`](crate::condition::ConditionValue::False). It does not apply
    /// the condition to the initial list, to resyncs, to the difference after a move to another informer, and while pending notifications
    /// are merged. A subscriber to which such a change matters evaluates the condition again on what it receives.
    ///
    /// With a condition, the old state of an update is the one before the change, which may not have been delivered. An object whose
    /// addition was not delivered may still be reported as updated or deleted.
    pub fn set_condition(&self, condition: Condition) {
        self.subscriber.set_condition(condition);
    }

    /// Returns a view of the cache, restricted to the objects that were subscribed to.
    #[must_use]
    pub fn store(&self) -> StoreReader {
        self.store.clone()
    }

    /// Whether the whole initial list has been taken with [`next_batch`](Self::next_batch).
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.subscriber.has_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced) is true. Returns `false` if the informer stopped first.
    ///
    /// # Cancellation safety
    /// This method is cancel safe.
    pub async fn synced(&self) -> bool {
        self.subscriber.synced().await
    }

    /// Returns what the informer behind this subscription is doing, with the failure that keeps it from watching.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        self.subscriber.informer.lock().status()
    }

    /// Returns a receiver of [`status`](Self::status) changes. It is closed when the informer stops or when the subscription
    /// is moved to another informer; in the latter case call this method again.
    #[must_use]
    pub fn status_changes(&self) -> watch::Receiver<InformerStatus> {
        self.subscriber.informer.lock().status_changes()
    }

    /// Adds an index over the cached objects. It is complete when the call returns. Each subscriber has its own index names.
    ///
    /// # Errors
    /// Errors if this subscriber already has an index of that name.
    pub fn add_index(&self, name: &str, function: IndexFn) -> Result<(), IndexError> {
        self.subscriber.add_index(name, function)
    }

    /// Adds an index like [`add_index`](Self::add_index), but only for as long as the returned handle lives. If this
    /// subscription already has an index with that name and function, the index is shared and dropped with its last handle.
    ///
    /// # Errors
    /// Errors if this subscriber has an index of that name with another function.
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

/// Waits until every subscription has taken its initial list (client-go's `WaitForCacheSync`). Returns `false` if one of
/// them stopped first. Other tasks must take the notifications meanwhile.
///
/// # Cancellation safety
/// This function is cancel safe.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// # use pilothouse_informer::{InformerOptions, InformerRegistry, KubeListWatches};
/// # let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
/// use k8s_openapi::api::core::v1::{Pod, Secret};
/// use pilothouse_informer::{InformerKey, SubscribeOptions, wait_for_cache_sync};
///
/// let pods = registry.subscribe(InformerKey::of::<Pod>(), SubscribeOptions::default()).unwrap();
/// let secrets = registry.subscribe(InformerKey::of::<Secret>(), SubscribeOptions::default()).unwrap();
/// let synced = tokio::select! {
///     synced = wait_for_cache_sync([&pods, &secrets]) => synced,
///     // Your loops over the notifications. They run until the informers stop.
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
