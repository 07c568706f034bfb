//! A plugin's work: keys of target watches, with the reasons for which they are queued.
//!
//! The queue belongs to the plugin's name: it outlives instances, versions and their failures.
//!
//! Keys of cached objects are bounded by the cache. A key that is none is charged to the plugin's [`HostMemory`] for as long as
//! it waits, is worked on or is retried: the charge is part of what its add notes, and goes along when the key is put back.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::{Note, Priority, QueueMetrics, QueueSnapshot, WorkQueue, WorkQueueOptions};
use pilothouse_model::ObjectKey;
use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryExceeded, HostMemoryKind, Reason};

use crate::client::in_flight::{HeldItem, InFlight};

/// One piece of work: an object of a target watch. Its identity, whichever way it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Item {
    pub(crate) watch: Arc<str>,
    pub(crate) key: ObjectKey,
}

/// The queue. What an add notes is why.
#[derive(Clone)]
pub(crate) struct PluginQueue {
    queue: WorkQueue<Item, QueueNote>,
    in_flight: InFlight,
    memory: HostMemory,
}

/// What is noted of a key.
#[derive(Debug, Default)]
pub(crate) struct QueueNote {
    reasons: Reasons,
    /// Of a key that is no cached object. Boxed, because few are.
    charge: Option<Box<HostMemoryCharge>>,
}

/// What the queue takes for one key, apart from its text.
const KEY_BYTES: usize = 384;
/// No object's key is longer: a namespace has 63 bytes at most, a name 253.
const LONGEST_KEY: usize = 63 + 1 + 253;

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

impl Note for QueueNote {
    fn merge(&mut self, other: Self) {
        self.reasons.merge(other.reasons);
        if self.charge.is_none() {
            self.charge = other.charge;
        }
    }
}

impl QueueNote {
    /// Takes out what the key is charged with.
    pub(crate) fn take_charge(&mut self) -> Option<Box<HostMemoryCharge>> {
        self.charge.take()
    }
}

impl From<Reason> for QueueNote {
    fn from(reason: Reason) -> Self {
        Self { reasons: reason.into(), charge: None }
    }
}

impl From<Reason> for Reasons {
    fn from(reason: Reason) -> Self {
        let position = ALL.iter().position(|known| *known == reason).unwrap_or(ALL.len() - 1);
        Self(1 << position)
    }
}

impl Reasons {
    fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

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
    pub(crate) fn new(metrics: Arc<dyn QueueMetrics>, memory: HostMemory) -> Self {
        let options = WorkQueueOptions { metrics, ..WorkQueueOptions::default() };
        Self { queue: WorkQueue::with_notes(options), in_flight: InFlight::default(), memory }
    }

    pub(crate) fn add(&self, item: Item, reason: Reason, priority: Priority) {
        self.queue.add_noted(item, reason.into(), priority);
    }

    pub(crate) fn add_after(&self, item: Item, delay: Duration, reason: Reason) {
        self.queue.add_noted_after(item, reason.into(), delay, Priority::Normal);
    }

    /// Queues a key that is no cached object, after a delay, if the plugin's host memory has room for it.
    pub(crate) fn add_uncached(
        &self,
        item: Item,
        delay: Duration,
        reason: Reason,
        priority: Priority,
    ) -> Result<(), HostMemoryExceeded> {
        let charge = self.memory.try_charge(HostMemoryKind::QueuedKeys, bytes(&item))?;
        let note = QueueNote { reasons: reason.into(), charge: Some(Box::new(charge)) };
        if delay.is_zero() {
            self.queue.add_noted(item, note, priority);
        } else {
            self.queue.add_noted_after(item, note, delay, priority);
        }
        Ok(())
    }

    /// Queues a key that an object names, whether there is such an object or not. One that no object can have is left out.
    pub(crate) fn add_named(
        &self,
        item: Item,
        reason: Reason,
        priority: Priority,
        is_cached: impl FnOnce(&ObjectKey) -> bool,
    ) -> Result<(), HostMemoryExceeded> {
        if item.key.as_str().len() > LONGEST_KEY {
            return Ok(());
        }
        if is_cached(&item.key) {
            self.add(item, reason, priority);
            return Ok(());
        }
        self.add_uncached(item, Duration::ZERO, reason, priority)
    }

