//! The shared informer: its life, and who subscribes to it. `apply` applies deltas to its cache, and `resyncs` starts resyncs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::change::Change;
use super::registration::{KnownObjects, Registration, TransferState};
use super::run::InformerRun;
use super::subscriber::Subscriber;
use super::subscribers::Subscribers;
use crate::condition::Condition;
use crate::delta_queue::DeltaQueue;
use crate::failure::FailureKind;
use crate::key::{InformerKey, Restriction};
use crate::list_watch::ListWatch;
use crate::metrics::Counters;
use crate::options::InformerOptions;
use crate::reflector::ServerRecovery;
use crate::status::{InformerPhase, InformerStatus};
use crate::store::{ScopeId, Store, StoreView, StoredObject};
use crate::supervise::supervise;

/// One reflector, its cache and its subscribers. A single task runs all of it.
///
/// Lock order: the registry, `Subscriber::informer`, the delta queue, `subscribers`, then the store, a backlog or
/// `Subscriber::condition`.
/// `subscribers` is held while a delta is applied to the store and pushed to the subscribers, so a new subscriber is always
/// added between two deltas. It is notified of each object once, by its initial notification or by a live one.
pub(crate) struct Informer {
    pub(crate) key: InformerKey,
    pub(crate) store: Arc<Store>,
    pub(super) queue: Arc<DeltaQueue>,
    pub(super) subscribers: Mutex<Subscribers>,
    pub(super) status: watch::Sender<InformerStatus>,
    pub(super) stop: CancellationToken,
    pub(super) resyncs_changed: Notify,
    pub(super) counters: Arc<Counters>,
}

/// The informer has stopped and accepts no more subscribers.
#[derive(Debug)]
pub(super) struct Stopped;

impl Informer {
    pub(super) fn new(key: InformerKey, options: &InformerOptions, counters: Arc<Counters>) -> Self {
        let store = Arc::new(options.compression.map_or_else(Store::new, Store::compressed));
        Self {
            key,
            queue: Arc::new(DeltaQueue::new(Arc::clone(&store), options.delta_capacity)),
            store,
            subscribers: Mutex::new(Subscribers::default()),
            status: watch::Sender::new(InformerStatus::default()),
            stop: CancellationToken::new(),
            resyncs_changed: Notify::new(),
            counters,
        }
    }

