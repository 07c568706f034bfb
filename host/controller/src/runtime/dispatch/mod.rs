//! Turns the notifications of a version's subscriptions into keys in its plugin's queue.

mod batch;
mod keys;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pilothouse_model::Notification;
use tokio::time::{Instant, sleep_until};

use crate::guest_host::PluginServices;
use crate::load::version::{Version, WatchRoute};
use batch::{RemainingBatch, queue_all};
pub(super) use keys::{queue, requeue, requeue_named};

type NextBatch = Pin<Box<dyn Future<Output = (usize, Option<Vec<Notification>>)> + Send>>;

/// Waits on all subscriptions of a running version at once, and queues the keys that their notifications trigger. It is polled inside the
/// plugin's own task and calls no guest: the indexer's task computes index values.
pub(super) struct Dispatcher {
    version: Option<Arc<Version>>,
    /// One future per route whose subscription has not ended. Dropping one loses nothing: `next_batch` is cancellation safe, and the next
    /// version's future on the same subscription returns the batch instead.
    batches: FuturesUnordered<NextBatch>,
    /// The unprocessed part of the current batch.
    remaining: Option<RemainingBatch>,
    /// When to prune own writes that no notification mentions.
    next_prune: Instant,
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
    pub(super) fn install(&mut self, version: Arc<Version>, plugin: &PluginServices) {
        version.views.writes.set_views(&version.views);
        plugin.hot_loops.forget_all();
        self.queue_remaining(plugin, None);
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
    pub(super) fn finish_batch(&mut self, plugin: &PluginServices) {
        self.queue_remaining(plugin, None);
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
    pub(super) async fn next(&mut self, plugin: &PluginServices) {
        if self.remaining.is_some() {
            tokio::task::yield_now().await;
            return self.queue_remaining(plugin, Some(TIME_SLICE));
        }
        let Some(version) = &self.version else { return std::future::pending().await };
        let (position, batch) = tokio::select! {
            // The timer comes first, so that busy subscriptions cannot hold it back. It is due once in each interval.
            biased;
            () = sleep_until(self.next_prune) => {
                self.next_prune = Instant::now() + PRUNE_INTERVAL;
                plugin.hot_loops.forget_expired();
                return version.views.prune_own_writes();
            }
            Some(batch) = self.batches.next() => batch,
        };
        // The subscription has ended, because the host is shutting down: it is not polled again.
        let Some(batch) = batch else { return };
        plugin.journal.begin_batch(Instant::now());
        version.views.confirm_own_writes(&version.routes[position].watch, &batch);
        self.remaining = Some(RemainingBatch::new(position, batch));
        self.queue_remaining(plugin, Some(TIME_SLICE));
    }

    /// Queues the rest of the current batch, for at most `slice` if that is given. At its end, the subscription is polled again.
    fn queue_remaining(&mut self, plugin: &PluginServices, slice: Option<Duration>) {
        let (Some(version), Some(remaining)) = (&self.version, &mut self.remaining) else { return };
        let position = remaining.position;
        let route = &version.routes[position];
        let end = slice.filter(|_| needs_slices(route)).map(|slice| Instant::now() + slice);
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        if queue_all(version, route, remaining, plugin, &is_over) {
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
        .is_some_and(|trigger| trigger.predicate.needs_interpreter() || trigger.mapper.may_name_many())
}

fn next_batch(version: &Version, position: usize, route: &WatchRoute) -> NextBatch {
    let (subscribed, watch) = (route.subscribed.clone(), Arc::clone(&route.watch));
    let views = Arc::clone(&version.views);
    Box::pin(async move { (position, subscribed.next_batch(&views, &watch).await) })
}

#[cfg(test)]
mod tests;