    /// Queues an item that a worker has taken for later, with the reasons that it was taken with.
    pub(crate) fn put_off(&self, held: &mut HeldItem, reasons: &[Reason], delay: Duration) {
        let mut note = QueueNote { reasons: Reasons::default(), charge: held.take_charge() };
        reasons.iter().for_each(|reason| note.reasons.merge((*reason).into()));
        self.queue.add_noted_after(held.key().clone(), note, delay, Priority::Normal);
    }

    /// Queues an item again that a worker has taken and not worked on.
    pub(crate) fn put_back(&self, held: &mut HeldItem, reasons: &[Reason]) {
        let mut note = QueueNote { reasons: Reasons::default(), charge: held.take_charge() };
        reasons.iter().for_each(|reason| note.reasons.merge((*reason).into()));
        self.queue.add_noted(held.key().clone(), note, held.priority());
    }

    /// Queues an item after a delay that its reconcile asked for.
    pub(crate) fn requeue_after(&self, held: &mut HeldItem, reasons: &[Reason], delay: Duration) {
        let note = QueueNote { reasons: Reason::Requeue.into(), charge: self.charge_of(held, reasons) };
        self.queue.add_noted_after(held.key().clone(), note, delay, Priority::Normal);
    }

    /// Queues a failed item again, and answers after what delay it will come.
    pub(crate) fn retry(
        &self,
        held: &mut HeldItem,
        reasons: &[Reason],
        priority: Priority,
    ) -> Option<Duration> {
        let note = QueueNote { reasons: Reason::Retry.into(), charge: self.charge_of(held, reasons) };
        self.queue.add_noted_rate_limited(held.key().clone(), note, priority)
    }

    /// What a key is charged with once it is put back. That of a deleted object is no cached one any more: it is charged, but never
    /// refused, because its deletion must not be lost.
    fn charge_of(&self, held: &mut HeldItem, reasons: &[Reason]) -> Option<Box<HostMemoryCharge>> {
        let known = held.take_charge();
        if known.is_none() && reasons.contains(&Reason::Deleted) {
            return Some(Box::new(self.memory.charge(HostMemoryKind::QueuedKeys, bytes(held.key()))));
        }
        known
    }

    /// The next item, with its reasons; `None` after shutdown. Cancellation safe: a dropped future takes nothing.
    pub(crate) async fn get(&self) -> Option<(HeldItem, Vec<Reason>)> {
        let item = self.queue.get().await?;
        let reasons = item.note().reasons.to_vec();
        Some((self.in_flight.hold(item), reasons))
    }

    /// The requests for which keys are held.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Ends the queue for good, and returns the memory of the keys that nobody will work on.
    pub(crate) fn shutdown(&self) {
        self.queue.shutdown();
        self.queue.discard();
    }

    pub(crate) fn snapshot(&self) -> QueueSnapshot {
        self.queue.snapshot()
    }
}

