//! Handlers that may fail: a failed batch is redelivered, and the object whose notification breaks the handler is parked.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use pilothouse_model::{Notification, ObjectKey};
use tokio::time::{Instant, sleep_until};

use crate::shared::Subscription;
use crate::work_queue::ExponentialBackoff;

/// How many times a batch, and then a single notification, is delivered before it is given up.
pub const MAX_ATTEMPTS: u32 = 5;

/// The delay before a parked deletion is first delivered again.
const FIRST_DELETION_RETRY: Duration = Duration::from_secs(5 * 60);
/// The longest delay between two deliveries of a parked deletion.
const MAX_DELETION_RETRY: Duration = Duration::from_secs(60 * 60);

/// A queue of batches for a handler that may fail. It does no I/O and does not wait: a driver delivers
/// [`current`](Self::current) and reports the outcome with [`succeeded`](Self::succeeded) or [`failed`](Self::failed).
///
/// A batch that fails is delivered again. After [`MAX_ATTEMPTS`] failures it is split into single notifications. A single
/// notification that fails as often parks its object: nothing about that object is delivered until it changes. No change
/// follows a deletion, so a parked deletion is delivered again later ([`retry_deletions`](Self::retry_deletions)), and in
/// any case before a new object of that name.
///
/// ```
/// use pilothouse_informer::handler::{MAX_ATTEMPTS, Redelivery};
/// use pilothouse_model::{Notification, Object};
///
/// let pod = |name: &str| Object::from_json(format!(
///     r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}}}}"#)).unwrap();
/// let added = |name: &str| Notification::Added { object: pod(name), initial: false };
/// let mut redelivery = Redelivery::default();
/// redelivery.push(vec![added("good"), added("bad")]);
/// while let Some(batch) = redelivery.current() {
///     if batch.iter().any(|notification| notification.key().name() == "bad") {
///         redelivery.failed();
///     } else {
///         redelivery.succeeded();
///     }
/// }
/// assert_eq!(redelivery.parked().map(|key| key.name()).collect::<Vec<_>>(), ["bad"]);
/// ```
#[derive(Debug, Default)]
pub struct Redelivery {
    pending: VecDeque<Delivery>,
    /// The parked objects, with the resource version at which the handler failed.
    parked: BTreeMap<ObjectKey, String>,
    /// The deletions at which the handler failed. Their objects are in `parked`, too.
    deletions: BTreeMap<ObjectKey, Notification>,
    /// Rounds of redelivered deletions since no deletion was parked.
    deletion_retries: u32,
}

#[derive(Debug)]
struct Delivery {
    batch: Vec<Notification>,
    failures: u32,
}

/// What [`Redelivery`] does after a failure.
#[derive(Clone, Debug)]
pub enum FailureOutcome {
    /// The same batch is delivered again.
    Retry {
        /// How many times the batch has failed.
        failures: u32,
    },
    /// The batch was split into single notifications, which are delivered one by one.
    Split,
    /// The notification was given up and its object is parked.
    Parked(Notification),
}

impl Redelivery {
    /// Appends a batch. A change of a parked object unparks it; a resync of a parked object is dropped.
    pub fn push(&mut self, mut batch: Vec<Notification>) {
        for notification in &batch {
            // An object of this name exists again. The parked deletion has to be delivered before it.
            if let Some(deletion) = self.deletions.remove(notification.key()) {
                self.pending.push_back(Delivery { batch: vec![deletion], failures: 0 });
            }
        }
        batch.retain(|notification| {
            let Some(broken) = self.parked.get(notification.key()) else { return true };
            let changed = matches!(notification, Notification::Deleted { .. })
                || notification.object().resource_version() != broken;
            if changed {
                self.parked.remove(notification.key());
            }
            changed
        });
        if !batch.is_empty() {
            self.pending.push_back(Delivery { batch, failures: 0 });
        }
    }

    /// Returns the batch to deliver now.
    #[must_use]
    pub fn current(&self) -> Option<&[Notification]> {
        self.pending.front().map(|delivery| delivery.batch.as_slice())
    }

    /// Reports that the handler processed the current batch.
    pub fn succeeded(&mut self) {
        self.pending.pop_front();
    }

    /// Reports that the handler failed on the current batch. Returns `None` if there is no current batch.
    pub fn failed(&mut self) -> Option<FailureOutcome> {
        let delivery = self.pending.front_mut()?;
        delivery.failures += 1;
        if delivery.failures < MAX_ATTEMPTS {
            return Some(FailureOutcome::Retry { failures: delivery.failures });
        }
        let mut batch = self.pending.pop_front()?.batch;
        if batch.len() > 1 {
            for notification in batch.into_iter().rev() {
                self.pending.push_front(Delivery { batch: vec![notification], failures: 0 });
            }
            return Some(FailureOutcome::Split);
        }
        let notification = batch.pop()?;
        let key = notification.key().clone();
        // Pending notifications of this object are changes of it, so the object must not be parked.
        let has_later_change =
            self.pending.iter().any(|delivery| delivery.batch.iter().any(|later| *later.key() == key));
        if !has_later_change {
            if let Notification::Deleted { .. } = &notification {
                self.deletions.insert(key.clone(), notification.clone());
            }
            self.parked.insert(key, notification.object().resource_version().to_owned());
        }
        Some(FailureOutcome::Parked(notification))
    }

