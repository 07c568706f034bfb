//! Turns the notifications of a version's subscriptions into keys in its plugin's queue.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pilothouse_informer::Priority;
use pilothouse_informer::supervise::{TaskPanic, panic_message};
use pilothouse_model::{Notification, ObjectKey};
use pilothouse_plugin::{IndexCursor, IndexPart, LogLevel, Reason};
use tokio::time::{Instant, sleep_until};

use crate::guest_host::GuestServices;
use crate::load::version::{ResolvedTrigger, Version, WatchRoute};
use crate::runtime::predicate::PredicateError;
use crate::runtime::queue::{Item, QueueEvent};
use crate::runtime::targets::{TargetKeys, Targets, TriggeredKeys};

type NextBatch = Pin<Box<dyn Future<Output = (usize, Option<Vec<Notification>>)> + Send>>;

/// Waits on all subscriptions of a running version at once, and queues the keys that their notifications trigger. It is polled inside the
/// plugin's own task and calls no guest: the indexer's task computes index values.
pub(super) struct Dispatcher {
    version: Option<Arc<Version>>,
    /// One future per route whose subscription has not ended. Dropping one loses nothing: `next_batch` is cancellation safe, and the next
    /// version's future on the same subscription returns the batch instead.
    batches: FuturesUnordered<NextBatch>,
    /// The unprocessed part of the current batch.
    remaining: Option<Remaining>,
    /// When to prune own writes that no notification mentions.
    next_prune: Instant,
}

/// The unprocessed part of a batch.
struct Remaining {
    /// The position of the batch's route.
    position: usize,
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

impl Remaining {
    fn new(position: usize, batch: Vec<Notification>) -> Self {
        // The clock is read once for each batch, not for each notification.
        let received = Instant::now();
        let notifications = batch.into_iter();
        Self { position, received, notifications, current: None, keys: None, queued_namespace: None }
    }
}

/// How long one call of [`Dispatcher::next`] evaluates predicates and queues keys before it yields to other tasks.
const TIME_SLICE: Duration = Duration::from_millis(5);

/// How often own writes are pruned; API servers send bookmarks about as often.
const PRUNE_INTERVAL: Duration = Duration::from_mins(1);

impl Default for Dispatcher {
    fn default() -> Self {
        Self {
            version: None,
            batches: FuturesUnordered::new(),
            remaining: None,
            next_prune: Instant::now() + PRUNE_INTERVAL,
        }
    }
}

impl Dispatcher {
    /// Dispatches for this version from now on. The rest of the current batch is still queued by the old version's routes.
    pub(super) fn install(&mut self, version: Arc<Version>, guest: &GuestServices) {
        version.views.writes.set_views(&version.views);
        guest.hot_loops.forget_all();
        self.queue_remaining(guest, None);
        for route in &version.routes {
            route.subscribed.filter.set_condition(route.condition());
        }
        self.batches = version
            .routes
            .iter()
            .enumerate()
            .map(|(position, route)| next_batch(&version, position, route))
            .collect();
        self.version = Some(version);
    }

    /// Queues the rest of the current batch, because the version is about to end.
    pub(super) fn finish_batch(&mut self, guest: &GuestServices) {
        self.queue_remaining(guest, None);
    }

    /// Stops dispatching, because the version was stopped.
    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.remaining = None;
        self.version = None;
    }

    /// Waits for a batch, and processes it for at most one time slice; the next call continues. Waits for ever without a version.
    ///
    /// # Cancellation safety
    /// Safe: the rest of a batch stays in the dispatcher.
    pub(super) async fn next(&mut self, guest: &GuestServices) {
        if self.remaining.is_some() {
            tokio::task::yield_now().await;
            return self.queue_remaining(guest, Some(TIME_SLICE));
        }
        let Some(version) = &self.version else { return std::future::pending().await };
        let (position, batch) = tokio::select! {
            // The timer comes first, so that busy subscriptions cannot hold it back. It is due once in each interval.
            biased;
            () = sleep_until(self.next_prune) => {
                self.next_prune = Instant::now() + PRUNE_INTERVAL;
                guest.hot_loops.forget_expired();
                return version.views.prune_own_writes();
            }
            Some(batch) = self.batches.next() => batch,
        };
        // The subscription has ended, because the host is shutting down: it is not polled again.
        let Some(batch) = batch else { return };
        guest.journal.begin_batch(Instant::now());
        version.views.confirm_own_writes(&version.routes[position].watch, &batch);
        self.remaining = Some(Remaining::new(position, batch));
        self.queue_remaining(guest, Some(TIME_SLICE));
    }

