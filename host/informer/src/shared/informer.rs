use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_model::{Deletion, Delta, Object, Replacement};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::change::{Change, ListDifference, is_stale, same_uid, transition};
use super::index_handle::SubscriberIndex;
use super::subscriber::Subscriber;
use super::run::InformerRun;
use super::registration::{KnownObjects, TransferState, Registration};
use crate::delta_queue::DeltaQueue;
use crate::failure::FailureKind;
use crate::key::{InformerKey, Restriction};
use crate::list_watch::ListWatch;
use crate::metrics::Counters;
use crate::options::InformerOptions;
use crate::reflector::ServerRecovery;
use crate::status::{InformerPhase, InformerStatus};
use crate::store::{StoredObject, ObjectMap, StoreView, Store};
use crate::supervise::supervise;

/// After so many deltas without a wait, other tasks get their turn and subscribers are woken, though more deltas wait.
const DELTAS_PER_TURN: usize = 256;

/// One reflector, its cache, and those who are told of its changes. One task runs it all.
///
/// Lock order: the registry, `Subscriber::home`, the delta queue, `hub`, then the store or a backlog. `hub` is held while a
/// delta is applied to the store and offered to all, so whoever joins does so between two deltas: it is told of each
/// object once, by its initial notification or by a live one (B34).
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

#[derive(Default)]
pub(super) struct Subscribers {
    pub(super) registrations: Vec<Registration>,
    synced: bool,
    stopped: bool,
    next_tick: Option<Instant>,
    /// A deletion that everybody is being told of, with what the cache had.
    pub(super) deletion: Option<(Object, Deletion)>,
    /// Of the reflector's failures, those that are in the counters.
    pub(super) counted_failures: u64,
}

