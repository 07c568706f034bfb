//! From the notifications of a version's subscriptions to keys in its plugin's queue.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pilothouse_informer::Priority;
use pilothouse_informer::supervise::{Panic, message};
use pilothouse_model::{Notification, ObjectKey};
use pilothouse_plugin::{LogLevel, Reason};
use tokio::time::{Instant, sleep_until};

use crate::guest_host::GuestServices;
use crate::load::version::{Route, Version, Work};
use crate::runtime::queue::Item;
use crate::runtime::targets::Targets;

type Batch = Pin<Box<dyn Future<Output = (usize, Option<Vec<Notification>>)> + Send>>;

/// Waits on all subscriptions of the running version at once, and queues what they bring. It runs inside the plugin's
/// own task, and runs no guest: index values are computed elsewhere.
pub(super) struct Dispatcher {
    version: Option<Arc<Version>>,
    /// One future per route that has not ended. Dropping one loses nothing: `next_batch` is cancellation safe, and the
    /// next version's future on the same subscription gets what this one would have.
    batches: FuturesUnordered<Batch>,
    /// What is left of the batch that is taken in, and the position of its route.
    rest: Option<(usize, std::vec::IntoIter<Notification>)>,
    /// When own writes are looked at that no notification tells of.
    next_look: Instant,
}

/// How long predicates are evaluated before other tasks have their turn.
const SLICE: Duration = Duration::from_millis(5);

/// Bookmarks come as often.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

impl Default for Dispatcher {
    fn default() -> Self {
        Self {
            version: None,
            batches: FuturesUnordered::new(),
            rest: None,
            next_look: Instant::now() + LOOK_AGAIN,
        }
    }
}

impl Dispatcher {
    /// From now on the subscriptions of this version are served, by its routes.
    pub(super) fn install(&mut self, version: Arc<Version>, guest: &GuestServices) {
        guest.writes.serve(&version.views);
        guest.hot_loops.forget_all();
        self.finish(guest);
        self.batches = version
            .routes
            .iter()
            .enumerate()
            .map(|(position, route)| next_batch(&version, position, route))
            .collect();
        self.version = Some(version);
    }

    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.rest = None;
        self.version = None;
    }

    /// Takes in one batch, or what takes one slice of time; waits for ever while there is nothing to wait for. Cancellation safe: what is
    /// left of a batch stays here.
    pub(super) async fn next(&mut self, guest: &GuestServices) {
        if self.rest.is_some() {
            tokio::task::yield_now().await;
            return self.take_in(guest, Some(SLICE));
        }
        let Some(version) = &self.version else { return std::future::pending().await };
        let (position, batch) = tokio::select! {
            Some(batch) = self.batches.next() => batch,
            () = sleep_until(self.next_look) => {
                self.next_look = Instant::now() + LOOK_AGAIN;
                guest.hot_loops.forget_old();
                return version.views.forget_all();
            }
        };
        // A subscription that has ended (the host is shutting down) is not asked again.
        let Some(batch) = batch else { return };
        version.views.hear(&version.routes[position].watch, &batch);
        self.rest = Some((position, batch.into_iter()));
        self.take_in(guest, Some(SLICE));
    }

    /// Takes in all that is left of a batch, by the version that it came to.
    fn finish(&mut self, guest: &GuestServices) {
        self.take_in(guest, None);
    }

    /// Queues what is left of the batch, for as long as the slice lasts; then its subscription is asked again.
    fn take_in(&mut self, guest: &GuestServices, slice: Option<Duration>) {
        let (Some(version), Some((position, rest))) = (&self.version, &mut self.rest) else { return };
        let route = &version.routes[*position];
        // The clock is read only where an event may take long.
        let is_slow = route.work.as_ref().is_some_and(|work| work.predicate.takes_an_interpreter());
        let end = slice.filter(|_| is_slow).map(|slice| Instant::now() + slice);
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        if queue_all(version, route, rest, guest, &is_over) {
            self.batches.push(next_batch(version, *position, route));
            self.rest = None;
        }
    }
}

/// Queues what notifications start, until `is_over` after one of them; true when none is left. A panic costs no more than the notification
/// that it came of, and of that only what a trigger other than the object itself would have queued.
fn queue_all(
    version: &Version,
    route: &Route,
    rest: &mut std::vec::IntoIter<Notification>,
    guest: &GuestServices,
    is_over: &impl Fn() -> bool,
) -> bool {
    let mut queued = None;
    loop {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for notification in rest.by_ref() {
                let notification = queued.insert(notification);
                guest.panics.point("dispatch");
                queue(version, route, notification, guest);
                if is_over() {
                    return false;
                }
            }
            true
        }));
        let payload = match outcome {
            Ok(is_done) => return is_done && rest.as_slice().is_empty(),
            Err(payload) => payload,
        };
        let panic = Panic { message: message(&*payload), panics: 1, wait: Duration::ZERO };
        guest.panicked("dispatch", &panic);
        if let (Some(notification), Some(Work { targets: Targets::Itself, target_watch, .. })) =
            (&queued, &route.work)
        {
            let (reason, priority) = reason(notification);
            let item = Item { watch: Arc::clone(target_watch), key: notification.key().clone() };
            guest.queue.add(item, reason, priority);
        }
    }
}

