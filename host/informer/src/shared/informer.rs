use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_model::{Deletion, Delta, Object, Replacement};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::change::{Change, Difference, is_stale, same_uid, transition};
use super::index_handle::HeldIndex;
use super::outlet::Outlet;
use super::restart::Round;
use super::seat::{Knowledge, Luggage, Seat};
use crate::delta_queue::DeltaQueue;
use crate::failure::FailureKind;
use crate::key::{InformerKey, Restriction};
use crate::list_watch::ListWatch;
use crate::metrics::Counters;
use crate::options::InformerOptions;
use crate::reflector::Recovery;
use crate::status::{InformerPhase, InformerStatus};
use crate::store::{Kept, Objects, Scope, Store};
use crate::supervise::supervise;

/// After so many deltas without a wait, other tasks get their turn and subscribers are woken, though more deltas wait.
const DELTAS_PER_TURN: usize = 256;

/// One reflector, its cache, and those who are told of its changes. One task runs it all.
///
/// Lock order: the registry, `Outlet::home`, the delta queue, `hub`, then the store or a backlog. `hub` is held while a
/// delta is applied to the store and offered to all, so whoever joins does so between two deltas: it is told of each
/// object once, by its initial notification or by a live one (B34).
pub(crate) struct Informer {
    pub(crate) key: InformerKey,
    pub(crate) store: Arc<Store>,
    pub(super) queue: Arc<DeltaQueue>,
    pub(super) hub: Mutex<Hub>,
    pub(super) status: watch::Sender<InformerStatus>,
    pub(super) stop: CancellationToken,
    resyncs_changed: Notify,
    pub(super) counters: Arc<Counters>,
}

