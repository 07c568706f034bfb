//! From the notifications of a version's subscriptions to keys in its plugin's queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pilothouse_informer::Priority;
use pilothouse_model::{Notification, ObjectKey};
use pilothouse_plugin::{LogLevel, Reason};
use tokio::time::{Instant, sleep_until};

use crate::guest_host::GuestServices;
use crate::queue::Item;
use crate::targets::Targets;
use crate::version::{Route, Version};

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
        for notification in &batch {
            queue(version, route, notification, guest);
        }
        self.batches.push(next_batch(version, position, route));
    }
}

fn next_batch(version: &Version, position: usize, route: &Route) -> Batch {
    let (subscribed, watch) = (route.subscribed.clone(), Arc::clone(&route.watch));
    let views = Arc::clone(&version.views);
    Box::pin(async move { (position, subscribed.next_batch(&views, &watch).await) })
}

fn queue(version: &Version, route: &Route, notification: &Notification, guest: &GuestServices) {
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
