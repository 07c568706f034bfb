//! A bounded journal of what happened to a plugin's keys: per key the last events, reconciles and writes.
//!
//! The dispatcher and the workers write it for every event, so it takes no lock, except while it allocates. Only the first records of a key
//! allocate. A record consists of three atomic words, the last of which is the exclusive or of the others and of the key's stamp. A reader
//! therefore recognises a record that is being overwritten, and one of another key, and skips it. Nothing else needs a record to be consistent.
//!
//! The journal is a table of fixed size, whose slots are allocated one by one. Each stamp, a hash of the key with a random seed, has
//! [`WAYS`] slots; a new key replaces the one of them that was used least recently. Key names are not stored.
//!
//! Most keys are reconciled once, when the plugin starts, and then rest. So a slot has room for one record, and gets a ring of records of a
//! kind when the key has a second record.

mod record;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use pilothouse_model::hash::HashState;
use pilothouse_model::{Notification, ObjectKey};
use pilothouse_plugin::{HostMemory, HostMemoryKind, Reason};
use tokio::time::Instant;

use crate::environment::WallClock;
use record::{DETAIL_BITS, KINDS};
pub(crate) use record::{
    JournalEvent, JournalReconcile, JournalRecord, JournalWrite, REASONS, ReconcileOutcome, WriteVerb,
    reason_bits, reason_name, watch_tag,
};

/// The number of records of each kind for one key.
const RECORDS: usize = 8;
/// The number of slots among which the one for a key is chosen.
const WAYS: usize = 4;
/// The number of slots of a page.
const PAGE_SLOTS: usize = 64;
/// The number of pages, which are allocated one by one.
const PAGES: usize = 64;
/// The journal of one plugin. Cheap to clone. It outlives versions.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Table>);

struct Table {
    pages: [OnceLock<Box<Page>>; PAGES],
    hasher: HashState,
    memory: HostMemory,
    /// The bytes that are charged to `memory`.
    charged: AtomicUsize,
    /// The time to which the times of records are relative.
    began: Instant,
    began_at: Timestamp,
    /// The time of the current batch of events, in milliseconds since `began`: the dispatcher does not read the clock for each event.
    batch_time: AtomicU64,
}

struct Page([OnceLock<Box<Slot>>; PAGE_SLOTS]);

impl Default for Page {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

/// The records of one key at a time.
#[derive(Default)]
struct Slot {
    stamp: AtomicU64,
    /// The time of the last record, in milliseconds.
    used: AtomicU64,
    /// The stamp of the key whose first record `first` is, or is about to be.
    first_stamp: AtomicU64,
    first: StoredRecord,
    rings: [OnceLock<Box<Ring>>; KINDS],
}

/// The latest records of one kind.
#[derive(Default)]
struct Ring {
    next: AtomicU32,
    records: [StoredRecord; RECORDS],
}

/// The payload of a record, its time and detail, and the exclusive or of both, of the stamp, and of where it is stored.
#[derive(Default)]
struct StoredRecord([AtomicU64; 3]);

/// What distinguishes the stored words of a key's first record, by its kind, from those of a record in a ring.
const FIRST_MASKS: [u64; KINDS] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// A record with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimedRecord {
    pub(crate) time: Timestamp,
    pub(crate) record: JournalRecord,
}

impl Journal {
    /// Creates an empty journal that is charged to this account.
    pub(crate) fn new(memory: &HostMemory, clock: WallClock) -> Self {
        Self(Arc::new(Table {
            pages: std::array::from_fn(|_| OnceLock::new()),
            hasher: HashState::default(),
            memory: memory.clone(),
            charged: AtomicUsize::new(0),
            began: Instant::now(),
            began_at: clock.now(),
            batch_time: AtomicU64::new(0),
        }))
    }

    /// Sets the time of the events that follow.
    pub(crate) fn begin_batch(&self, now: Instant) {
        self.0.batch_time.store(self.milliseconds(now), Ordering::Relaxed);
    }