    /// Removes the pending notifications that carry this version of an object, except deletions. For a driver in which the
    /// handler has already failed on this version by another path.
    pub fn discard_version(&mut self, key: &ObjectKey, resource_version: &str) {
        for delivery in &mut self.pending {
            delivery.batch.retain(|notification| {
                let is_gone = matches!(notification, Notification::Deleted { .. });
                is_gone
                    || notification.key() != key
                    || notification.object().resource_version() != resource_version
            });
        }
        self.pending.retain(|delivery| !delivery.batch.is_empty());
    }

    /// Returns the delay after which to call [`retry_deletions`](Self::retry_deletions); `None` while no deletion is parked.
    /// The delay doubles from 5 minutes up to one hour.
    #[must_use]
    pub fn deletion_retry_delay(&self) -> Option<Duration> {
        let delays = ExponentialBackoff::new(FIRST_DELETION_RETRY, MAX_DELETION_RETRY);
        (!self.deletions.is_empty()).then(|| delays.delay(self.deletion_retries))
    }

    /// Queues the parked deletions for delivery again.
    pub fn retry_deletions(&mut self) {
        self.deletion_retries = if self.deletions.is_empty() { 0 } else { self.deletion_retries + 1 };
        for (key, deletion) in std::mem::take(&mut self.deletions) {
            self.parked.remove(&key);
            self.pending.push_back(Delivery { batch: vec![deletion], failures: 0 });
        }
    }

    /// Returns the deletions that are parked now.
    pub fn parked_deletions(&self) -> impl Iterator<Item = &Notification> {
        self.deletions.values()
    }

    /// Returns the keys of the objects that are parked now.
    pub fn parked(&self) -> impl Iterator<Item = &ObjectKey> {
        self.parked.keys()
    }
}

/// Handles batches of notifications. [`run_handler`] calls it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// # use pilothouse_informer::{InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions};
/// # use pilothouse_model::ResourceType;
/// # let namespaces = ResourceType {
/// #     group: String::new(), version: "v1".into(), kind: "Namespace".into(), plural: "namespaces".into(), namespaced: false,
/// # };
/// # let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
/// # let subscription = registry.subscribe(InformerKey::new(namespaces), SubscribeOptions::default()).unwrap();
/// use pilothouse_informer::handler::{Handler, HandlerFailed, run_handler};
/// use pilothouse_model::Notification;
///
/// struct Printer { failed: bool, seen: tokio::sync::mpsc::UnboundedSender<String> }
///
/// #[async_trait::async_trait]
/// impl Handler for Printer {
///     async fn handle(&mut self, batch: &[Notification]) -> Result<(), HandlerFailed> {
///         if !std::mem::replace(&mut self.failed, true) {
///             return Err(HandlerFailed("not yet".into()));
///         }
///         for notification in batch {
///             self.seen.send(notification.key().to_string()).map_err(|error| HandlerFailed(error.to_string()))?;
///         }
///         Ok(())
///     }
/// }
///
/// let (seen, mut names) = tokio::sync::mpsc::unbounded_channel();
/// let mut printer = Printer { failed: false, seen };
/// tokio::select! {
///     () = run_handler(&subscription, &mut printer) => unreachable!("the informer goes on"),
///     name = names.recv() => assert_eq!(name.as_deref(), Some("default"), "the batch was delivered again"),
/// }
/// # });
/// ```
#[async_trait]
pub trait Handler: Send {
    /// Handles one batch, in order. After an error or a panic the batch is delivered again.
    async fn handle(&mut self, batch: &[Notification]) -> Result<(), HandlerFailed>;

    /// Called when a notification was given up and its object is parked until it changes. Report it to the operator, for
    /// example with an Event or a metric.
    async fn parked(&mut self, _notification: &Notification) {}
}

/// The error of a handler that could not process a batch; the text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerFailed(pub String);

impl fmt::Display for HandlerFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HandlerFailed {}

/// Delivers a subscription's notifications to a handler, one batch at a time, until the informer stops. A failure or a
/// panic of the handler does not affect other subscribers, and the backlog of this one stays bounded meanwhile.
///
/// # Cancellation safety
/// Dropping the future drops the batch being handled; subscribe again to receive all objects again.
pub async fn run_handler(subscription: &Subscription, handler: &mut dyn Handler) {
    let mut redelivery = Redelivery::default();
    let backoff = ExponentialBackoff::default();
    let mut retry_at = None;
    loop {
        // The timer starts when the first deletion is parked and is not restarted by later batches.
        retry_at =
            redelivery.deletion_retry_delay().map(|wait| retry_at.unwrap_or_else(|| Instant::now() + wait));
        tokio::select! {
            // The timer comes first, so that a busy subscription cannot hold it back. It is due every five minutes at most.
            biased;
            () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => {
                redelivery.retry_deletions();
                retry_at = None;
            }
            batch = subscription.next_batch() => match batch {
                Some(batch) => redelivery.push(batch),
                None => return,
            },
        }
        while let Some(batch) = redelivery.current() {
            let error = match AssertUnwindSafe(handler.handle(batch)).catch_unwind().await {
                Ok(Ok(())) => {
                    redelivery.succeeded();
                    continue;
                }
                Ok(Err(error)) => error.0,
                Err(_) => "it panicked".to_owned(),
            };
            match redelivery.failed() {
                Some(FailureOutcome::Retry { failures }) => {
                    tracing::warn!(key = %subscription.key(), failures, "the handler failed: {error}; delivering the batch again");
                    tokio::time::sleep(backoff.delay(failures)).await;
                }
                Some(FailureOutcome::Parked(notification)) => {
                    let object = notification.key();
                    tracing::error!(key = %subscription.key(), %object, "the handler failed: {error}; the object is parked until it changes");
                    handler.parked(&notification).await;
                }
                Some(FailureOutcome::Split) | None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
