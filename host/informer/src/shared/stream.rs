//! A subscription as a stream of single notifications.

use std::borrow::Borrow;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt, unfold};
use pilothouse_model::Notification;

use super::subscription::Subscription;

/// The notifications of a subscription, one by one and in order; see [`Subscription::stream`]. It ends when the informer
/// stops.
#[must_use = "a stream does nothing unless it is polled"]
pub struct NotificationStream<'a> {
    notifications: BoxStream<'a, Notification>,
}

impl Subscription {
    /// Returns the notifications as a stream that borrows the subscription, whose store, status and indexes can be used
    /// meanwhile. [`into_stream`](Self::into_stream) returns a stream that can be moved to another task.
    ///
    /// # Cancellation safety
    /// A notification leaves the backlog when the stream returns it. Dropping the stream, or a future that waits for the
    /// next item, loses nothing: [`next_batch`](Self::next_batch) or another stream continues with the next notification.
    /// Take notifications in one way at a time: a stream that waits and is not polled any more may keep a wake-up from the
    /// other consumer.
    ///
    /// # Backpressure
    /// Neither the informer nor other subscribers wait for the stream. While it is not polled, notifications stay in the
    /// subscription's backlog, where those of one object are merged as
    /// [`SubscribeOptions::backlog`](crate::SubscribeOptions::backlog) says.
    /// [`SubscribeOptions::batch`](crate::SubscribeOptions::batch) does not matter.
    ///
    /// # Acknowledgement
    /// A notification counts as delivered when the stream returns it, and [`has_synced`](Self::has_synced) becomes true with
    /// the last one of the initial list. There is no acknowledgement: what your code fails to process is not delivered
    /// again. Use [`run_handler`](crate::handler::run_handler) to have failed batches delivered again, or add the keys to a
    /// [`WorkQueue`](crate::WorkQueue) and retry there.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let server = pilothouse_apiserver::ApiServer::builder().build();
    /// # let client = kube::Client::new(server.service(), "default");
    /// use futures::StreamExt;
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use pilothouse_informer::{InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions};
    ///
    /// let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
    /// let subscription = registry.subscribe(InformerKey::of::<Namespace>(), SubscribeOptions::default()).unwrap();
    /// let mut notifications = subscription.stream();
    /// while let Some(notification) = notifications.next().await {
    ///     let namespace: Namespace = notification.object().decode().unwrap();
    ///     println!("{:?}, {} cached", namespace.metadata.name, subscription.store().len());
    ///     # if subscription.has_synced() { break; }
    /// }
    /// # });
    /// ```
    pub fn stream(&self) -> NotificationStream<'_> {
        NotificationStream::new(self)
    }

    /// Returns the notifications as a stream that owns the subscription. Dropping the stream unsubscribes. Take a
    /// [`store`](Self::store) first if you need one. See [`stream`](Self::stream) for cancellation, backpressure and
    /// acknowledgement.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let server = pilothouse_apiserver::ApiServer::builder().build();
    /// # let client = kube::Client::new(server.service(), "default");
    /// use futures::StreamExt;
    /// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    /// use pilothouse_informer::{InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions};
    ///
    /// let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
    /// let subscribe = |key| registry.subscribe(key, SubscribeOptions::default()).unwrap();
    /// let namespaces = subscribe(InformerKey::of::<Namespace>());
    /// let config_maps = subscribe(InformerKey::of::<ConfigMap>());
    ///
    /// let mut both = futures::stream::select(namespaces.into_stream(), config_maps.into_stream());
    /// assert_eq!(both.next().await.expect("the informers run").object().kind(), "Namespace");
    /// # });
    /// ```
    pub fn into_stream(self) -> NotificationStream<'static> {
        NotificationStream::new(self)
    }
}

impl<'a> NotificationStream<'a> {
    fn new(subscription: impl Borrow<Subscription> + Send + Sync + 'a) -> Self {
        let notifications = unfold(subscription, |subscription| async move {
            // Lets other tasks of the thread run during a long backlog.
            tokio::task::coop::consume_budget().await;
            let borrowed: &Subscription = subscription.borrow();
            let notification = borrowed.subscriber.next_notification().await?;
            Some((notification, subscription))
        });
        // Unlike `unfold`, a fused stream may be polled after its end.
        Self { notifications: notifications.fuse().boxed() }
    }
}

impl Stream for NotificationStream<'_> {
    type Item = Notification;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.notifications.poll_next_unpin(context)
    }
}

impl fmt::Debug for NotificationStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotificationStream").finish_non_exhaustive()
    }
}
