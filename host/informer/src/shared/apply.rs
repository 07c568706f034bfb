//! Applies deltas to the cache of an informer, and pushes the changes to its subscribers.

use std::sync::Arc;

use pilothouse_model::{Deletion, Delta, Object, Replacement};

use super::change::{Change, ListDifference, is_stale, same_uid, transition};
use super::index_handle::SubscriberIndex;
use super::informer::Informer;
use super::registration::{KnownObjects, Registration};
use super::subscribers::Subscribers;
use crate::store::{ObjectMap, StoredObject};

/// Deltas applied in a row before the informer wakes subscribers and yields to other tasks.
const DELTAS_PER_TURN: usize = 256;

impl Informer {
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
    pub(super) fn attach(
        &self,
        registration: &mut Registration,
        known_objects: &KnownObjects,
        items: &[Object],
    ) {
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
}