    /// Queues the rest of the current batch, for at most `slice` if that is given. At its end, the subscription is polled again.
    fn queue_remaining(&mut self, guest: &GuestServices, slice: Option<Duration>) {
        let (Some(version), Some(remaining)) = (&self.version, &mut self.remaining) else { return };
        let position = remaining.position;
        let route = &version.routes[position];
        let end = slice.filter(|_| needs_slices(route)).map(|slice| Instant::now() + slice);
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        if queue_all(version, route, remaining, guest, &is_over) {
            self.batches.push(next_batch(version, position, route));
            self.remaining = None;
        }
    }
}

/// Whether the notifications of a route may take long: its predicate is interpreted, or one change triggers any number of keys. Otherwise, the
/// clock is not read.
fn needs_slices(route: &WatchRoute) -> bool {
    route
        .trigger
        .as_ref()
        .is_some_and(|trigger| trigger.predicate.needs_interpreter() || trigger.targets.may_name_many())
}

/// Queues the keys that the notifications trigger, until `is_over` returns true between two steps. Returns whether none is left.
///
/// The objects of an initial list that are in one namespace trigger the same keys, for the same reason. They are queued once.
///
/// A panic affects only the notification that caused it. If the route's trigger is the object itself, even that one is queued.
fn queue_all(
    version: &Version,
    route: &WatchRoute,
    remaining: &mut Remaining,
    guest: &GuestServices,
    is_over: &impl Fn() -> bool,
) -> bool {
    loop {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            while step(version, route, remaining, guest) {
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
        let panic = TaskPanic { message: panic_message(&*payload), panics: 1, wait: Duration::ZERO };
        guest.report_panic("dispatch", &panic);
        if let (Some(notification), Some(ResolvedTrigger { targets: Targets::Itself, target_watch, .. })) =
            (&remaining.current, &route.trigger)
        {
            let (reason, priority) = reason(notification);
            let item = Item { watch: Arc::clone(target_watch), key: notification.key().clone() };
            let event = event_time(priority, remaining.received).map(QueueEvent::from);
            guest.queue.add_for_event(item, reason, priority, event);
        }
    }
}

/// Queues the next part of the current notification's keys or, if it has none left, the first part of the next one's. Returns whether there
/// was anything to do.
fn step(version: &Version, route: &WatchRoute, remaining: &mut Remaining, guest: &GuestServices) -> bool {
    if remaining.keys.is_none() {
        let Some(notification) = remaining.notifications.next() else { return false };
        let notification = remaining.current.insert(notification);
        guest.panics.inject_test_panic("dispatch");
        let namespace = initial_namespace(route, notification);
        if namespace.is_some() && namespace == remaining.queued_namespace.as_deref() {
            return true;
        }
        remaining.queued_namespace = namespace.map(str::to_owned);
        remaining.keys = triggered_keys(version, route, notification, remaining.received, guest);
    }
    if let (Some(notification), Some(keys)) = (&remaining.current, &mut remaining.keys) {
        queue_part(version, route, notification, keys, remaining.received, guest);
        remaining.keys.take_if(|keys| !keys.has_more());
    }
    true
}

/// Returns the namespace whose targets an object of the initial list triggers; `None` for other notifications and triggers.
fn initial_namespace<'a>(route: &WatchRoute, notification: &'a Notification) -> Option<&'a str> {
    let trigger = route.trigger.as_ref()?;
    match (&trigger.targets, notification) {
        (Targets::Namespace, Notification::Added { object, initial: true }) => {
            Some(Targets::namespace_of(object))
        }
        _ => None,
    }
}

fn next_batch(version: &Version, position: usize, route: &WatchRoute) -> NextBatch {
    let (subscribed, watch) = (route.subscribed.clone(), Arc::clone(&route.watch));
    let views = Arc::clone(&version.views);
    Box::pin(async move { (position, subscribed.next_batch(&views, &watch).await) })
}

/// Queues all keys that a change of an object triggers, which the plugin's task received at `received`.
pub(super) fn queue(
    version: &Version,
    route: &WatchRoute,
    notification: &Notification,
    received: Instant,
    guest: &GuestServices,
) {
    let Some(mut keys) = triggered_keys(version, route, notification, received, guest) else { return };
    while keys.has_more() {
        queue_part(version, route, notification, &mut keys, received, guest);
    }
}

/// Returns the keys that a change triggers. If that is the object itself, queues it. Returns `None` if there is nothing left to queue.
fn triggered_keys(
    version: &Version,
    route: &WatchRoute,
    notification: &Notification,
    received: Instant,
    guest: &GuestServices,
) -> Option<TriggeredKeys> {
    let trigger = route.trigger.as_ref()?;
    let (reason, priority) = reason(notification);
    // Objects of the initial list skip the predicate, because the plugin must reconcile every object once.
    let is_checked = priority == Priority::Normal || reason == Reason::Resync;
    let is_itself = matches!(trigger.targets, Targets::Itself);
    if is_checked && !admits(route, trigger, notification, guest) {
        // The keys that other triggers would have queued are not worth a search.
        if is_itself {
            guest.journal.record_refused(&trigger.target_watch, notification, reason);
        }
        return None;
    }
    if is_itself {
        queue_key(version, route, notification, notification.key().clone(), received, guest);
        return None;
    }
    Some(trigger.targets.keys_for(notification))
}