/// The informer has stopped; nobody can join.
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

    /// The informer's task. `forbidden` is called each time the server says that a right is missing.
    ///
    /// After a panic it lists anew, not older than what it saw, and tells everybody of what is different; the cache and the
    /// subscribers stay.
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

    /// Ends the task and all deliveries. Idempotent.
    pub(super) fn stop(&self) {
        self.stop.cancel();
        self.queue.close();
        self.count_merged();
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

    /// The subscriber's view of this informer's cache.
    pub(super) fn view(&self, id: u64, restriction: Option<Restriction>) -> StoreView {
        StoreView { store: Arc::clone(&self.store), restriction, id }
    }

    /// Adds a subscriber: it is told of every object in the cache, then of every change (B34).
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

    /// Adds a subscriber that was served by another cache: it is told of the difference, now or when this one is synced.
    pub(super) fn add_transferred(&self, subscriber: &Arc<Subscriber>, transfer: TransferState) -> Result<(), Stopped> {
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
            subscribers.next_tick = Some(subscribers.next_tick.map_or(resync.due, |tick| tick.min(resync.due)));
            self.resyncs_changed.notify_one();
        }
        subscribers.registrations.push(registration);
    }

    /// Removes a subscriber; nothing is delivered to it afterwards (B34).
    pub(super) fn remove_subscriber(&self, subscriber: &Arc<Subscriber>) {
        self.subscribers.lock().registrations.retain(|registration| !Arc::ptr_eq(&registration.subscriber, subscriber));
        // Its indexes are where it reads: in another cache still, if it left before it was moved.
        subscriber.source.load().store.drop_scope(subscriber.id);
    }

    /// Takes out the subscribers that are served from this cache with a restriction, for narrower informers to serve.
    pub(super) fn take_restricted(&self) -> Vec<(Arc<Subscriber>, TransferState)> {
        self.count_merged();
        let mut subscribers = self.subscribers.lock();
        let (evicted, stored) = std::mem::take(&mut subscribers.registrations).into_iter().partition(Registration::is_restricted);
        subscribers.registrations = stored;
        let objects = self.store.list();
        let synced = subscribers.synced;
        let transfer = |registration: Registration| {
            // Nobody here will, once it is gone.
            registration.subscriber.wake();
            let objects = objects.iter().filter(|object| registration.sees(object)).cloned().map(StoredObject::new).collect();
            let resync = registration.resync.map(|resync| resync.period);
            (registration.subscriber, TransferState { known_objects: KnownObjects { objects, synced }, resync })
        };
        Vec::into_iter(evicted).map(transfer).collect()
    }

    /// Applies deltas and tells everybody.
    ///
    /// Subscribers are woken when no more deltas have come while other tasks had their turn, or after a turn's worth of them: to
    /// wake a thread for each chunk of a watch costs more than to read what is in it.
    pub(super) async fn process(&self) {
        while self.queue.pop(|delta| self.apply(delta)).await.is_some() {
            let mut applied = 1 + self.apply_waiting(DELTAS_PER_TURN - 1);
            while applied < DELTAS_PER_TURN {
                tokio::task::yield_now().await;
                match self.apply_waiting(DELTAS_PER_TURN - applied) {
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

    /// Applies up to `most` of the deltas that wait; returns how many.
    fn apply_waiting(&self, most: usize) -> usize {
        (0..most).take_while(|_| self.queue.try_pop(|delta| self.apply(delta)).is_some()).count()
    }

    /// Applies one delta to the store, then offers it to everybody.
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
                // Repeated by the server: the cache has this or something newer.
                tracing::debug!(?object, "an event older than the cached object was passed over");
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
            // The end of an earlier object of this name, which was told already.
            return;
        }
        let (stored, deletion) = subscribers.deletion.insert((stored, deletion));
        let Deletion { last, final_state_unknown } = deletion;
        self.store.delete(last.key(), Some(last.resource_version()));
        for registration in &subscribers.registrations {
            let change = Change::Deleted { stored, last, final_state_unknown: *final_state_unknown };
            registration.subscriber.push([change], registration.restriction.as_ref());
        }
        subscribers.deletion = None;
    }

    fn apply_sync(&self, subscribers: &Subscribers, object: &Object) {
        let Some(stored) = self.store.get(object.key()) else { return };
        for registration in subscribers.registrations.iter().filter(|registration| registration.resync.as_ref().is_some_and(|resync| resync.running))
        {
            registration.subscriber.push([Change::Updated { old: &stored, new: &stored }], registration.restriction.as_ref());
        }
    }

    fn apply_replacement(&self, subscribers: &mut Subscribers, mut replacement: Replacement) {
        self.counters.items_per_list.observe_items(replacement.items.len() as u64);
        let initial = !subscribers.synced;
        // Those that were read before the store knew how.
        self.store.pack(&mut replacement.items);
        let previous = self.store.replace(&replacement.items, &replacement.resource_version);
        for registration in &mut subscribers.registrations {
            match registration.pending_transfer.take() {
                Some(known_objects) => self.attach(registration, &known_objects, &replacement.items),
                None => {
                    let difference = self.difference(&previous, &replacement.items);
                    registration.subscriber.push(difference.changes(initial), registration.restriction.as_ref());
                }
            }
            registration.subscriber.finish_initial_list();
        }
        subscribers.synced = true;
        self.status.send_if_modified(|status| !std::mem::replace(&mut status.synced, true));
    }

    /// Gives a subscriber that came from another cache this one, and tells it what is different.
    fn attach(&self, registration: &mut Registration, known_objects: &KnownObjects, items: &[Object]) {
        let subscriber = &registration.subscriber;
        {
            // Held until the reader sees the new cache: an index that is added meanwhile must not go to the old one.
            let indexes = subscriber.indexes.lock();
            for SubscriberIndex { name, function, .. } in indexes.iter() {
                if let Err(error) = self.store.add_scoped_index(subscriber.id, name, function.clone()) {
                    tracing::error!(%error, "an index was not carried over to another cache");
                }
            }
            let old = subscriber.source.swap(Arc::new(self.view(subscriber.id, None)));
            old.store.drop_scope(subscriber.id);
        }
        subscriber.push(self.difference(&known_objects.objects, items).changes(!known_objects.synced), None);
        subscriber.finish_initial_list();
    }

    /// From `previous` to `items`, which the store holds now.
    fn difference<'a>(&self, previous: &ObjectMap, items: &'a [Object]) -> ListDifference<'a> {
        let removed = previous.iter().filter(|stored| !self.store.contains(stored.key()));
        let mut removed: Vec<_> = removed.map(StoredObject::object).collect();
        removed.sort_unstable_by(|left, right| left.key().cmp(right.key()));
        let before = |new: &Object| {
            let stored = previous.get(new.key())?;
            Some(if stored.is(new) { new.clone() } else { stored.object() })
        };
        // Of two items with one key the later counts.
        let present = items.iter().filter(|new| self.store.contains_exact(new)).map(|new| (before(new), new));
        ListDifference { removed, present: present.collect() }
    }

    /// Starts resyncs: ticks at the smallest period, for those that are due (B35).
    pub(super) async fn tick(&self) {
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
            for resync in subscribers.registrations.iter_mut().filter_map(|registration| registration.resync.as_mut()) {
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
        self.deletion = Some((stored, deletion));
    }

    pub(super) fn wake(&self) {
        self.registrations.iter().for_each(|registration| registration.subscriber.wake());
    }

    pub(super) fn push_to_all<'a, C: IntoIterator<Item = Change<'a>>>(&self, changes: impl Fn() -> C) {
        for registration in &self.registrations {
            registration.subscriber.push(changes(), registration.restriction.as_ref());
        }
    }
}

/// Ends the informer with its task, however the task ends.
struct StopOnDrop<'a>(&'a Informer);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
