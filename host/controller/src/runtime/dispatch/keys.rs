//! Queues the keys that one change triggers.

use std::sync::Arc;

use pilothouse_informer::Priority;
use pilothouse_model::{Notification, ObjectKey};
use pilothouse_plugin::{IndexCursor, IndexPage, LogLevel, Reason};
use tokio::time::Instant;

use crate::guest_host::PluginServices;
use crate::load::version::{ResolvedTrigger, Version, WatchRoute};
use crate::runtime::key_mapper::{KeyMapper, TargetCache, TriggeredKeys};
use crate::runtime::predicate::PredicateError;
use crate::runtime::queue::{QueueEvent, ReconcileKey};

/// The number of cached objects that are read at a time.
const PAGE: usize = 512;

/// Queues all keys that a change of an object triggers, which the plugin's task received at `received`.
pub(in crate::runtime) fn queue(
    version: &Version,
    route: &WatchRoute,
    notification: &Notification,
    received: Instant,
    plugin: &PluginServices,
) {
    let Some(mut keys) = triggered_keys(version, route, notification, received, plugin) else { return };
    while keys.has_more() {
        queue_part(version, route, notification, &mut keys, received, plugin);
    }
}

/// Returns the keys that a change triggers. If that is the object itself, queues it. Returns `None` if there is nothing left to queue.
pub(super) fn triggered_keys(
    version: &Version,
    route: &WatchRoute,
    notification: &Notification,
    received: Instant,
    plugin: &PluginServices,
) -> Option<TriggeredKeys> {
    let trigger = route.trigger.as_ref()?;
    let (reason, priority) = reason(notification);
    // Objects of the initial list skip the predicate, because the plugin must reconcile every object once.
    let is_checked = priority == Priority::Normal || reason == Reason::Resync;
    let is_itself = matches!(trigger.mapper, KeyMapper::Itself);
    if is_checked && !admits(route, trigger, notification, plugin) {
        // Only the object's own key gets an entry in the journal: the keys of other triggers would have to be searched for.
        if is_itself {
            plugin.journal.record_refused(&trigger.target_watch, notification, reason);
        }
        return None;
    }
    if is_itself {
        queue_key(version, route, notification, notification.key().clone(), received, plugin);
        return None;
    }
    Some(trigger.mapper.keys_for(notification))
}

/// Queues the next part of the keys that a change triggers.
pub(super) fn queue_part(
    version: &Version,
    route: &WatchRoute,
    notification: &Notification,
    keys: &mut TriggeredKeys,
    received: Instant,
    plugin: &PluginServices,
) {
    let Some(trigger) = &route.trigger else { return };
    let target = CachedTarget { version, watch: &trigger.target_watch };
    for key in keys.next_page(&target) {
        queue_key(version, route, notification, key, received, plugin);
    }
}

fn queue_key(
    version: &Version,
    route: &WatchRoute,
    notification: &Notification,
    key: ObjectKey,
    received: Instant,
    plugin: &PluginServices,
) {
    let Some(trigger) = &route.trigger else { return };
    let (reason, priority) = reason(notification);
    let item = ReconcileKey { watch: Arc::clone(&trigger.target_watch), key };
    plugin.hot_loops.record_event(&item, notification);
    plugin.journal.record_queued(&item.watch, &item.key, &route.watch, notification, reason);
    let event = event_time(priority, received).map(|at| QueueEvent {
        at,
        record: plugin.tracer.event(notification, &route.watch, reason, at, &plugin.host_memory),
    });
    if matches!(trigger.mapper, KeyMapper::Itself) {
        return plugin.queue.add_for_event(item, reason, priority, event);
    }
    let is_cached = |key: &ObjectKey| {
        version.views.get(&trigger.target_watch).is_ok_and(|view| view.object(key).is_some())
    };
    if let Err(exceeded) = plugin.queue.add_named(item, reason, priority, event, is_cached) {
        let refused =
            format!("a key that {} of watch {:?} names is not queued", notification.key(), route.watch);
        plugin.record_refusal(&refused, &exceeded);
    }
}

