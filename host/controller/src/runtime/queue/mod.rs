//! A plugin's work queue: keys of target watches, with the reasons for which they are queued.
//!
//! The queue belongs to the plugin's name: it outlives instances, versions and their failures.
//!
//! [`ReconcileKey`] is the key. `WorkItem` is a key that a worker has taken, [`HeldItem`] adds the requests in flight, and the worker's
//! `ReconcileAttempt` adds the request to the guest.
//!
//! The cache bounds the number of keys of cached objects. A key without a cached object is charged to the plugin's [`HostMemory`] while it
//! is queued, processed or retried. The charge is part of the queued payload, and moves with the key when that is requeued.
//!
//! The key of a deleted object is charged from its deletion on. This charge does not count against the limit, because the deletion must not
//! be lost, and because its reconcile must be able to write.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::{
    KeyPayload, KeyStatus, Priority, QueueMetrics, QueueSnapshot, WorkQueue, WorkQueueOptions,
};
use pilothouse_model::ObjectKey;
use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryExceeded, HostMemoryKind, Reason};
use tokio::time::Instant;

use crate::client::in_flight::{HeldItem, InFlight};
use crate::trace::EventRecords;

/// A key that a plugin reconciles: an object of a target watch. Equal keys are queued once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReconcileKey {
    pub(crate) watch: Arc<str>,
    pub(crate) key: ObjectKey,
}

/// A plugin's work queue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PluginQueue {
    queue: WorkQueue<ReconcileKey, QueuePayload>,
    in_flight: InFlight,
    memory: HostMemory,
}

/// What the queue stores with a key.
#[derive(Debug, Default)]
pub(crate) struct QueuePayload {
    reasons: Reasons,
    /// When the host received the oldest change that queued the key; `None` if none did.
    event_at: Option<Instant>,
    /// The changes that queued the key; `None` without tracing.
    events: Option<Box<EventRecords>>,
    /// Present if the key has no cached object. Boxed, because few keys have one.
    charge: Option<Box<HostMemoryCharge>>,
    /// How often in a row the key was delayed only because the version that reconciles it may not be called; 0 for another delay.
    blocked_times: u8,
}

/// A change that queues a key.
pub(crate) struct QueueEvent {
    /// When the host received it.
    pub(crate) at: Instant,
    /// Its record; `None` without tracing.
    pub(crate) record: Option<Box<EventRecords>>,
}

/// An estimate of the bytes that the queue uses for one key, apart from its text.
const KEY_BYTES: usize = 384;
/// The longest key that an object can have, in bytes: a namespace has at most 63, a name at most 253.
const MAX_KEY_LENGTH: usize = 63 + 1 + 253;

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

impl KeyPayload for QueuePayload {
    fn merge(&mut self, other: Self) {
        self.reasons.merge(other.reasons);
        self.event_at = match (self.event_at, other.event_at) {
            (Some(first), Some(second)) => Some(first.min(second)),
            (first, second) => first.or(second),
        };
        match (&mut self.events, other.events) {
            (Some(events), Some(later)) => events.merge(*later),
            (events, later) => *events = events.take().or(later),
        }
        if self.charge.is_none() {
            self.charge = other.charge;
        }
        self.blocked_times = self.blocked_times.max(other.blocked_times);
    }

    /// Another version may be allowed to reconcile the key.
    fn ends_with_reset(&self) -> bool {
        self.blocked_times > 0
    }
}

impl QueuePayload {
    fn of(reason: Reason, event: Option<QueueEvent>) -> Self {
        let (event_at, events) = event.map_or((None, None), |event| (Some(event.at), event.record));
        Self { event_at, events, ..reason.into() }
    }

    /// Takes the key's charge.
    pub(crate) fn take_charge(&mut self) -> Option<Box<HostMemoryCharge>> {
        self.charge.take()
    }

    /// When the host received the oldest change that queued the key.
    pub(crate) fn event_at(&self) -> Option<Instant> {
        self.event_at
    }

    /// The changes that queued the key; `None` without tracing, and if none did.
    pub(crate) fn events(&self) -> Option<&EventRecords> {
        self.events.as_deref()
    }

    /// How often in a row the key was delayed because its version may not be called.
    pub(crate) fn blocked_times(&self) -> u8 {
        self.blocked_times
    }

