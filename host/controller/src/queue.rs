//! A plugin's work: keys of target watches, with the reasons for which they are queued.
//!
//! The queue belongs to the plugin's name: it outlives instances, versions and their failures.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::{Note, Priority, QueueMetrics, QueueSnapshot, WorkQueue, WorkQueueOptions};
use pilothouse_model::ObjectKey;
use pilothouse_plugin::Reason;

use crate::in_flight::{HeldItem, InFlight};

/// One piece of work: an object of a target watch. Its identity, whichever way it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Item {
    pub(crate) watch: Arc<str>,
    pub(crate) key: ObjectKey,
}

/// The queue. What an add notes is why.
#[derive(Clone)]
pub(crate) struct PluginQueue {
    queue: WorkQueue<Item, Reasons>,
    in_flight: InFlight,
}

/// A set of reasons, in the order of the enum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasons(u16);

const ALL: [Reason; 8] = [
    Reason::Created,
    Reason::Updated,
    Reason::Deleted,
    Reason::Resync,
    Reason::Requeue,
    Reason::Retry,
    Reason::Startup,
    Reason::Other,
];

impl Note for Reasons {
    fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl From<Reason> for Reasons {
    fn from(reason: Reason) -> Self {
        let position = ALL.iter().position(|known| *known == reason).unwrap_or(ALL.len() - 1);
        Self(1 << position)
    }
}

impl Reasons {
    fn to_vec(self) -> Vec<Reason> {
        let mut reasons = Vec::with_capacity(self.0.count_ones() as usize);
        reasons.extend(
            ALL.iter()
                .enumerate()
                .filter(|(position, _)| self.0 & (1 << position) != 0)
                .map(|(_, reason)| *reason),
        );
        reasons
    }
}

impl PluginQueue {
    pub(crate) fn new(metrics: Arc<dyn QueueMetrics>) -> Self {
        let options = WorkQueueOptions { metrics, ..WorkQueueOptions::default() };
        Self { queue: WorkQueue::with_notes(options), in_flight: InFlight::default() }
    }

    pub(crate) fn add(&self, item: Item, reason: Reason, priority: Priority) {
        self.queue.add_noted(item, reason.into(), priority);
    }

    pub(crate) fn add_after(&self, item: Item, delay: Duration, reason: Reason) {
        self.queue.add_noted_after(item, reason.into(), delay, Priority::Normal);
    }

    /// Queues an item that a worker has taken for later, with the reasons that it was taken with.
    pub(crate) fn put_off(&self, item: &Item, reasons: &[Reason], delay: Duration) {
        let mut noted = Reasons::default();
        reasons.iter().for_each(|reason| noted.merge((*reason).into()));
        self.queue.add_noted_after(item.clone(), noted, delay, Priority::Normal);
    }

    /// Queues a failed item again, and answers after what delay it will come.
    pub(crate) fn retry(&self, item: Item, priority: Priority) -> Option<Duration> {
        self.queue.add_noted_rate_limited(item, Reason::Retry.into(), priority)
    }

    /// The next item, with its reasons; `None` after shutdown. Cancellation safe: a dropped future takes nothing.
    pub(crate) async fn get(&self) -> Option<(HeldItem, Vec<Reason>)> {
        let item = self.queue.get().await?;
        let reasons = item.note().to_vec();
        Some((self.in_flight.hold(item), reasons))
    }

    /// The requests for which keys are held.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    pub(crate) fn shutdown(&self) {
        self.queue.shutdown();
    }

    pub(crate) fn snapshot(&self) -> QueueSnapshot {
        self.queue.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        Item { watch: "w".into(), key: ObjectKey::cluster(name) }
    }

    #[tokio::test(start_paused = true)]
    async fn reasons_of_one_key_are_merged_and_taken_with_it() {
        let queue = PluginQueue::new(Arc::new(pilothouse_informer::NoMetrics));
        queue.add(item("a"), Reason::Updated, Priority::Normal);
        queue.add(item("a"), Reason::Created, Priority::Low);
        let (got, reasons) = queue.get().await.expect("an item");
        assert_eq!((got.key().clone(), reasons), (item("a"), vec![Reason::Created, Reason::Updated]));
        queue.add(item("a"), Reason::Deleted, Priority::Normal);
        got.done();
        let (_, reasons) = queue.get().await.expect("the item again");
        assert_eq!(reasons, [Reason::Deleted]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_comes_after_its_delay_and_counts_the_attempt() {
        let queue = PluginQueue::new(Arc::new(pilothouse_informer::NoMetrics));
        queue.add(item("a"), Reason::Created, Priority::Normal);
        let (got, _) = queue.get().await.expect("an item");
        assert_eq!(got.attempts(), 0);
        assert_eq!(queue.retry(item("a"), Priority::Normal), Some(Duration::from_millis(5)));
        got.done();
        let (mut got, reasons) = queue.get().await.expect("the item again");
        assert_eq!((got.attempts(), reasons), (1, vec![Reason::Retry]));
        got.forget();
        queue.add(item("a"), Reason::Updated, Priority::Normal);
        got.done();
        let (got, _) = queue.get().await.expect("the item once more");
        assert_eq!(got.attempts(), 0);
        got.done();
        queue.shutdown();
        assert!(queue.get().await.is_none());
    }
}
