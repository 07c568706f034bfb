//! The shared informer: applies deltas to the cache and distributes the changes to its subscribers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_model::{Deletion, Delta, Object, Replacement};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::change::{Change, ListDifference, is_stale, same_uid, transition};
use super::index_handle::SubscriberIndex;
use super::registration::{KnownObjects, Registration, TransferState};
use super::run::InformerRun;
use super::subscriber::Subscriber;
use crate::delta_queue::DeltaQueue;
use crate::failure::FailureKind;
use crate::key::{InformerKey, Restriction};
use crate::list_watch::ListWatch;
use crate::metrics::Counters;
use crate::options::InformerOptions;
use crate::reflector::ServerRecovery;
use crate::status::{InformerPhase, InformerStatus};
use crate::store::{ObjectMap, Store, StoreView, StoredObject};
use crate::supervise::supervise;

/// Deltas applied in a row before the informer wakes subscribers and yields to other tasks.
const DELTAS_PER_TURN: usize = 256;

/// One reflector, its cache and its subscribers. A single task runs all of it.
///
/// Lock order: the registry, `Subscriber::informer`, the delta queue, `subscribers`, then the store or a backlog.
/// `subscribers` is held while a delta is applied to the store and pushed to all subscribers, so a new subscriber is always
/// added between two deltas. It is notified of each object once, by its initial notification or by a live one.
pub(crate) struct Informer {
    pub(crate) key: InformerKey,
    pub(crate) store: Arc<Store>,
    pub(super) queue: Arc<DeltaQueue>,
    pub(super) subscribers: Mutex<Subscribers>,
    pub(super) status: watch::Sender<InformerStatus>,
    pub(super) stop: CancellationToken,
    resyncs_changed: Notify,
    pub(super) counters: Arc<Counters>,
}