    /// Takes the changes that queued the key.
    pub(crate) fn take_events(&mut self) -> Option<Box<EventRecords>> {
        self.events.take()
    }
}

impl From<Instant> for QueueEvent {
    fn from(at: Instant) -> Self {
        Self { at, record: None }
    }
}

impl From<Reason> for QueuePayload {
    fn from(reason: Reason) -> Self {
        Self { reasons: reason.into(), ..Self::default() }
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
        let options = WorkQueueOptions::default().with_metrics(metrics);
        Self { queue: WorkQueue::with_payloads(options), in_flight: InFlight::default(), memory }
    }

    /// Queues the key of a cached object, or of an object that was just deleted.
    pub(crate) fn add(&self, item: ReconcileKey, reason: Reason, priority: Priority) {
        self.add_for_event(item, reason, priority, None);
    }

    /// Like [`add`](Self::add), for a change of which `event` is `None` if it is an object of the initial list or a resync.
    pub(crate) fn add_for_event(
        &self,
        item: ReconcileKey,
        reason: Reason,
        priority: Priority,
        event: Option<QueueEvent>,
    ) {
        let charge = (reason == Reason::Deleted).then(|| self.charge_deleted(&item));
        let payload = QueuePayload { charge, ..QueuePayload::of(reason, event) };
        self.queue.add_with_payload(item, payload, priority);
    }

    pub(crate) fn add_after(&self, item: ReconcileKey, delay: Duration, reason: Reason) {
        self.queue.add_with_payload_after(item, reason.into(), delay, Priority::Normal);
    }

    /// Queues a key without a cached object, after a delay. Errors if it does not fit into the plugin's host memory.
    pub(crate) fn add_uncached(
        &self,
        item: ReconcileKey,
        delay: Duration,
        reason: Reason,
        priority: Priority,
    ) -> Result<(), HostMemoryExceeded> {
        self.add_charged(item, delay, reason.into(), priority)
    }

    fn add_charged(
        &self,
        item: ReconcileKey,
        delay: Duration,
        mut payload: QueuePayload,
        priority: Priority,
    ) -> Result<(), HostMemoryExceeded> {
        let charge = self.memory.try_charge(HostMemoryKind::QueuedKeys, bytes(&item))?;
        payload.charge = Some(Box::new(charge));
        if delay.is_zero() {
            self.queue.add_with_payload(item, payload, priority);
        } else {
            self.queue.add_with_payload_after(item, payload, delay, priority);
        }
        Ok(())
    }

    /// Queues a key that an object refers to, whether that object exists or not, because of a change, of which `event` is `None` as above.
    /// Ignores a key that is too long for any object. Errors if the key has no cached object and does not fit into the plugin's host memory.
    pub(crate) fn add_named(
        &self,
        item: ReconcileKey,
        reason: Reason,
        priority: Priority,
        event: Option<QueueEvent>,
        is_cached: impl FnOnce(&ObjectKey) -> bool,
    ) -> Result<(), HostMemoryExceeded> {
        if item.key.as_str().len() > MAX_KEY_LENGTH {
            return Ok(());
        }
        let payload = QueuePayload::of(reason, event);
        if is_cached(&item.key) {
            // The reason is that of another object.
            self.queue.add_with_payload(item, payload, priority);
            return Ok(());
        }
        self.add_charged(item, Duration::ZERO, payload, priority)
    }

    /// Queues an item again that a worker has taken but not processed, after a delay, with the same reasons and priority.
    pub(crate) fn requeue_taken_after(&self, held: &mut HeldItem, reasons: &[Reason], delay: Duration) {
        let payload = taken_payload(held, reasons);
        self.queue.add_with_payload_after(held.key().clone(), payload, delay, held.priority());
    }

    /// Queues an item again whose version may not be called, after a delay that [`reset_retries`](Self::reset_retries) ends, with the same
    /// reasons and priority.
    pub(crate) fn requeue_blocked(&self, held: &mut HeldItem, reasons: &[Reason], delay: Duration) {
        let blocked_times = held.blocked_times().saturating_add(1);
        let payload = QueuePayload { blocked_times, ..taken_payload(held, reasons) };
        self.queue.add_with_payload_after(held.key().clone(), payload, delay, held.priority());
    }