fn next_batch(version: &Version, position: usize, route: &Route) -> Batch {
    let (subscribed, watch) = (route.subscribed.clone(), Arc::clone(&route.watch));
    let views = Arc::clone(&version.views);
    Box::pin(async move { (position, subscribed.next_batch(&views, &watch).await) })
}

/// Queues what the change of an object starts by the triggers of its watch.
pub(super) fn queue(version: &Version, route: &Route, notification: &Notification, guest: &GuestServices) {
    let Some(work) = &route.work else { return };
    let (reason, priority) = reason(notification);
    // The start passes the predicate by: the plugin has to see everything once.
    if priority == Priority::Normal || reason == Reason::Resync {
        match work.predicate.admits(notification) {
            Ok(true) => {}
            Ok(false) => return,
            Err(problem) => {
                guest.metrics.predicate_errors.inc();
                guest.log.failure(
                    LogLevel::Warn,
                    format_args!("predicate failed: {problem}"),
                    &"taken for true",
                    &[("watch", &route.watch), ("key", &notification.key())],
                );
            }
        }
    }
    let by_index = |index: &str, value: &str| index_keys(version, &work.target_watch, index, value);
    let is_itself = matches!(work.targets, Targets::Itself);
    for key in work.targets.of(notification, &by_index) {
        let item = Item { watch: Arc::clone(&work.target_watch), key };
        guest.hot_loops.woken(&item, notification);
        if is_itself {
            guest.queue.add(item, reason, priority);
            continue;
        }
        let is_cached = |key: &ObjectKey| {
            version.views.get(&work.target_watch).is_ok_and(|view| view.object(key).is_some())
        };
        if let Err(exceeded) = guest.queue.add_named(item, reason, priority, is_cached) {
            let what =
                format!("a key that {} of watch {:?} names is not queued", notification.key(), route.watch);
            guest.refused(&what, &exceeded);
        }
    }
}

fn index_keys(version: &Version, watch: &str, index: &str, value: &str) -> Vec<ObjectKey> {
    // Both names were checked when the descriptor was.
    version.views.get(watch).and_then(|view| view.index_keys(index, value)).unwrap_or_default()
}

/// Why the change queues, and whether live changes go before it (B45).
fn reason(notification: &Notification) -> (Reason, Priority) {
    match notification {
        Notification::Added { initial: true, .. } => (Reason::Startup, Priority::Low),
        Notification::Added { initial: false, .. } => (Reason::Created, Priority::Normal),
        Notification::Updated { .. } if notification.is_resync() => (Reason::Resync, Priority::Low),
        Notification::Updated { .. } => (Reason::Updated, Priority::Normal),
        Notification::Deleted { .. } => (Reason::Deleted, Priority::Normal),
    }
}

/// Queues every object of the target watches: new logic may decide otherwise about any of them.
pub(super) fn requeue_all(version: &Version, guest: &GuestServices) {
    for (watch, view) in version.views.by_name.iter().filter(|(_, view)| view.is_target) {
        for key in view.cache.keys() {
            guest.queue.add(Item { watch: Arc::clone(watch), key }, Reason::Startup, Priority::Low);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::views::model_tests::model_server::{Watched, World};
    use crate::runtime::handover::tests::version;

    #[tokio::test(start_paused = true)]
    async fn a_panic_at_one_notification_costs_no_other_and_not_its_own_object() {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let guest = GuestServices::for_test("dispatched", kube::Client::new(service, "n"));
        let (mut world, mut watched) = (World::new(true), Watched::open("").await);
        (0..3).for_each(|name| drop(world.put(name, 0, 0)));
        watched.bring(&world, 3).await;
        let version = version(&guest, "maps", &watched).await;
        let mut batch = version.routes[0].subscribed.take_all().into_iter();
        guest.panics.arm("dispatch", 1);
        assert!(queue_all(&version, &version.routes[0], &mut batch, &guest, &|| false), "all are queued");
        assert_eq!((guest.queue.snapshot().depth, guest.metrics.task_panics.get()), (3, 1));
        let told = guest.panics.trouble().expect("it is in the status");
        assert!(told.contains("a defect in the dispatch"), "{told}");
    }
}
