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
use crate::queue::Item;
use crate::targets::Targets;
use crate::version::{Route, Version, Work};

type Batch = Pin<Box<dyn Future<Output = (usize, Option<Vec<Notification>>)> + Send>>;

/// Waits on all subscriptions of the running version at once, and queues what they bring. It runs inside the plugin's
/// own task, and runs no guest: index values are computed elsewhere.
pub(super) struct Dispatcher {
    version: Option<Arc<Version>>,
    /// One future per route that has not ended. Dropping one loses nothing: `next_batch` is cancellation safe, and the
    /// next version's future on the same subscription gets what this one would have.
    batches: FuturesUnordered<Batch>,
    /// When own writes are looked at that no notification tells of.
    next_look: Instant,
}

/// Bookmarks come as often.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

impl Default for Dispatcher {
    fn default() -> Self {
        Self { version: None, batches: FuturesUnordered::new(), next_look: Instant::now() + LOOK_AGAIN }
    }
}

impl Dispatcher {
    /// From now on the subscriptions of this version are served, by its routes.
    pub(super) fn install(&mut self, version: Arc<Version>, guest: &GuestServices) {
        guest.writes.serve(&version.views);
        guest.hot_loops.forget_all();
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
        self.version = None;
    }

    /// Takes in one batch; waits for ever while there is nothing to wait for. Cancellation safe.
    pub(super) async fn next(&mut self, guest: &GuestServices) {
        let Some(version) = &self.version else { return std::future::pending().await };
        let (position, batch) = tokio::select! {
            Some(batch) = self.batches.next() => batch,
            () = sleep_until(self.next_look) => {
                self.next_look = Instant::now() + LOOK_AGAIN;
                guest.hot_loops.forget_old();
                return version.views.forget_all();
            }
        };
        let route = &version.routes[position];
        // A subscription that has ended (the host is shutting down) is not asked again.
        let Some(batch) = batch else { return };
        version.views.hear(&route.watch, &batch);
        queue_all(version, route, &batch, guest);
        self.batches.push(next_batch(version, position, route));
    }
}

/// Queues what a batch starts. A panic costs no more than the notification that it came of, and of that only what a trigger
/// other than the object itself would have queued.
fn queue_all(version: &Version, route: &Route, batch: &[Notification], guest: &GuestServices) {
    let mut queued = 0;
    while queued < batch.len() {
        let rest = &batch[queued..];
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for notification in rest {
                guest.panics.point("dispatch");
                queue(version, route, notification, guest);
                queued += 1;
            }
        }));
        let Err(payload) = outcome else { return };
        let notification = &batch[queued];
        queued += 1;
        let panic = Panic { message: message(&*payload), panics: 1, wait: Duration::ZERO };
        guest.panicked("dispatch", &panic);
        if let Some(Work { targets: Targets::Itself, target_watch, .. }) = &route.work {
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
                let key = notification.key();
                let text = format!("predicate failed, taken for true: {problem}");
                let place =
                    [("watch".to_owned(), route.watch.to_string()), ("key".to_owned(), key.to_string())];
                guest.logs.push(guest.name.as_str(), LogLevel::Warn, &text, &place);
                tracing::warn!(plugin = %guest.name, watch = %route.watch, %key, "{text}");
            }
        }
    }
    let by_index = |index: &str, value: &str| index_keys(version, &work.target_watch, index, value);
    for key in work.targets.of(notification, &by_index) {
        let item = Item { watch: Arc::clone(&work.target_watch), key };
        guest.hot_loops.woken(&item, notification);
        guest.queue.add(item, reason, priority);
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
    use crate::plugin::handover::tests::version;
    use crate::views::model_tests::world::{Watched, World};

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
        let batch = version.routes[0].subscribed.take_all();
        guest.panics.arm("dispatch", 1);
        queue_all(&version, &version.routes[0], &batch, &guest);
        assert_eq!((guest.queue.snapshot().depth, guest.metrics.task_panics.get()), (3, 1));
        let told = guest.panics.trouble().expect("it is in the status");
        assert!(told.contains("a defect in the dispatch"), "{told}");
    }
}