    /// Queues an item again that a worker has taken but not processed, with the same reasons and priority.
    pub(crate) fn requeue_taken(&self, held: &mut HeldItem, reasons: &[Reason]) {
        let payload = taken_payload(held, reasons);
        self.queue.add_with_payload(held.key().clone(), payload, held.priority());
    }

    /// Queues an item after a delay that its reconcile requested, with the priority with which it was taken.
    pub(crate) fn requeue_after(&self, held: &mut HeldItem, reasons: &[Reason], delay: Duration) {
        let charge = self.charge_of(held, reasons);
        let payload = QueuePayload { charge, ..Reason::Requeue.into() };
        self.queue.add_with_payload_after(held.key().clone(), payload, delay, held.priority());
    }

    /// Queues a failed item again with its rate-limited delay and the priority with which it was taken. Returns the delay, or `None` once the
    /// queue is shut down.
    pub(crate) fn retry(&self, held: &mut HeldItem, reasons: &[Reason]) -> Option<Duration> {
        let charge = self.charge_of(held, reasons);
        let payload = QueuePayload { charge, ..Reason::Retry.into() };
        self.queue.add_with_payload_rate_limited(held.key().clone(), payload, held.priority())
    }

    /// Whether the key is pending, or has failed and was not given up.
    pub(crate) fn contains(&self, item: &ReconcileKey) -> bool {
        self.queue.contains(item)
    }

    /// Returns what a key waits for; `None` if it is not pending.
    pub(crate) fn status(&self, item: &ReconcileKey) -> Option<KeyStatus<ReconcileKey>> {
        self.queue.status(item)
    }

    /// Returns up to `limit` pending keys, those first that a person looks for.
    pub(crate) fn list(&self, limit: usize) -> Vec<KeyStatus<ReconcileKey>> {
        self.queue.list(limit)
    }

    /// Queues a key at once, as if it had never failed.
    pub(crate) fn add_afresh(&self, item: ReconcileKey) {
        self.queue.forget(&item);
        self.add(item, Reason::Other, Priority::Normal);
    }

    /// Starts the backoff of all keys again, and makes those ready that wait for a retry or for a version that may be called, because another
    /// version runs from now on.
    pub(crate) fn reset_retries(&self) {
        self.queue.reset_retries();
    }

    /// Returns the charge of a key that is requeued. The key of a deleted object has no cached object any more.
    fn charge_of(&self, held: &mut HeldItem, reasons: &[Reason]) -> Option<Box<HostMemoryCharge>> {
        let existing = held.take_charge();
        if existing.is_none() && reasons.contains(&Reason::Deleted) {
            return Some(self.charge_deleted(held.key()));
        }
        existing
    }

    fn charge_deleted(&self, item: &ReconcileKey) -> Box<HostMemoryCharge> {
        Box::new(self.memory.charge_exempt(HostMemoryKind::QueuedKeys, bytes(item)))
    }

    /// Waits for the next item, and returns it with its reasons; `None` after shutdown.
    ///
    /// # Cancellation safety
    /// Safe: a dropped future takes no item.
    pub(crate) async fn get(&self) -> Option<(HeldItem, Vec<Reason>)> {
        let item = self.queue.get().await?;
        let reasons = item.payload().reasons.to_vec();
        Some((self.in_flight.hold(item), reasons))
    }

    /// The requests to the API server that are under way, whose keys are held until they end.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Shuts the queue down for good, and releases the memory of the keys that nobody will process.
    pub(crate) fn shutdown(&self) {
        self.queue.shutdown();
        self.queue.discard();
    }

    pub(crate) fn snapshot(&self) -> QueueSnapshot {
        self.queue.snapshot()
    }
}

/// Takes the payload of an item that was not processed, with its reasons, so that it can be queued again.
fn taken_payload(held: &mut HeldItem, reasons: &[Reason]) -> QueuePayload {
    let mut payload = QueuePayload {
        reasons: Reasons::default(),
        event_at: held.event_at(),
        events: held.take_events(),
        charge: held.take_charge(),
        blocked_times: 0,
    };
    reasons.iter().for_each(|reason| payload.reasons.merge((*reason).into()));
    payload
}

/// Estimates the bytes that the queue uses for a key.
fn bytes(item: &ReconcileKey) -> usize {
    KEY_BYTES + item.key.as_str().len()
}

#[cfg(test)]
mod tests;