    /// Records a change that queues `key` of the watch `target`. `watch` is that of the changed object. The initial list is not recorded: the
    /// reasons of the reconcile show it.
    pub(crate) fn record_queued(
        &self,
        target: &str,
        key: &ObjectKey,
        watch: &str,
        notification: &Notification,
        change: Reason,
    ) {
        if change != Reason::Startup {
            self.record_event(target, key, watch, notification, change, true);
        }
    }

    /// Records a change of the object `key` of the watch `target` itself for which the predicate is false.
    pub(crate) fn record_refused(&self, target: &str, notification: &Notification, change: Reason) {
        self.record_event(target, notification.key(), target, notification, change, false);
    }

    fn record_event(
        &self,
        target: &str,
        key: &ObjectKey,
        watch: &str,
        notification: &Notification,
        change: Reason,
        is_queued: bool,
    ) {
        let version = notification.object().resource_version().parse().unwrap_or_default();
        let event = JournalEvent { version, change, is_queued, watch: watch_tag(watch) };
        self.push(target, key, self.0.batch_time.load(Ordering::Relaxed), JournalRecord::Event(event));
    }

    /// Records a reconcile that has just ended.
    pub(crate) fn record_reconcile(&self, watch: &str, key: &ObjectKey, reconcile: JournalReconcile) {
        self.push(watch, key, self.milliseconds(Instant::now()), JournalRecord::Reconcile(reconcile));
    }

    /// Records a write whose response has just come, or that was given up, by a reconcile of `key`.
    pub(crate) fn record_write(&self, watch: &str, key: &ObjectKey, write: JournalWrite) {
        self.push(watch, key, self.milliseconds(Instant::now()), JournalRecord::Write(write));
    }

    /// Returns the records of a key, in the order of their times.
    pub(crate) fn records(&self, watch: &str, key: &ObjectKey) -> Vec<TimedRecord> {
        let stamp = self.stamp(watch, key);
        let (page, first) = place(stamp);
        let Some(page) = self.0.pages[page].get() else { return Vec::new() };
        let slots = page.0[first..first + WAYS].iter().filter_map(OnceLock::get);
        let mut records: Vec<(u64, JournalRecord)> = slots.flat_map(|slot| slot.records(stamp)).collect();
        // Stable: the records of a ring stay in their order.
        records.sort_by_key(|(milliseconds, _)| *milliseconds);
        let began = self.0.began_at.as_millisecond();
        let timed = |(milliseconds, record)| {
            let milliseconds = began.saturating_add(i64::try_from(milliseconds).unwrap_or(i64::MAX));
            Some(TimedRecord { time: Timestamp::from_millisecond(milliseconds).ok()?, record })
        };
        records.into_iter().filter_map(timed).collect()
    }

    fn push(&self, watch: &str, key: &ObjectKey, milliseconds: u64, record: JournalRecord) {
        let stamp = self.stamp(watch, key);
        if let Some(slot) = self.slot(stamp) {
            slot.used.store(milliseconds, Ordering::Relaxed);
            slot.push(&self.0, stamp, milliseconds, record);
        }
    }

    /// Returns the slot of a key, which may be that of another key until now. `None` if the key is new and the account has no room.
    fn slot(&self, stamp: u64) -> Option<&Slot> {
        let (page, first) = place(stamp);
        let page = self.0.get_or_allocate(&self.0.pages[page])?;
        let mut oldest: Option<&Slot> = None;
        for slot in &page.0[first..first + WAYS] {
            // Another thread may allocate it first, for the same key or for another one.
            let Some(slot) = self.0.get_or_allocate(slot) else { break };
            let taken = slot.stamp.compare_exchange(0, stamp, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() || taken == Err(stamp) {
                return Some(slot);
            }
            let used = |slot: &Slot| slot.used.load(Ordering::Relaxed);
            if oldest.is_none_or(|oldest| used(slot) < used(oldest)) {
                oldest = Some(slot);
            }
        }
        // The records of the previous key have another stamp, so they need not be removed.
        oldest.inspect(|slot| slot.stamp.store(stamp, Ordering::Relaxed))
    }

    /// Returns the stamp of a key, which is never 0: unused records have the stamp 0.
    fn stamp(&self, watch: &str, key: &ObjectKey) -> u64 {
        self.0.hasher.hash_one((watch, key.as_str())) | 1
    }

    fn milliseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.0.began).as_millis()).unwrap_or(u64::MAX)
    }
}