/// Queues the next part of the keys that a change triggers.
fn queue_part(
    version: &Version,
    route: &WatchRoute,
    notification: &Notification,
    keys: &mut TriggeredKeys,
    received: Instant,
    guest: &GuestServices,
) {
    let Some(trigger) = &route.trigger else { return };
    let target = CachedTarget { version, watch: &trigger.target_watch };
    for key in keys.next_part(&target) {
        queue_key(version, route, notification, key, received, guest);
    }
}

fn queue_key(
    version: &Version,
    route: &WatchRoute,
    notification: &Notification,
    key: ObjectKey,
    received: Instant,
    guest: &GuestServices,
) {
    let Some(trigger) = &route.trigger else { return };
    let (reason, priority) = reason(notification);
    let item = Item { watch: Arc::clone(&trigger.target_watch), key };
    guest.hot_loops.record_event(&item, notification);
    guest.journal.record_queued(&item.watch, &item.key, &route.watch, notification, reason);
    let event = event_time(priority, received).map(|at| QueueEvent {
        at,
        record: guest.tracer.event(notification, &route.watch, reason, at, &guest.host_memory),
    });
    if matches!(trigger.targets, Targets::Itself) {
        return guest.queue.add_for_event(item, reason, priority, event);
    }
    let is_cached = |key: &ObjectKey| {
        version.views.get(&trigger.target_watch).is_ok_and(|view| view.object(key).is_some())
    };
    if let Err(exceeded) = guest.queue.add_named(item, reason, priority, event, is_cached) {
        let refused =
            format!("a key that {} of watch {:?} names is not queued", notification.key(), route.watch);
        guest.record_refusal(&refused, &exceeded);
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
    guest: &GuestServices,
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
    guest.metrics.predicate_errors.inc();
    guest.log.failure(
        LogLevel::Warn,
        format_args!("predicate failed: {problem}"),
        &"treated as true",
        &[("watch", &route.watch), ("key", &notification.key())],
    );
    if let Some(delay) = suspended {
        let text = format_args!(
            "the predicate costs too much each time; it is not evaluated for {delay:?}, and treated as true"
        );
        guest.log.host(LogLevel::Warn, text, &[("watch", &route.watch)]);
    }
    true
}

/// The cache of a target watch.
struct CachedTarget<'a> {
    version: &'a Version,
    watch: &'a str,
}

// The names exist: they were checked with the descriptor.
impl TargetKeys for CachedTarget<'_> {
    fn by_index(&self, index: &str, value: &str, from: &IndexCursor, step: usize) -> IndexPart<ObjectKey> {
        let view = self.version.views.get(self.watch);
        view.and_then(|view| view.index_keys(index, value, from, step)).unwrap_or_default()
    }

    fn in_namespace(&self, namespace: &str, from: &IndexCursor, step: usize) -> IndexPart<ObjectKey> {
        self.version.views.get(self.watch).map(|view| view.keys_in(namespace, from, step)).unwrap_or_default()
    }
}

