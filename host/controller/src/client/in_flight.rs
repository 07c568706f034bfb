//! The writes that were sent and whose outcome is not yet known, by the key whose reconcile sent them.
//!
//! A key is released only once all its requests have ended. A worker that finishes the key, or is cancelled,
//! leaves it here, and the last request releases it. The worker does not wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_informer::{Priority, WorkItem};
use pilothouse_model::hash::HashMap;
use pilothouse_plugin::HostMemoryCharge;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::runtime::queue::{QueuePayload, ReconcileKey};
use crate::trace::EventRecords;

/// The in-flight requests of all versions of one plugin. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The number of keys with requests, readable without the lock.
    keys: AtomicUsize,
    requests_by_key: Mutex<HashMap<ReconcileKey, KeyRequests>>,
    /// Notifies waiters when the last request has ended.
    idle: Notify,
}

/// The requests of one key. Only keys with requests have an entry.
struct KeyRequests {
    requests: usize,
    /// The key, once its worker has finished.
    held: Option<WorkItem<ReconcileKey, QueuePayload>>,
}

/// The requests in flight for one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestsOfKey {
    pub(crate) count: usize,
    /// Whether the key's worker has finished, and only these requests hold the key.
    pub(crate) hold_key: bool,
}

/// One request in flight. Dropping it means that its outcome is known.
pub(crate) struct InFlightRequest {
    in_flight: InFlight,
    item: ReconcileKey,
}

/// A key that a worker processes. Dropping it releases the key, at once or when its requests have ended.
pub(crate) struct HeldItem {
    /// The work item that holds the key. Only `drop` takes it.
    work: Option<WorkItem<ReconcileKey, QueuePayload>>,
    in_flight: InFlight,
}

impl InFlight {
    /// Registers a request that is about to be sent for the key.
    pub(crate) fn begin(&self, item: &ReconcileKey) -> InFlightRequest {
        let mut requests_by_key = self.0.requests_by_key.lock();
        requests_by_key.entry(item.clone()).or_insert(KeyRequests { requests: 0, held: None }).requests += 1;
        self.0.keys.store(requests_by_key.len(), Ordering::Release);
        InFlightRequest { in_flight: self.clone(), item: item.clone() }
    }

    /// Returns the requests that are in flight for a key.
    pub(crate) fn requests(&self, item: &ReconcileKey) -> RequestsOfKey {
        let requests_by_key = self.0.requests_by_key.lock();
        let entry = requests_by_key.get(item);
        entry.map_or_else(RequestsOfKey::default, |entry| RequestsOfKey {
            count: entry.requests,
            hold_key: entry.held.is_some(),
        })
    }

    /// Whether no request is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.requests_by_key.lock().is_empty()
    }

    /// Waits until no request is in flight.
    ///
    /// # Cancellation safety
    /// Safe.
    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let idle = self.0.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if self.is_empty() {
                return;
            }
            idle.await;
        }
    }

    /// Hands a key to a worker.
    pub(crate) fn hold(&self, work: WorkItem<ReconcileKey, QueuePayload>) -> HeldItem {
        HeldItem { work: Some(work), in_flight: self.clone() }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let shared = &self.in_flight.0;
        let mut requests_by_key = shared.requests_by_key.lock();
        let Some(entry) = requests_by_key.get_mut(&self.item) else { return };
        entry.requests -= 1;
        let ended = if entry.requests == 0 { requests_by_key.remove(&self.item) } else { None };
        shared.keys.store(requests_by_key.len(), Ordering::Release);
        let is_last = requests_by_key.is_empty();
        // Releasing the key wakes a worker, so it happens without the lock.
        drop(requests_by_key);
        if is_last {
            shared.idle.notify_waiters();
        }
        drop(ended);
    }
}

impl HeldItem {
    fn work(&self) -> &WorkItem<ReconcileKey, QueuePayload> {
        self.work.as_ref().unwrap_or_else(|| unreachable!("only drop takes the work"))
    }

    pub(crate) fn key(&self) -> &ReconcileKey {
        self.work().key()
    }

    /// Resets the retry count when the key is released.
    pub(crate) fn forget(&mut self) {
        if let Some(work) = &mut self.work {
            work.forget();
        }
    }

    /// Takes the key's memory charge, to pass it on when the key is queued again.
    pub(crate) fn take_charge(&mut self) -> Option<Box<HostMemoryCharge>> {
        self.work.as_mut().and_then(|work| work.payload_mut().take_charge())
    }