/// Returns the page of a stamp, and the first of its slots there.
fn place(stamp: u64) -> (usize, usize) {
    // The lowest bit is the same for all stamps.
    let page = (stamp >> 32) as usize % PAGES;
    let set = (stamp >> 48) as usize % (PAGE_SLOTS / WAYS);
    (page, set * WAYS)
}

impl Table {
    /// Returns what is in the cell. If it is empty, allocates it and charges the plugin's account, half of which is reserved for the
    /// plugin's work; `None` if that has no room.
    fn get_or_allocate<'a, T: Default>(&self, cell: &'a OnceLock<Box<T>>) -> Option<&'a T> {
        let bytes = size_of::<T>();
        if cell.get().is_none() && self.memory.used().saturating_add(bytes) > self.memory.limit() / 2 {
            return None;
        }
        Some(cell.get_or_init(|| {
            self.memory.add(HostMemoryKind::Journal, bytes);
            self.charged.fetch_add(bytes, Ordering::Relaxed);
            Box::default()
        }))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.memory.release(HostMemoryKind::Journal, *self.charged.get_mut());
    }
}

impl Slot {
    fn push(&self, table: &Table, stamp: u64, milliseconds: u64, record: JournalRecord) {
        let kind = record.kind();
        let is_first = self.first_stamp.swap(stamp, Ordering::Relaxed) != stamp;
        // A ring that is there may have earlier records of the key, which had the slot before.
        let ring = if is_first {
            self.rings[kind].get().map(Box::as_ref)
        } else {
            table.get_or_allocate(&self.rings[kind])
        };
        match ring {
            Some(ring) => ring.push(stamp, milliseconds, record),
            // Without room for a ring, the latest record is kept.
            None => self.first.store(stamp ^ FIRST_MASKS[kind], milliseconds, record),
        }
    }

    fn records(&self, stamp: u64) -> Vec<(u64, JournalRecord)> {
        let of_kind = |(kind, ring): (usize, &OnceLock<Box<Ring>>)| {
            let ring = ring.get();
            let mut records = ring.map(|ring| ring.records(stamp, kind)).unwrap_or_default();
            // A full ring has later ones only.
            if ring.is_none_or(|ring| (ring.next.load(Ordering::Relaxed) as usize) < RECORDS) {
                records.splice(0..0, self.first.load(stamp ^ FIRST_MASKS[kind], kind));
            }
            records
        };
        self.rings.iter().enumerate().flat_map(of_kind).collect()
    }
}

impl Ring {
    fn push(&self, stamp: u64, milliseconds: u64, record: JournalRecord) {
        let position = self.next.fetch_add(1, Ordering::Relaxed) as usize % RECORDS;
        self.records[position].store(stamp, milliseconds, record);
    }

    /// Returns the records with this stamp, the oldest first, with their times.
    fn records(&self, stamp: u64, kind: usize) -> Vec<(u64, JournalRecord)> {
        let next = self.next.load(Ordering::Relaxed) as usize;
        let read = |position: usize| self.records[(next + position) % RECORDS].load(stamp, kind);
        (0..RECORDS).filter_map(read).collect()
    }
}

impl StoredRecord {
    fn store(&self, stamp: u64, milliseconds: u64, record: JournalRecord) {
        let (payload, detail) = record.pack();
        let head = (milliseconds << DETAIL_BITS) | u64::from(detail);
        for (stored, word) in self.0.iter().zip([payload, head, payload ^ head ^ stamp]) {
            stored.store(word, Ordering::Relaxed);
        }
    }

    /// Returns the record with its time, if it has this stamp.
    fn load(&self, stamp: u64, kind: usize) -> Option<(u64, JournalRecord)> {
        let [payload, head, check] = self.0.each_ref().map(|word| word.load(Ordering::Relaxed));
        let detail = u32::try_from(head & ((1 << DETAIL_BITS) - 1)).ok()?;
        let record = JournalRecord::unpack(kind, payload, detail)?;
        (payload ^ head ^ check == stamp).then_some((head >> DETAIL_BITS, record))
    }
}
