//! The batch of notifications that is being queued, part by part.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::supervise::{TaskPanic, panic_message};
use pilothouse_model::Notification;
use tokio::time::Instant;

use super::keys::{event_time, queue_part, reason, triggered_keys};
use crate::guest_host::PluginServices;
use crate::load::version::{ResolvedTrigger, Version, WatchRoute};
use crate::runtime::key_mapper::{KeyMapper, TriggeredKeys};
use crate::runtime::queue::{QueueEvent, ReconcileKey};

/// The unprocessed part of a batch.
pub(super) struct RemainingBatch {
    /// The position of the batch's route.
    pub(super) position: usize,
    /// When the batch was taken from the informer.
    received: Instant,
    notifications: std::vec::IntoIter<Notification>,
    /// The notification that was taken from them last.
    current: Option<Notification>,
    /// The keys that it triggers and that are not queued yet.
    keys: Option<TriggeredKeys>,
    /// The namespace whose targets the initial list has queued last.
    queued_namespace: Option<String>,
}

impl RemainingBatch {
    pub(super) fn new(position: usize, batch: Vec<Notification>) -> Self {
        // The clock is read once for each batch, not for each notification.
        let received = Instant::now();
        let notifications = batch.into_iter();
        Self { position, received, notifications, current: None, keys: None, queued_namespace: None }
    }
}

/// Queues the keys that the notifications trigger, until `is_over` returns true between two steps. Returns whether none is left.
///
/// The objects of an initial list that are in one namespace trigger the same keys, for the same reason. They are queued once.
///
/// A panic affects only the notification that caused it. If the route's trigger is the object itself, even that one is queued.
pub(super) fn queue_all(
    version: &Version,
    route: &WatchRoute,
    remaining: &mut RemainingBatch,
    plugin: &PluginServices,
    is_over: &impl Fn() -> bool,
) -> bool {
    loop {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            while step(version, route, remaining, plugin) {
                if is_over() {
                    return false;
                }
            }
            true
        }));
        let payload = match outcome {
            Ok(is_done) => return is_done,
            Err(payload) => payload,
        };
        remaining.keys = None;
        // The other objects of the namespace queue what this one has not.
        remaining.queued_namespace = None;
        let panic = TaskPanic { message: panic_message(&*payload), panics: 1, wait: Duration::ZERO };
        plugin.report_panic("dispatch", &panic);
        if let (Some(notification), Some(ResolvedTrigger { mapper: KeyMapper::Itself, target_watch, .. })) =
            (&remaining.current, &route.trigger)
        {
            let (reason, priority) = reason(notification);
            let item = ReconcileKey { watch: Arc::clone(target_watch), key: notification.key().clone() };
            let event = event_time(priority, remaining.received).map(QueueEvent::from);
            plugin.queue.add_for_event(item, reason, priority, event);
        }
    }
}

/// Queues the next part of the current notification's keys or, if it has none left, the first part of the next one's. Returns whether there
/// was anything to do.
fn step(
    version: &Version,
    route: &WatchRoute,
    remaining: &mut RemainingBatch,
    plugin: &PluginServices,
) -> bool {
    if remaining.keys.is_none() {
        let Some(notification) = remaining.notifications.next() else { return false };
        let notification = remaining.current.insert(notification);
        let namespace = initial_namespace(route, notification);
        if namespace.is_some() && namespace == remaining.queued_namespace.as_deref() {
            return true;
        }
        remaining.queued_namespace = namespace.map(str::to_owned);
        plugin.panics.inject_test_panic("dispatch");
        remaining.keys = triggered_keys(version, route, notification, remaining.received, plugin);
    }
    if let (Some(notification), Some(keys)) = (&remaining.current, &mut remaining.keys) {
        queue_part(version, route, notification, keys, remaining.received, plugin);
        remaining.keys.take_if(|keys| !keys.has_more());
    }
    true
}

/// Returns the namespace whose targets an object of the initial list triggers; `None` for other notifications and triggers.
fn initial_namespace<'a>(route: &WatchRoute, notification: &'a Notification) -> Option<&'a str> {
    let trigger = route.trigger.as_ref()?;
    match (&trigger.mapper, notification) {
        (KeyMapper::Namespace, Notification::Added { object, initial: true }) => {
            Some(KeyMapper::namespace_of(object))
        }
        _ => None,
    }
}
