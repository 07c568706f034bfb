//! The changes that queued a key, as its queue entry carries them.

use std::sync::Arc;

use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryKind, Reason};
use tokio::time::Instant;

/// The number of changes of one key that are kept; further ones are counted.
pub(super) const MAX_EVENTS: usize = 8;

/// An upper bound of the bytes that one change takes, wherever it is stored.
const RECORD_BYTES: usize = size_of::<EventRecords>();

/// A change that queued a key.
#[derive(Debug)]
pub(crate) struct EventRecord {
    /// When the plugin's task received it.
    pub(super) received: Instant,
    /// When it was queued.
    pub(super) queued: Instant,
    /// The watch of the changed object.
    pub(super) watch: Arc<str>,
    pub(super) change: Reason,
    /// The object's resource version; 0 if it is not a number.
    pub(super) resource_version: u64,
    /// Identifies the version of the object among the writes of plugins.
    pub(super) version: u64,
    /// Released with the record.
    pub(super) _charge: HostMemoryCharge,
}

/// Charges one record to a plugin; `None` if there is no room. Half of the plugin's memory stays free of records, because calls need it more.
pub(super) fn charge(memory: &HostMemory) -> Option<HostMemoryCharge> {
    if memory.used() > memory.limit() / 2 {
        return None;
    }
    memory.try_charge(HostMemoryKind::Traces, RECORD_BYTES).ok()
}

/// The changes that queued a key since it was last taken, the oldest first.
#[derive(Debug)]
pub(crate) struct EventRecords {
    first: EventRecord,
    others: Vec<EventRecord>,
    omitted: u32,
}

impl From<EventRecord> for EventRecords {
    fn from(first: EventRecord) -> Self {
        Self { first, others: Vec::new(), omitted: 0 }
    }
}

impl EventRecords {
    /// Adds later changes.
    pub(crate) fn merge(&mut self, later: Self) {
        self.omitted = self.omitted.saturating_add(later.omitted);
        for event in std::iter::once(later.first).chain(later.others) {
            if self.others.len() + 1 < MAX_EVENTS {
                self.others.push(event);
            } else {
                self.omitted = self.omitted.saturating_add(1);
            }
        }
    }

    /// The changes that are kept.
    pub(super) fn iter(&self) -> impl Iterator<Item = &EventRecord> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The number of changes that are not kept.
    pub(super) fn omitted(&self) -> u32 {
        self.omitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_changes_are_kept_and_the_others_are_counted() {
        let now = Instant::now();
        let memory = HostMemory::default();
        let event = |resource_version| {
            let (watch, change) = ("maps".into(), Reason::Updated);
            let charge = charge(&memory).expect("room");
            EventRecord {
                received: now,
                queued: now,
                watch,
                change,
                resource_version,
                version: 0,
                _charge: charge,
            }
        };
        let mut events = EventRecords::from(event(1));
        for version in 2..=10 {
            events.merge(event(version).into());
        }
        let versions: Vec<_> = events.iter().map(|event| event.resource_version).collect();
        assert_eq!((versions, events.omitted()), ((1..=8).collect(), 2));
        let mut earlier = EventRecords::from(event(0));
        earlier.merge(events);
        assert_eq!((earlier.iter().count(), earlier.omitted()), (MAX_EVENTS, 3));
        assert_eq!(memory.used_by(HostMemoryKind::Traces), MAX_EVENTS * RECORD_BYTES);
        drop(earlier);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn records_use_at_most_half_of_a_plugins_memory() {
        let memory = HostMemory::new(10 * RECORD_BYTES);
        let charges: Vec<_> = std::iter::from_fn(|| charge(&memory)).take(100).collect();
        assert_eq!((charges.len(), memory.used()), (6, 6 * RECORD_BYTES));
        drop(charges);
        assert!(charge(&memory).is_some());
    }
}