#[derive(Default)]
pub(super) struct Hub {
    pub(super) seats: Vec<Seat>,
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
            hub: Mutex::new(Hub::default()),
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
        recovery: Option<Arc<Recovery>>,
        options: InformerOptions,
        forbidden: impl Fn(&Arc<Self>) + Send + Sync,
    ) {
        let _stopped = StopOnDrop(&self);
        let mut round = Round { informer: Arc::clone(&self), list_watch, recovery, options, forbidden };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = supervise(&mut round, |round| Box::pin(round.run()), |panic| self.panicked(panic)) => {}
        }
    }

    /// Ends the task and all deliveries. Idempotent.
    pub(super) fn stop(&self) {
        self.stop.cancel();
        self.queue.close();
        self.count_merged();
        let mut hub = self.hub.lock();
        hub.stopped = true;
        for seat in hub.seats.drain(..) {
            seat.outlet.close();
        }
        drop(hub);
        self.status.send_modify(|status| status.phase = InformerPhase::Stopped);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    pub(super) fn is_unused(&self) -> bool {
        self.hub.lock().seats.is_empty()
    }

    /// The subscriber's view of this informer's cache.
    pub(super) fn scope(&self, id: u64, restriction: Option<Restriction>) -> Scope {
        Scope { store: Arc::clone(&self.store), restriction, id }
    }

    /// Adds a subscriber: it is told of every object in the cache, then of every change (B34).
    pub(super) fn join(
        &self,
        outlet: &Arc<Outlet>,
        restriction: Option<Restriction>,
        resync: Option<Duration>,
    ) -> Result<(), Stopped> {
        let mut hub = self.hub.lock();
        if hub.stopped {
            return Err(Stopped);
        }
        let objects = self.store.list();
        let initial = objects.iter().map(|object| Change::Added { object, initial: true });
        outlet.offer(initial, restriction.as_ref());
        if hub.synced {
            outlet.end_initial();
        }
        outlet.wake();
        self.take_seat(&mut hub, Seat::new(outlet, restriction, resync));
        Ok(())
    }

    /// Adds a subscriber that was served by another cache: it is told of the difference, now or when this one is synced.
    pub(super) fn join_from(&self, outlet: &Arc<Outlet>, luggage: Luggage) -> Result<(), Stopped> {
        let mut hub = self.hub.lock();
        if hub.stopped {
            return Err(Stopped);
        }
        let mut seat = Seat::new(outlet, None, luggage.resync);
        if hub.synced {
            self.move_in(&mut seat, &luggage.knowledge, &self.store.list());
            outlet.wake();
        } else {
            seat.moved_from = Some(luggage.knowledge);
        }
        self.take_seat(&mut hub, seat);
        Ok(())
    }

    fn take_seat(&self, hub: &mut Hub, seat: Seat) {
        if let Some(resync) = &seat.resync {
            hub.next_tick = Some(hub.next_tick.map_or(resync.due, |tick| tick.min(resync.due)));
            self.resyncs_changed.notify_one();
        }
        hub.seats.push(seat);
    }

    /// Removes a subscriber; nothing is delivered to it afterwards (B34).
    pub(super) fn leave(&self, outlet: &Arc<Outlet>) {
        self.hub.lock().seats.retain(|seat| !Arc::ptr_eq(&seat.outlet, outlet));
        // Its indexes are where it reads: in another cache still, if it left before it was moved.
        outlet.source.load().store.drop_scope(outlet.id);
    }

    /// Takes out the subscribers that are served from this cache with a restriction, for narrower informers to serve.
    pub(super) fn evict_narrowed(&self) -> Vec<(Arc<Outlet>, Luggage)> {
        self.count_merged();
        let mut hub = self.hub.lock();
        let (evicted, kept) = std::mem::take(&mut hub.seats).into_iter().partition(Seat::is_narrowed);
        hub.seats = kept;
        let objects = self.store.list();
        let synced = hub.synced;
        let luggage = |seat: Seat| {
            // Nobody here will, once it is gone.
            seat.outlet.wake();
            let objects = objects.iter().filter(|object| seat.sees(object)).cloned().map(Kept::of).collect();
            let resync = seat.resync.map(|resync| resync.period);
            (seat.outlet, Luggage { knowledge: Knowledge { objects, synced }, resync })
        };
        Vec::into_iter(evicted).map(luggage).collect()
    }

    /// Applies deltas and tells everybody.
    ///
    /// Subscribers are woken when no more deltas have come while other tasks had their turn, or after a turn's worth of them: to
    /// wake a thread for each chunk of a watch costs more than to read what is in it.
    pub(super) async fn process(&self) {
        while self.queue.pop(|delta| self.apply(delta)).await.is_some() {
            let mut untold = 1 + self.apply_waiting(DELTAS_PER_TURN - 1);
            while untold < DELTAS_PER_TURN {
                tokio::task::yield_now().await;
                match self.apply_waiting(DELTAS_PER_TURN - untold) {
                    0 => break,
                    more => untold += more,
                }
            }
            self.hub.lock().wake();
            if untold == DELTAS_PER_TURN {
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
        let mut hub = self.hub.lock();
        match delta {
            Delta::Added(object) | Delta::Updated(object) => self.apply_present(&hub, &object),
            Delta::Deleted(deletion) => self.apply_deletion(&mut hub, deletion),
            Delta::Sync(object) => self.apply_sync(&hub, &object),
            Delta::Replaced(replacement) => self.apply_replacement(&mut hub, replacement),
        }
    }

    fn apply_present(&self, hub: &Hub, object: &Object) {
        match self.store.update_unless(object.clone(), is_stale) {
            Ok(old) => hub.tell(|| transition(old.as_ref(), object, false)),
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

    fn apply_deletion(&self, hub: &mut Hub, deletion: Deletion) {
        let last = &deletion.last;
        let Some(stored) = self.store.get(last.key()) else { return };
        if !same_uid(&stored, last) {
            // The end of an earlier object of this name, which was told already.
            return;
        }
        let (stored, deletion) = hub.deletion.insert((stored, deletion));
        let Deletion { last, final_state_unknown } = deletion;
        self.store.delete(last.key(), Some(last.resource_version()));
        for seat in &hub.seats {
            let change = Change::Deleted { stored, last, final_state_unknown: *final_state_unknown };
            seat.outlet.offer([change], seat.restriction.as_ref());
        }
        hub.deletion = None;
    }

    fn apply_sync(&self, hub: &Hub, object: &Object) {
        let Some(stored) = self.store.get(object.key()) else { return };
        for seat in hub.seats.iter().filter(|seat| seat.resync.as_ref().is_some_and(|resync| resync.running))
        {
            seat.outlet.offer([Change::Updated { old: &stored, new: &stored }], seat.restriction.as_ref());
        }
    }

    fn apply_replacement(&self, hub: &mut Hub, mut replacement: Replacement) {
        self.counters.items_per_list.observe_items(replacement.items.len() as u64);
        let initial = !hub.synced;
        // Those that were read before the store knew how.
        self.store.pack(&mut replacement.items);
        let previous = self.store.replace(&replacement.items, &replacement.resource_version);
        for seat in &mut hub.seats {
            match seat.moved_from.take() {
                Some(knowledge) => self.move_in(seat, &knowledge, &replacement.items),
                None => {
                    let difference = self.difference(&previous, &replacement.items);
                    seat.outlet.offer(difference.changes(initial), seat.restriction.as_ref());
                }
            }
            seat.outlet.end_initial();
        }
        hub.synced = true;
        self.status.send_if_modified(|status| !std::mem::replace(&mut status.synced, true));
    }

    /// Gives a subscriber that came from another cache this one, and tells it what is different.
    fn move_in(&self, seat: &mut Seat, knowledge: &Knowledge, items: &[Object]) {
        let outlet = &seat.outlet;
        {
            // Held until the reader sees the new cache: an index that is added meanwhile must not go to the old one.
            let indexes = outlet.indexes.lock();
            for HeldIndex { name, function, .. } in indexes.iter() {
                if let Err(error) = self.store.add_scoped_index(outlet.id, name, function.clone()) {
                    tracing::error!(%error, "an index was not carried over to another cache");
                }
            }
            let old = outlet.source.swap(Arc::new(self.scope(outlet.id, None)));
            old.store.drop_scope(outlet.id);
        }
        outlet.offer(self.difference(&knowledge.objects, items).changes(!knowledge.synced), None);
        outlet.end_initial();
    }

    /// From `previous` to `items`, which the store holds now.
    fn difference<'a>(&self, previous: &Objects, items: &'a [Object]) -> Difference<'a> {
        let gone = previous.iter().filter(|kept| !self.store.contains(kept.key()));
        let mut gone: Vec<_> = gone.map(Kept::object).collect();
        gone.sort_unstable_by(|left, right| left.key().cmp(right.key()));
        let before = |new: &Object| {
            let kept = previous.get(new.key())?;
            Some(if kept.is(new) { new.clone() } else { kept.object() })
        };
        // Of two items with one key the later counts.
        let present = items.iter().filter(|new| self.store.holds(new)).map(|new| (before(new), new));
        Difference { gone, present: present.collect() }
    }

    /// Starts resyncs: ticks at the smallest period, for those that are due (B35).
    pub(super) async fn tick(&self) {
        loop {
            let next = self.hub.lock().next_tick;
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
            let mut hub = self.hub.lock();
            let synced = hub.synced;
            let mut due = false;
            let mut smallest: Option<Duration> = None;
            for resync in hub.seats.iter_mut().filter_map(|seat| seat.resync.as_mut()) {
                resync.running = synced && resync.due <= now;
                if resync.due <= now {
                    resync.due = now + resync.period;
                }
                due |= resync.running;
                smallest = Some(smallest.map_or(resync.period, |period| period.min(resync.period)));
            }
            hub.next_tick = smallest.map(|period| now + period);
            due
        };
        if due {
            self.queue.resync();
        }
    }

    pub(super) async fn watch_rights(self: &Arc<Self>, forbidden: &impl Fn(&Arc<Self>)) {
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

impl Hub {
    #[cfg(test)]
    pub(super) fn leave_untold(&mut self, stored: Object, deletion: Deletion) {
        self.deletion = Some((stored, deletion));
    }

    pub(super) fn wake(&self) {
        self.seats.iter().for_each(|seat| seat.outlet.wake());
    }

    pub(super) fn tell<'a, C: IntoIterator<Item = Change<'a>>>(&self, changes: impl Fn() -> C) {
        for seat in &self.seats {
            seat.outlet.offer(changes(), seat.restriction.as_ref());
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