    /// Runs the informer's task until the informer is stopped. `forbidden` is called each time the server answers that access
    /// is forbidden.
    ///
    /// After a panic, the informer relists at a version not older than the last one seen, and notifies the subscribers of
    /// the difference. The cache and the subscribers are kept.
    pub(super) async fn run(
        self: Arc<Self>,
        list_watch: Arc<dyn ListWatch>,
        recovery: Option<Arc<ServerRecovery>>,
        options: InformerOptions,
        forbidden: impl Fn(&Arc<Self>) + Send + Sync,
    ) {
        let _stopped = StopOnDrop(&self);
        let mut run = InformerRun { informer: Arc::clone(&self), list_watch, recovery, options, forbidden };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = supervise(&mut run, |run| Box::pin(run.run()), |panic| self.panicked(panic)) => {}
        }
    }

    /// Stops the task and all deliveries. Idempotent.
    pub(super) fn stop(&self) {
        self.stop.cancel();
        self.queue.close();
        self.publish_counts();
        let mut subscribers = self.subscribers.lock();
        subscribers.stopped = true;
        subscribers.index.clear();
        subscribers.to_wake.clear();
        for registration in subscribers.registrations.drain(..) {
            registration.subscriber.close();
        }
        drop(subscribers);
        self.status.send_modify(|status| status.phase = InformerPhase::Stopped);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    pub(super) fn is_unused(&self) -> bool {
        self.subscribers.lock().registrations.is_empty()
    }

    /// Returns the view of this informer's cache for the subscriber `id`.
    pub(super) fn view(&self, id: u64, restriction: Option<Restriction>) -> StoreView {
        StoreView { store: Arc::clone(&self.store), restriction, id }
    }

    /// Adds a subscriber. It is notified of every object in the cache first, then of every change.
    pub(super) fn add_subscriber(
        &self,
        subscriber: &Arc<Subscriber>,
        restriction: Option<Restriction>,
        resync: Option<Duration>,
    ) -> Result<(), Stopped> {
        let mut subscribers = self.subscribers.lock();
        if subscribers.stopped {
            return Err(Stopped);
        }
        let objects = self.store.list();
        let initial = objects.iter().map(|object| Change::Added { object, initial: true });
        subscriber.push(initial, restriction.as_ref());
        if subscribers.synced {
            subscriber.finish_initial_list();
        }
        subscriber.wake();
        self.register(&mut subscribers, Registration::new(subscriber, restriction, resync));
        Ok(())
    }

    /// Adds a subscriber that another informer served before. It is notified of the difference between the two caches, now or
    /// once this cache is synced.
    pub(super) fn add_transferred(
        &self,
        subscriber: &Arc<Subscriber>,
        transfer: TransferState,
    ) -> Result<(), Stopped> {
        let mut subscribers = self.subscribers.lock();
        if subscribers.stopped {
            return Err(Stopped);
        }
        let mut registration = Registration::new(subscriber, None, transfer.resync);
        if subscribers.synced {
            self.attach(&mut registration, &transfer.known_objects, &self.store.list());
            subscriber.wake();
        } else {
            registration.pending_transfer = Some(transfer.known_objects);
        }
        self.register(&mut subscribers, registration);
        Ok(())
    }

    fn register(&self, subscribers: &mut Subscribers, registration: Registration) {
        if let Some(resync) = &registration.resync {
            subscribers.next_tick =
                Some(subscribers.next_tick.map_or(resync.due, |tick| tick.min(resync.due)));
            self.resyncs_changed.notify_one();
        }
        subscribers.add(registration);
    }

    /// Replaces a subscriber's condition. Does nothing if this informer does not serve it any more.
    pub(super) fn set_condition(&self, id: ScopeId, condition: Arc<Condition>) {
        self.subscribers.lock().index.set_condition(id, condition);
    }

    /// Removes a subscriber. Nothing is delivered to it afterwards.
    pub(super) fn remove_subscriber(&self, subscriber: &Arc<Subscriber>) {
        self.subscribers.lock().remove(subscriber);
        // Its indexes are in the store that it reads. If a transfer is not complete, that is still the store of the previous informer.
        subscriber.source.load().store.drop_scope(subscriber.id);
    }

    /// Removes the subscribers that see only a part of this cache and returns them, so that narrower informers can serve them.
    pub(super) fn take_restricted(&self) -> Vec<(Arc<Subscriber>, TransferState)> {
        self.publish_counts();
        let mut subscribers = self.subscribers.lock();
        let (restricted, remaining) =
            std::mem::take(&mut subscribers.registrations).into_iter().partition(Registration::is_restricted);
        subscribers.registrations = remaining;
        let restricted: Vec<Registration> = restricted;
        restricted.iter().for_each(|registration| subscribers.index.remove(registration.subscriber.id));
        let objects = self.store.list();
        let synced = subscribers.synced;
        let transfer = |registration: Registration| {
            // This informer will not wake it any more.
            registration.subscriber.wake();
            let objects = objects
                .iter()
                .filter(|object| registration.matches(object))
                .cloned()
                .map(StoredObject::new)
                .collect();
            let resync = registration.resync.map(|resync| resync.period);
            (
                registration.subscriber,
                TransferState { known_objects: KnownObjects { objects, synced }, resync },
            )
        };
        restricted.into_iter().map(transfer).collect()
    }

    /// Calls `forbidden` whenever the status shows that access is forbidden.
    pub(super) async fn watch_for_forbidden(self: &Arc<Self>, forbidden: &impl Fn(&Arc<Self>)) {
        let mut status = self.status.subscribe();
        while status.changed().await.is_ok() {
            let is_forbidden =
                status.borrow_and_update().error.as_ref().is_some_and(|e| e.kind == FailureKind::Forbidden);
            if is_forbidden {
                forbidden(self);
            }
        }
    }
}

/// Stops the informer when its task ends, for whatever reason.
struct StopOnDrop<'a>(&'a Informer);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