    /// When the host received the oldest change that queued the key; `None` if none did.
    pub(crate) fn event_at(&self) -> Option<Instant> {
        self.work().payload().event_at()
    }

    /// The changes that queued the key; `None` without tracing, and if none did.
    pub(crate) fn events(&self) -> Option<&EventRecords> {
        self.work().payload().events()
    }

    /// Takes the changes that queued the key.
    pub(crate) fn take_events(&mut self) -> Option<Box<EventRecords>> {
        self.work.as_mut().and_then(|work| work.payload_mut().take_events())
    }

    /// How often in a row the key was delayed because its version may not be called.
    pub(crate) fn blocked_times(&self) -> u8 {
        self.work().payload().blocked_times()
    }

    /// For how long the key was ready before it was taken.
    pub(crate) fn ready_for(&self) -> Duration {
        self.work().ready_for()
    }

    /// The priority with which the key was taken.
    pub(crate) fn priority(&self) -> Priority {
        self.work().priority()
    }

    /// The number of retries when the key was taken.
    pub(crate) fn attempts(&self) -> u32 {
        self.work().attempts()
    }

    /// Releases the key.
    #[cfg(test)]
    pub(crate) fn done(self) {}
}

impl Drop for HeldItem {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        // A key's requests start while its worker holds it, so before this point. Without any, the key is
        // released at once.
        if self.in_flight.0.keys.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut requests_by_key = self.in_flight.0.requests_by_key.lock();
        if let Some(entry) = requests_by_key.get_mut(work.key()) {
            entry.held = Some(work);
            return;
        }
        // Releasing the key wakes a worker, so it happens without the lock.
        drop(requests_by_key);
        drop(work);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilothouse_informer::NoMetrics;
    use pilothouse_model::ObjectKey;
    use pilothouse_plugin::Reason;

    use super::*;
    use crate::runtime::queue::PluginQueue;

    fn item(name: &str) -> ReconcileKey {
        ReconcileKey { watch: "w".into(), key: ObjectKey::cluster(name) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_again_only_after_all_its_requests_have_ended() {
        let queue = PluginQueue::new(Arc::new(NoMetrics), pilothouse_plugin::HostMemory::default());
        queue.add(item("a"), Reason::Created, Priority::Normal);
        let (held, _) = queue.get().await.expect("the key");
        let (first, second) = (queue.in_flight().begin(&item("a")), queue.in_flight().begin(&item("a")));
        queue.add(item("a"), Reason::Updated, Priority::Normal);
        queue.add(item("b"), Reason::Updated, Priority::Normal);
        held.done();
        drop(first);
        let (other, _) = queue.get().await.expect("another key, which nothing holds");
        assert_eq!(*other.key(), item("b"));
        assert_eq!(queue.snapshot().depth, 0, "the key is held");
        let requests = |name: &str| queue.in_flight().requests(&item(name));
        assert_eq!(requests("a"), RequestsOfKey { count: 1, hold_key: true });
        assert_eq!(requests("b"), RequestsOfKey::default());
        drop(second);
        let (again, reasons) = queue.get().await.expect("the key again");
        assert_eq!((again.key(), reasons), (&item("a"), vec![Reason::Updated]));
        queue.in_flight().wait_until_idle().await;
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_are_notified_when_the_last_request_ends() {
        let in_flight = InFlight::default();
        let (first, second) = (in_flight.begin(&item("a")), in_flight.begin(&item("b")));
        let mut idle = tokio_test::task::spawn(in_flight.wait_until_idle());
        tokio_test::assert_pending!(idle.poll());
        drop(first);
        assert!(!idle.is_woken());
        drop(second);
        assert!(idle.is_woken());
        tokio_test::assert_ready!(idle.poll());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_end_before_their_worker_do_not_hold_the_key() {
        let queue = PluginQueue::new(Arc::new(NoMetrics), pilothouse_plugin::HostMemory::default());
        queue.add(item("a"), Reason::Created, Priority::Normal);
        let (held, _) = queue.get().await.expect("the key");
        drop(queue.in_flight().begin(&item("a")));
        queue.add(item("a"), Reason::Updated, Priority::Normal);
        assert_eq!(queue.snapshot().depth, 0, "its worker holds it");
        held.done();
        assert_eq!(queue.snapshot().depth, 1);
    }
}