/// The subscribers of an informer and the state that is read and changed together with them.
#[derive(Default)]
pub(super) struct Subscribers {
    pub(super) registrations: Vec<Registration>,
    synced: bool,
    stopped: bool,
    next_tick: Option<Instant>,
    /// The deletion that is being pushed to the subscribers, with the object that was cached. It is still set only if a
    /// panic interrupted the push.
    pub(super) pending_deletion: Option<(Object, Deletion)>,
    /// How many of the reflector's failures have been added to the counters.
    pub(super) counted_failures: u64,
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
        subscribers.registrations.push(registration);
    }

    /// Removes a subscriber. Nothing is delivered to it afterwards.
    pub(super) fn remove_subscriber(&self, subscriber: &Arc<Subscriber>) {
        self.subscribers
            .lock()
            .registrations
            .retain(|registration| !Arc::ptr_eq(&registration.subscriber, subscriber));
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
        Vec::into_iter(restricted).map(transfer).collect()
    }

    /// Applies deltas and pushes the resulting changes to all subscribers.
    ///
    /// Subscribers are woken after [`DELTAS_PER_TURN`] deltas, or when no more deltas arrived while other tasks had a turn:
    /// waking a thread for each chunk of a watch costs more than decoding the chunk.
    pub(super) async fn process(&self) {
        while self.queue.pop(|delta| self.apply(delta)).await.is_some() {
            let mut applied = 1 + self.apply_queued(DELTAS_PER_TURN - 1);
            while applied < DELTAS_PER_TURN {
                tokio::task::yield_now().await;
                match self.apply_queued(DELTAS_PER_TURN - applied) {
                    0 => break,
                    more => applied += more,
                }
            }
            self.subscribers.lock().wake();
            if applied == DELTAS_PER_TURN {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Applies up to `limit` queued deltas without waiting. Returns how many it applied.
    fn apply_queued(&self, limit: usize) -> usize {
        (0..limit).take_while(|_| self.queue.try_pop(|delta| self.apply(delta)).is_some()).count()
    }

    /// Applies one delta to the store, then pushes the change to all subscribers.
    pub(super) fn apply(&self, delta: Delta) {
        let mut subscribers = self.subscribers.lock();
        match delta {
            Delta::Added(object) | Delta::Updated(object) => self.apply_present(&subscribers, &object),
            Delta::Deleted(deletion) => self.apply_deletion(&mut subscribers, deletion),
            Delta::Sync(object) => self.apply_sync(&subscribers, &object),
            Delta::Replaced(replacement) => self.apply_replacement(&mut subscribers, replacement),
        }
    }

    fn apply_present(&self, subscribers: &Subscribers, object: &Object) {
        match self.store.update_unless(object.clone(), is_stale) {
            Ok(old) => subscribers.push_to_all(|| transition(old.as_ref(), object, false)),
            Err(_) => {
                // The server repeated an event: the cache has this state or a newer one.
                tracing::debug!(?object, "ignored an event that is older than the cached object");
                self.counters.stale_events.add(1);
                self.status.send_if_modified(|status| {
                    status.stale_events += 1;
                    false
                });
            }
        }
    }

    fn apply_deletion(&self, subscribers: &mut Subscribers, deletion: Deletion) {
        let last = &deletion.last;
        let Some(stored) = self.store.get(last.key()) else { return };
        if !same_uid(&stored, last) {
            // The deletion of an earlier object of this name, which has been delivered already.
            return;
        }
        let (stored, deletion) = subscribers.pending_deletion.insert((stored, deletion));
        let Deletion { last, final_state_unknown } = deletion;
        self.store.delete(last.key(), Some(last.resource_version()));
        for registration in &subscribers.registrations {
            let change = Change::Deleted { stored, last, final_state_unknown: *final_state_unknown };
            registration.subscriber.push([change], registration.restriction.as_ref());
        }
        subscribers.pending_deletion = None;
    }

    fn apply_sync(&self, subscribers: &Subscribers, object: &Object) {
        let Some(stored) = self.store.get(object.key()) else { return };
        for registration in subscribers
            .registrations
            .iter()
            .filter(|registration| registration.resync.as_ref().is_some_and(|resync| resync.running))
        {
            registration
                .subscriber
                .push([Change::Updated { old: &stored, new: &stored }], registration.restriction.as_ref());
        }
    }

    fn apply_replacement(&self, subscribers: &mut Subscribers, mut replacement: Replacement) {
        self.counters.items_per_list.observe_items(replacement.items.len() as u64);
        let initial = !subscribers.synced;
        // Objects that were decoded before the store had a dictionary are still uncompressed.
        self.store.pack(&mut replacement.items);
        let previous = self.store.replace(&replacement.items, &replacement.resource_version);
        for registration in &mut subscribers.registrations {
            match registration.pending_transfer.take() {
                Some(known_objects) => self.attach(registration, &known_objects, &replacement.items),
                None => {
                    let difference = self.difference(&previous, &replacement.items);
                    registration
                        .subscriber
                        .push(difference.changes(initial), registration.restriction.as_ref());
                }
            }
            registration.subscriber.finish_initial_list();
        }
        subscribers.synced = true;
        self.status.send_if_modified(|status| !std::mem::replace(&mut status.synced, true));
    }

    /// Switches a transferred subscriber to this cache and pushes the difference to what it knows.
    fn attach(&self, registration: &mut Registration, known_objects: &KnownObjects, items: &[Object]) {
        let subscriber = &registration.subscriber;
        {
            // Held until readers see the new cache, so that an index added concurrently does not go to the old one.
            let indexes = subscriber.indexes.lock();
            for SubscriberIndex { name, function, .. } in indexes.iter() {
                if let Err(error) = self.store.add_scoped_index(subscriber.id, name, function.clone()) {
                    tracing::error!(%error, "cannot add the subscriber's index to the cache that it moved to");
                }
            }
            let old = subscriber.source.swap(Arc::new(self.view(subscriber.id, None)));
            old.store.drop_scope(subscriber.id);
        }
        subscriber.push(self.difference(&known_objects.objects, items).changes(!known_objects.synced), None);
        subscriber.finish_initial_list();
    }

    /// Returns the difference between `previous` and `items`, which the store holds now.
    fn difference<'a>(&self, previous: &ObjectMap, items: &'a [Object]) -> ListDifference<'a> {
        let removed = previous.iter().filter(|stored| !self.store.contains(stored.key()));
        let mut removed: Vec<_> = removed.map(StoredObject::object).collect();
        removed.sort_unstable_by(|left, right| left.key().cmp(right.key()));
        let before = |new: &Object| {
            let stored = previous.get(new.key())?;
            Some(if stored.is_same(new) { new.clone() } else { stored.object() })
        };
        // If two items have the same key, the store holds the later one.
        let present = items.iter().filter(|new| self.store.contains_exact(new)).map(|new| (before(new), new));
        ListDifference { removed, present: present.collect() }
    }

    /// Starts resyncs: ticks at the smallest period of all subscribers; only subscribers that are due receive the resync.
    pub(super) async fn run_resyncs(&self) {
        loop {
            let next = self.subscribers.lock().next_tick;
            match next {
                None => self.resyncs_changed.notified().await,
                Some(at) => tokio::select! {
                    () = sleep_until(at) => self.resync(at),
                    () = self.resyncs_changed.notified() => {}
                },
            }
        }
    }

    fn resync(&self, now: Instant) {
        let due = {
            let mut subscribers = self.subscribers.lock();
            let synced = subscribers.synced;
            let mut due = false;
            let mut smallest: Option<Duration> = None;
            for resync in
                subscribers.registrations.iter_mut().filter_map(|registration| registration.resync.as_mut())
            {
                resync.running = synced && resync.due <= now;
                if resync.due <= now {
                    resync.due = now + resync.period;
                }
                due |= resync.running;
                smallest = Some(smallest.map_or(resync.period, |period| period.min(resync.period)));
            }
            subscribers.next_tick = smallest.map(|period| now + period);
            due
        };
        if due {
            self.queue.resync();
        }
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

impl Subscribers {
    #[cfg(test)]
    pub(super) fn set_pending_deletion(&mut self, stored: Object, deletion: Deletion) {
        self.pending_deletion = Some((stored, deletion));
    }

    /// Wakes all subscribers that have new notifications.
    pub(super) fn wake(&self) {
        self.registrations.iter().for_each(|registration| registration.subscriber.wake());
    }

    /// Pushes the changes to all subscribers. `changes` is called once for each of them.
    pub(super) fn push_to_all<'a, C: IntoIterator<Item = Change<'a>>>(&self, changes: impl Fn() -> C) {
        for registration in &self.registrations {
            registration.subscriber.push(changes(), registration.restriction.as_ref());
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
