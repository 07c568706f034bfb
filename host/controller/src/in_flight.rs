//! Writes that were sent and whose outcome is not known yet, by the key whose reconcile sent them.
//!
//! A key is let go of only when its requests have ended: a worker that is done with it, or is cut off, leaves it here,
//! and the last request gives it back. No worker waits for that.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_informer::{Priority, WorkItem};
use tokio::sync::Notify;

use crate::queue::{Item, Reasons};

/// The requests of one plugin, all its versions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    sent: Arc<Mutex<HashMap<Item, Sent>>>,
    /// Wakes those who wait for the end of all requests.
    landed: Arc<Notify>,
}

/// What was sent for one key. There are entries with requests only.
struct Sent {
    requests: usize,
    /// The key, once its worker is done with it.
    held: Option<WorkItem<Item, Reasons>>,
}

/// One request, until its outcome is known. Dropping it says so.
pub(crate) struct Flight {
    in_flight: InFlight,
    item: Item,
}

/// A key in a worker's hands. Dropping it lets go of it, at once or when its requests have ended.
pub(crate) struct HeldItem {
    key: Item,
    priority: Priority,
    attempts: u32,
    /// What holds the key; the drop moves it to where the requests are.
    work: Option<WorkItem<Item, Reasons>>,
    in_flight: InFlight,
}

impl InFlight {
    /// A request is about to be sent for the key.
    pub(crate) fn begin(&self, item: &Item) -> Flight {
        let mut sent = self.sent.lock();
        sent.entry(item.clone()).or_insert(Sent { requests: 0, held: None }).requests += 1;
        Flight { in_flight: self.clone(), item: item.clone() }
    }

    /// Whether no request is out.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.lock().is_empty()
    }

    /// Waits until no request is out.
    ///
    /// # Cancellation safety
    /// Safe.
    pub(crate) async fn landed(&self) {
        loop {
            let landed = self.landed.notified();
            tokio::pin!(landed);
            landed.as_mut().enable();
            if self.is_empty() {
                return;
            }
            landed.await;
        }
    }

    /// Gives a key to a worker.
    pub(crate) fn hold(&self, work: WorkItem<Item, Reasons>) -> HeldItem {
        HeldItem {
            key: work.key().clone(),
            priority: work.priority(),
            attempts: work.attempts(),
            work: Some(work),
            in_flight: self.clone(),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut sent = self.in_flight.sent.lock();
        let Some(entry) = sent.get_mut(&self.item) else { return };
        entry.requests -= 1;
        let ended = if entry.requests == 0 { sent.remove(&self.item) } else { None };
        let is_last = sent.is_empty();
        // The key goes back without the lock: that wakes a worker.
        drop(sent);
        if is_last {
            self.in_flight.landed.notify_waiters();
        }
        drop(ended);
    }
}

impl HeldItem {
    pub(crate) fn key(&self) -> &Item {
        &self.key
    }

    /// The priority with which it was taken.
    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    /// Its retries when it was taken.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Lets go of the key.
    #[cfg(test)]
    pub(crate) fn done(self) {}
}

impl Drop for HeldItem {
    fn drop(&mut self) {
        let work = self.work.take();
        let mut sent = self.in_flight.sent.lock();
        if let Some(entry) = sent.get_mut(&self.key) {
            entry.held = work;
            return;
        }
        // The key goes back without the lock: that wakes a worker.
        drop(sent);
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
    use crate::queue::PluginQueue;

    fn item(name: &str) -> Item {
        Item { watch: "w".into(), key: ObjectKey::cluster(name) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_comes_again_only_when_all_its_requests_have_ended() {
        let queue = PluginQueue::new(Arc::new(NoMetrics));
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
        drop(second);
        let (again, reasons) = queue.get().await.expect("the key again");
        assert_eq!((again.key(), reasons), (&item("a"), vec![Reason::Updated]));
        queue.in_flight().landed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_last_request_is_told() {
        let in_flight = InFlight::default();
        let (first, second) = (in_flight.begin(&item("a")), in_flight.begin(&item("b")));
        let mut landed = tokio_test::task::spawn(in_flight.landed());
        tokio_test::assert_pending!(landed.poll());
        drop(first);
        assert!(!landed.is_woken());
        drop(second);
        assert!(landed.is_woken());
        tokio_test::assert_ready!(landed.poll());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_end_before_their_worker_hold_nothing() {
        let queue = PluginQueue::new(Arc::new(NoMetrics));
        queue.add(item("a"), Reason::Created, Priority::Normal);
        let (held, _) = queue.get().await.expect("the key");
        drop(queue.in_flight().begin(&item("a")));
        queue.add(item("a"), Reason::Updated, Priority::Normal);
        assert_eq!(queue.snapshot().depth, 0, "its worker holds it");
        held.done();
        assert_eq!(queue.snapshot().depth, 1);
    }
}