/// What the queue takes for a key, more or less.
fn bytes(item: &Item) -> usize {
    KEY_BYTES + item.key.as_str().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_with(memory: HostMemory) -> PluginQueue {
        PluginQueue::new(Arc::new(pilothouse_informer::NoMetrics), memory)
    }

    fn item(name: &str) -> Item {
        Item { watch: "w".into(), key: ObjectKey::cluster(name) }
    }

    #[tokio::test(start_paused = true)]
    async fn reasons_of_one_key_are_merged_and_taken_with_it() {
        let queue = queue_with(HostMemory::default());
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
        let queue = queue_with(HostMemory::default());
        queue.add(item("a"), Reason::Created, Priority::Normal);
        let (mut got, reasons) = queue.get().await.expect("an item");
        assert_eq!(got.attempts(), 0);
        assert_eq!(queue.retry(&mut got, &reasons, Priority::Normal), Some(Duration::from_millis(5)));
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

    #[tokio::test(start_paused = true)]
    async fn keys_that_are_no_cached_objects_are_refused_beyond_the_host_memory() {
        let memory = HostMemory::new(10 * (KEY_BYTES + 1));
        let queue = queue_with(memory.clone());
        let add =
            |name: &str| queue.add_uncached(item(name), Duration::ZERO, Reason::Requeue, Priority::Normal);
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        names.iter().for_each(|name| add(name).expect("room"));
        let refused = add("k").expect_err("one too many");
        assert!(
            refused.to_string().contains("limits.hostMemory") && refused.kind == HostMemoryKind::QueuedKeys
        );
        assert_eq!((queue.snapshot().depth, memory.used()), (10, memory.limit()));
        queue.add(item("cached"), Reason::Updated, Priority::Normal);
        assert_eq!(memory.used(), memory.limit(), "keys of cached objects are bounded by the cache");
        let (got, _) = queue.get().await.expect("an item");
        assert!(add("k").is_err(), "a key that is worked on still counts");
        got.done();
        add("k").expect("there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_fails_stays_charged_once_until_it_is_done() {
        let memory = HostMemory::default();
        let queue = queue_with(memory.clone());
        let delay = Duration::from_secs(1);
        queue.add_uncached(item("a"), delay, Reason::Requeue, Priority::Normal).expect("room");
        queue.add_uncached(item("a"), delay, Reason::Requeue, Priority::Normal).expect("room");
        let once = KEY_BYTES + 1;
        assert_eq!(memory.used(), once, "two adds of one key are one");
        for round in 0..5 {
            let (mut got, reasons) = queue.get().await.expect("the item");
            match round {
                0 => queue.put_off(&mut got, &reasons, delay),
                1 => queue.put_back(&mut got, &reasons),
                2 => queue.requeue_after(&mut got, &reasons, delay),
                _ => drop(queue.retry(&mut got, &reasons, Priority::Normal)),
            }
            got.done();
            assert_eq!(memory.used(), once, "round {round}");
        }
        let (mut got, _) = queue.get().await.expect("the item");
        got.forget();
        got.done();
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_key_of_a_deleted_object_is_charged_when_it_fails_and_never_refused() {
        let memory = HostMemory::new(1);
        let queue = queue_with(memory.clone());
        queue.add(item("a"), Reason::Deleted, Priority::Normal);
        assert_eq!(memory.used(), 0);
        let (mut got, reasons) = queue.get().await.expect("the item");
        assert!(queue.retry(&mut got, &reasons, Priority::Normal).is_some());
        got.done();
        assert!(memory.used() > memory.limit());
        assert!(queue.get().await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_an_object_names_are_charged_unless_they_are_cached() {
        let memory = HostMemory::default();
        let queue = queue_with(memory.clone());
        let add = |name: &str, is_cached| {
            queue.add_named(item(name), Reason::Updated, Priority::Normal, |_| is_cached).expect("room");
            (queue.snapshot().depth, memory.used())
        };
        assert_eq!(add("a", true), (1, 0));
        assert_eq!(add("b", false), (2, KEY_BYTES + 1));
        assert_eq!(add(&"n".repeat(LONGEST_KEY + 1), false), (2, KEY_BYTES + 1), "no object has it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_shut_down_returns_its_memory() {
        let memory = HostMemory::default();
        let queue = queue_with(memory.clone());
        for number in 0..100 {
            let delay = Duration::from_secs(number % 2);
            let item = item(&number.to_string());
            queue.add_uncached(item, delay, Reason::Requeue, Priority::Normal).expect("room");
        }
        let (mut held, reasons) = queue.get().await.expect("an item");
        queue.shutdown();
        let snapshot = queue.snapshot();
        assert_eq!((snapshot.depth, snapshot.delayed, snapshot.processing), (0, 0, 1));
        assert_eq!(memory.used(), KEY_BYTES + 1, "a worker has one");
        queue.put_back(&mut held, &reasons);
        held.done();
        assert_eq!((memory.used(), queue.snapshot().processing), (0, 0));
    }
}
