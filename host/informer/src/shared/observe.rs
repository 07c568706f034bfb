//! The status, metrics and subscriber list that an informer exposes.

use tokio::sync::watch;

use super::informer::Informer;
use super::registration::Registration;
use crate::delta_queue::Counts;
use crate::failure::FailureKind;
use crate::metrics::InformerMetrics;
use crate::status::InformerStatus;

impl Informer {
    pub(crate) fn status(&self) -> InformerStatus {
        self.status.borrow().clone()
    }

    pub(crate) fn status_changes(&self) -> watch::Receiver<InformerStatus> {
        self.status.subscribe()
    }

    pub(super) fn is_forbidden(&self) -> bool {
        self.status.borrow().error.as_ref().is_some_and(|error| error.kind == FailureKind::Forbidden)
    }

    /// Adds what the queues and the reflector have counted since the last call to the shared counters. Call it before a subscriber or
    /// the informer is dropped.
    pub(super) fn publish_counts(&self) {
        let mut subscribers = self.subscribers.lock();
        for registration in &subscribers.registrations {
            self.counters.merged_notifications.add(registration.subscriber.take_merged());
        }
        let failures = self.status.borrow().failures;
        self.counters.failures.add(failures.saturating_sub(subscribers.counted_failures));
        subscribers.counted_failures = failures;
        drop(subscribers);
        let Counts { merged, dropped } = self.queue.take_counts();
        self.counters.merged_deltas.add(merged);
        self.counters.dropped_deltas.add(dropped);
    }

    /// Adds this informer's current gauges to `metrics`.
    pub(super) fn add_gauges(&self, metrics: &mut InformerMetrics) {
        let (failing, synced, version) = {
            let status = self.status.borrow();
            let version = status.resource_version.as_ref().and_then(|version| version.parse().ok());
            (status.error.is_some(), status.synced, version)
        };
        metrics.informers += 1;
        metrics.synced += usize::from(synced);
        metrics.failing += usize::from(failing);
        // The lowest version. An informer without a version has not listed yet.
        metrics.last_resource_version = [metrics.last_resource_version, version].into_iter().flatten().min();
        metrics.queue_depth += self.queue.len();
        metrics.store_objects += self.store.len();
        metrics.store_bytes += self.store.memory_size();
        self.visit_subscribers(|registration| {
            let backlog = registration.subscriber.backlog_len();
            metrics.subscribers += 1;
            metrics.backlog += backlog;
            metrics.longest_backlog = metrics.longest_backlog.max(backlog);
        });
    }

    /// Calls `visit` for each subscriber, with the list of subscribers locked.
    pub(super) fn visit_subscribers(&self, visit: impl FnMut(&Registration)) {
        self.subscribers.lock().registrations.iter().for_each(visit);
    }
}