/// Returns the reason that the guest sees for the change, and its priority. As in controller-runtime's priority queue, objects of the
/// initial list and resyncs wait behind live changes.
fn reason(notification: &Notification) -> (Reason, Priority) {
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
fn event_time(priority: Priority, received: Instant) -> Option<Instant> {
    (priority == Priority::Normal).then_some(received)
}

/// Queues those objects of the target watches whose keys are chosen, for example because they get another version, which may reconcile any of
/// them differently.
pub(super) fn requeue(
    version: &Version,
    guest: &GuestServices,
    reason: Reason,
    is_chosen: impl Fn(&ObjectKey) -> bool,
) {
    for (watch, view) in version.views.by_name.iter().filter(|(_, view)| view.is_target) {
        for key in view.cache.keys().filter(&is_chosen) {
            guest.queue.add(Item { watch: Arc::clone(watch), key }, reason, Priority::Low);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures::FutureExt;
    use pilothouse_model::Object;

    use super::*;
    use crate::cache::views::model_tests::model_server::{ModelServer, TestWatch};
    use crate::runtime::handover::tests::version;

    #[tokio::test(start_paused = true)]
    async fn a_panic_at_one_notification_loses_no_key() {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let guest = GuestServices::for_test("dispatched", kube::Client::new(service, "n"));
        let (mut server, mut watched) = (ModelServer::new(true), TestWatch::open("").await);
        (0..3).for_each(|name| drop(server.put(name, 0, 0)));
        watched.deliver(&server, 3).await;
        let version = version(&guest, "maps", &watched).await;
        let mut batch = Remaining::new(0, version.routes[0].subscribed.take_all());
        guest.panics.arm("dispatch", 1);
        let route = &version.routes[0];
        assert!(queue_all(&version, route, &mut batch, &guest, &|| false), "all are queued");
        assert_eq!((guest.queue.snapshot().depth, guest.metrics.task_panics.get()), (3, 1));
        let status = guest.panics.status_text().expect("a problem in the status");
        assert!(status.contains("a defect in the dispatch"), "{status}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_initial_list_queues_the_targets_of_a_namespace_once() {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let guest = GuestServices::for_test("namespaced", kube::Client::new(service, "n"));
        let (mut server, mut watched) = (ModelServer::new(true), TestWatch::open("").await);
        let objects: Vec<_> = (0..3).map(|name| server.put(name, 0, 0)).collect();
        watched.deliver(&server, 3).await;
        let mut version = version(&guest, "maps", &watched).await;
        assert!(!needs_slices(&version.routes[0]), "a change of an object triggers one key");
        let trigger = version.routes[0].trigger.as_mut().expect("a trigger");
        trigger.targets = Targets::Index { index: "team".to_owned() };
        assert!(needs_slices(&version.routes[0]));
        let trigger = version.routes[0].trigger.as_mut().expect("a trigger");
        trigger.targets = Targets::Namespace;
        assert!(needs_slices(&version.routes[0]));
        for (initial, expected) in [(true, [3_usize, 0, 0]), (false, [3, 3, 3])] {
            // The numbers of keys that each notification has queued.
            let queued = RefCell::new(Vec::new());
            let take_all = || {
                let next = || guest.queue.get().now_or_never().flatten().map(|(held, _)| held.done());
                queued.borrow_mut().push(std::iter::from_fn(next).count());
                false
            };
            let added = |object| Notification::Added { object, initial };
            let mut batch = Remaining::new(0, objects.iter().cloned().map(added).collect());
            assert!(queue_all(&version, &version.routes[0], &mut batch, &guest, &take_all));
            assert_eq!(queued.into_inner(), expected, "initial: {initial}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_keys_of_one_change_are_queued_in_parts_that_end_with_the_time_slice() {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let guest = GuestServices::for_test("named", kube::Client::new(service, "n"));
        let watched = TestWatch::open("").await;
        let mut version = version(&guest, "maps", &watched).await;
        version.routes[0].trigger.as_mut().expect("a trigger").targets =
            Targets::field("{.spec.refs[*]}", None, true).expect("a path");
        let route = &version.routes[0];
        assert!(needs_slices(route));
        let names: Vec<String> = (0..1_200).map(|number| format!(r#""n-{number}""#)).collect();
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"n"}},"spec":{{"refs":[{}]}}}}"#,
            names.join(",")
        );
        let object = Object::from_json(text).expect("an object");
        let added = || Notification::Added { object: object.clone(), initial: false };
        let mut batch = Remaining::new(0, vec![added(), added()]);
        let mut depths = Vec::new();
        while !queue_all(&version, route, &mut batch, &guest, &|| true) {
            depths.push(guest.queue.snapshot().depth);
        }
        assert_eq!(depths, [512, 1024, 1200, 1200, 1200, 1200], "each slice queues a part");
    }

    #[tokio::test(start_paused = true)]
    async fn a_predicate_over_its_cost_limit_is_suspended_and_admits_every_change() {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let guest = GuestServices::for_test("costly", kube::Client::new(service, "n"));
        let watched = TestWatch::open("").await;
        let mut version = version(&guest, "maps", &watched).await;
        let all: String = (0..9).map(|level| format!("[0,1,2,3,4,5,6,7,8,9].all(v{level}, ")).collect();
        let costly = format!("event == 'created' || !({all}true{})", ")".repeat(9));
        version.routes[0].trigger.as_mut().expect("a trigger").predicate =
            crate::runtime::predicate::Predicate::compile(&costly).expect("a predicate");
        let route = &version.routes[0];
        let mut server = ModelServer::new(true);
        let mut changes = |count: usize| {
            for name in 0..count {
                let object = server.put(name % 3, 0, 0);
                let notification = Notification::Added { object, initial: false };
                queue(&version, route, &notification, Instant::now(), &guest);
            }
            guest.metrics.predicate_errors.get()
        };
        assert_eq!(changes(5), 5);
        assert_eq!(changes(100), 5, "it is not evaluated");
        assert_eq!(guest.queue.snapshot().depth, 3, "all are admitted");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(changes(100), 6, "once, to see whether it still costs too much");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(changes(1), 6, "the suspension doubles");
    }
}