/// Whether the change passes the watch's predicate. A predicate that fails, or that is suspended because it costs too much, admits it.
///
/// Before that, the part of the predicate that needs no CEL may decide. The informer evaluates the same condition and does not deliver what it
/// refuses, so a suspension does not change which of these changes are refused.
fn admits(
    route: &WatchRoute,
    trigger: &ResolvedTrigger,
    notification: &Notification,
    plugin: &PluginServices,
) -> bool {
    if let Some(is_admitted) = trigger.predicate.decide(notification) {
        return is_admitted;
    }
    if trigger.suspension.lock().is_active(Instant::now()) {
        return true;
    }
    let outcome = trigger.predicate.interpret(notification);
    let has_exceeded = outcome.as_ref().is_err_and(PredicateError::is_over_cost_limit);
    let suspended = trigger.suspension.lock().record(has_exceeded, Instant::now());
    let problem = match outcome {
        Ok(is_admitted) => return is_admitted,
        Err(problem) => problem,
    };
    plugin.metrics.predicate_errors.inc();
    plugin.log.failure(
        LogLevel::Warn,
        format_args!("predicate failed: {problem}"),
        &"treated as true",
        &[("watch", &route.watch), ("key", &notification.key())],
    );
    if let Some(delay) = suspended {
        let text = format_args!(
            "the predicate costs too much each time; it is not evaluated for {delay:?}, and treated as true"
        );
        plugin.log.host(LogLevel::Warn, text, &[("watch", &route.watch)]);
    }
    true
}

/// The cache of a target watch.
struct CachedTarget<'a> {
    version: &'a Version,
    watch: &'a str,
}

// The names exist: they were checked with the descriptor.
impl TargetCache for CachedTarget<'_> {
    fn by_index(&self, index: &str, value: &str, from: &IndexCursor, step: usize) -> IndexPage<ObjectKey> {
        let view = self.version.views.get(self.watch);
        view.and_then(|view| view.index_keys(index, value, from, step)).unwrap_or_default()
    }

    fn in_namespace(&self, namespace: &str, from: &IndexCursor, step: usize) -> IndexPage<ObjectKey> {
        self.version.views.get(self.watch).map(|view| view.keys_in(namespace, from, step)).unwrap_or_default()
    }
}

/// Returns the reason that the guest sees for the change, and its priority. As in controller-runtime's priority queue, objects of the
/// initial list and resyncs wait behind live changes.
pub(super) fn reason(notification: &Notification) -> (Reason, Priority) {
    match notification {
        Notification::Added { initial: true, .. } => (Reason::Startup, Priority::Low),
        Notification::Added { initial: false, .. } => (Reason::Created, Priority::Normal),
        Notification::Updated { .. } if notification.is_resync() => (Reason::Resync, Priority::Low),
        Notification::Updated { .. } => (Reason::Updated, Priority::Normal),
        Notification::Deleted { .. } => (Reason::Deleted, Priority::Normal),
    }
}

/// Returns the time from which the delay of the key's reconcile counts; `None` for objects of the initial list and resyncs, which wait behind
/// live changes on purpose.
pub(super) fn event_time(priority: Priority, received: Instant) -> Option<Instant> {
    (priority == Priority::Normal).then_some(received)
}

/// Queues those objects of the target watches whose keys are chosen, for example because they get another version, which may reconcile any of
/// them differently.
pub(in crate::runtime) fn requeue(
    version: &Version,
    plugin: &PluginServices,
    reason: Reason,
    is_chosen: impl Fn(&ObjectKey) -> bool,
) {
    for (watch, view) in version.views.by_name.iter().filter(|(_, view)| view.is_target) {
        for key in view.cache.keys().filter(&is_chosen) {
            plugin.queue.add(ReconcileKey { watch: Arc::clone(watch), key }, reason, Priority::Low);
        }
    }
}

/// Queues those keys that cached objects of other watches name and that are chosen. A key may have no object in the target watch's cache, so
/// [`requeue`] does not find it.
pub(in crate::runtime) fn requeue_named(
    version: &Version,
    plugin: &PluginServices,
    is_chosen: impl Fn(&ObjectKey) -> bool,
) {
    let received = Instant::now();
    for route in &version.routes {
        let Some(trigger) = route.trigger.as_ref().filter(|trigger| trigger.mapper.names_keys()) else {
            continue;
        };
        let target = CachedTarget { version, watch: &trigger.target_watch };
        let cache = route.subscribed.subscription.store();
        let mut after = None;
        loop {
            // In pages, because a compressed cache unpacks what it returns.
            let page = cache.page(None, after.as_ref(), PAGE);
            let Some(last) = page.last() else { break };
            after = Some(last.key().clone());
            for object in page {
                let notification = Notification::Added { object, initial: true };
                let mut keys = trigger.mapper.keys_for(&notification);
                while keys.has_more() {
                    for key in keys.next_page(&target).into_iter().filter(&is_chosen) {
                        queue_key(version, route, &notification, key, received, plugin);
                    }
                }
            }
        }
    }
}
