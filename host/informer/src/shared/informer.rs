//! The shared informer: applies deltas to the cache and distributes the changes to its subscribers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_model::{Deletion, Delta, Object, Replacement};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::change::{Change, ListDifference, is_stale, same_uid, transition};
use super::dispatch_index::DispatchIndex;
use super::index_handle::SubscriberIndex;
use super::registration::{KnownObjects, Registration, TransferState};
use super::run::InformerRun;
use super::subscriber::Subscriber;
use crate::condition::Condition;
use crate::delta_queue::DeltaQueue;
use crate::failure::FailureKind;
use crate::key::{InformerKey, Restriction};
use crate::list_watch::ListWatch;
use crate::metrics::Counters;
use crate::options::InformerOptions;
use crate::reflector::ServerRecovery;
use crate::status::{InformerPhase, InformerStatus};
use crate::store::{ObjectMap, ScopeId, Store, StoreView, StoredObject};
use crate::supervise::supervise;

/// Deltas applied in a row before the informer wakes subscribers and yields to other tasks.
const DELTAS_PER_TURN: usize = 256;

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
    resyncs_changed: Notify,
    pub(super) counters: Arc<Counters>,
}

/// The subscribers of an informer and the state that is read and changed together with them.
#[derive(Default)]
pub(super) struct Subscribers {
    pub(super) registrations: Vec<Registration>,
    /// The same subscribers, by what they receive.
    index: DispatchIndex<Arc<Subscriber>>,
    /// Subscribers that have to be woken at the end of the turn.
    to_wake: Vec<Arc<Subscriber>>,
    /// Whether any subscriber may have to be woken.
    wake_all: bool,
    /// The subscribers whose backlogs began or stopped to merge with the change that is being pushed.
    merging_changed: Vec<(ScopeId, bool)>,
    synced: bool,
    stopped: bool,
    next_tick: Option<Instant>,
    /// The deletion that is being pushed to the subscribers, with the object that was cached. It is set during the push, so that
    /// the push can be repeated if it panics.
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
                    // The reflector is waiting for the other tasks, too.
                    0 if self.queue.has_incoming() => {}
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

    /// Applies one delta to the store, then pushes the change to the subscribers that it concerns.
    pub(super) fn apply(&self, delta: Delta) {
        let mut subscribers = self.subscribers.lock();
        match delta {
            Delta::Added(object) | Delta::Updated(object) => self.apply_present(&mut subscribers, &object),
            Delta::Deleted(deletion) => self.apply_deletion(&mut subscribers, deletion),
            Delta::Sync(object) => self.apply_sync(&mut subscribers, &object),
            Delta::Replaced(replacement) => self.apply_replacement(&mut subscribers, replacement),
        }
    }

    fn apply_present(&self, subscribers: &mut Subscribers, object: &Object) {
        match self.store.update_unless(object.clone(), is_stale) {
            Ok(old) => transition(old.as_ref(), object, false).for_each(|change| subscribers.push(&change)),
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
        let (last, final_state_unknown) = (deletion.last.clone(), deletion.final_state_unknown);
        let Some(stored) = self.store.get(last.key()) else { return };
        if !same_uid(&stored, &last) {
            // The deletion of an earlier object of this name, which has been delivered already.
            return;
        }
        subscribers.pending_deletion = Some((stored.clone(), deletion));
        self.store.delete(last.key(), Some(last.resource_version()));
        subscribers.push(&Change::Deleted { stored: &stored, last: &last, final_state_unknown });
        subscribers.pending_deletion = None;
    }

    fn apply_sync(&self, subscribers: &mut Subscribers, object: &Object) {
        let Some(stored) = self.store.get(object.key()) else { return };
        subscribers.wake_all = true;
        let Subscribers { registrations, index, .. } = subscribers;
        for registration in registrations
            .iter()
            .filter(|registration| registration.resync.as_ref().is_some_and(|resync| resync.running))
        {
            registration
                .subscriber
                .push([Change::Updated { old: &stored, new: &stored }], registration.restriction.as_ref());
            index.set_receives_all(registration.subscriber.id, registration.subscriber.record_merging());
        }
    }

    fn apply_replacement(&self, subscribers: &mut Subscribers, mut replacement: Replacement) {
        self.counters.items_per_list.observe_items(replacement.items.len() as u64);
        let initial = !subscribers.synced;
        // Objects that were decoded before the store had a dictionary are still uncompressed.
        self.store.pack(&mut replacement.items);
        let previous = self.store.replace(&replacement.items, &replacement.resource_version);
        let difference = self.difference(&previous, &replacement.items);
        if initial {
            // Conditions do not apply to the first list, nor to what a transferred subscriber has missed.
            let Subscribers { registrations, index, .. } = &mut *subscribers;
            for registration in registrations {
                match registration.pending_transfer.take() {
                    Some(known_objects) => self.attach(registration, &known_objects, &replacement.items),
                    None => {
                        let restriction = registration.restriction.as_ref();
                        registration.subscriber.push(difference.changes(initial), restriction);
                    }
                }
                index.set_receives_all(registration.subscriber.id, registration.subscriber.record_merging());
            }
        } else {
            difference.changes(initial).for_each(|change| subscribers.push(&change));
        }
        subscribers
            .registrations
            .iter()
            .for_each(|registration| registration.subscriber.finish_initial_list());
        subscribers.wake_all = true;
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
                    // `biased` keeps simulations repeatable. The order of the branches has no effect.
                    biased;
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

    fn add(&mut self, registration: Registration) {
        let subscriber = &registration.subscriber;
        let restriction = registration.restriction.as_ref();
        self.index.insert(subscriber.id, Arc::clone(subscriber), restriction, subscriber.condition());
        self.index.set_receives_all(subscriber.id, subscriber.record_merging());
        self.registrations.push(registration);
    }

    fn remove(&mut self, subscriber: &Arc<Subscriber>) {
        self.registrations.retain(|registration| !Arc::ptr_eq(&registration.subscriber, subscriber));
        self.to_wake.retain(|other| !Arc::ptr_eq(other, subscriber));
        self.index.remove(subscriber.id);
    }

    /// Wakes all subscribers that have new notifications.
    pub(super) fn wake(&mut self) {
        if std::mem::take(&mut self.wake_all) {
            self.registrations.iter().for_each(|registration| registration.subscriber.wake());
        }
        self.to_wake.drain(..).for_each(|subscriber| subscriber.wake());
    }

    /// Pushes the change to the subscribers that it concerns.
    ///
    /// Merging changes the notifications that are pending, and its bound needs every change. So a subscriber whose backlog merges
    /// receives every change until it has caught up.
    pub(super) fn push(&mut self, change: &Change<'_>) {
        let Self { index, to_wake, merging_changed, .. } = self;
        index.deliver(change, |subscriber, notification| {
            let pushed = subscriber.push_notification(notification.clone());
            if pushed.must_wake {
                to_wake.push(Arc::clone(subscriber));
            }
            merging_changed.extend(pushed.merging_change.map(|is_merging| (subscriber.id, is_merging)));
        });
        for (id, is_merging) in self.merging_changed.drain(..) {
            self.index.set_receives_all(id, is_merging);
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
