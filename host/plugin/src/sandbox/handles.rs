//! The handles that a guest holds, and what they cost the host.

use pilothouse_model::{Notification, Object};
use wasmtime::component::Resource;

use super::StopReason;
use crate::{HostMemory, HostMemoryCharge, HostMemoryExceeded, HostMemoryKind, Observation};

/// The type of an `object` handle. The handle's representation is the index of a slot of [`Handles`].
#[allow(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct ObjectHandle;

/// The type of a `batch` handle. The handle's representation is the serial number of its `observe` call.
#[allow(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct BatchHandle;

/// Slots for the objects behind open handles.
///
/// This is a slab and not wasmtime's `ResourceTable`: every slot is an `Object` (one pointer) and its size, so that opening a handle
/// allocates nothing once the slab has grown, and the number of open handles is known.
///
/// # What is charged
/// A handle on the version that a cache holds keeps nothing alive that would not be there anyway. A handle on a superseded version, or on
/// an object from the server, does. Which handles these are changes with the cache, so [`Handles::recount`] looks it up only after enough
/// was opened since the last count to matter ([`min_credit`](Self::min_credit)). Between calls, when nothing counts, all handles are
/// charged in full.
///
/// # Invariants
/// `open` is the number of filled slots plus open batches. A slot is either filled or on `free`. `bytes` is the sum of the slots' sizes.
pub(crate) struct Handles {
    slots: Vec<Option<Slot>>,
    /// Indices of the empty slots.
    free: Vec<u32>,
    open: u32,
    limit: u32,
    bytes: usize,
    /// Bytes that may be opened before the next recount.
    credit: usize,
    charge: HostMemoryCharge,
    /// The notifications of the current `observe` call.
    batch: Vec<Observation>,
    batch_serial: u32,
}

/// An object, and its size in bytes when it was opened.
struct Slot {
    object: Object,
    size: usize,
}

impl Handles {
    pub(crate) fn new(limit: u32, memory: &HostMemory) -> Self {
        let mut handles = Self {
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            limit,
            bytes: 0,
            credit: 0,
            charge: memory.charge(HostMemoryKind::Handles, 0),
            batch: Vec::new(),
            batch_serial: 0,
        };
        handles.credit = handles.min_credit();
        handles
    }

    /// Opens a handle.
    ///
    /// # Errors
    /// If that would exceed `limits.handles` or `limits.hostMemory`.
    pub(crate) fn open(
        &mut self,
        object: Object,
        is_cached: impl Fn(&Object) -> bool,
    ) -> wasmtime::Result<Resource<ObjectHandle>> {
        self.reserve_one()?;
        let size = object.unpacked_size();
        self.bytes += size;
        let slot = Some(Slot { object, size });
        let slot = match self.free.pop() {
            Some(free) => {
                self.slots[free as usize] = slot;
                free
            }
            None => {
                self.slots.push(slot);
                // There are at most as many slots as there were ever open handles at a time, and `open` is a u32.
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        match self.credit.checked_sub(size) {
            Some(credit) => self.credit = credit,
            None => self.recount(is_cached)?,
        }
        Ok(Resource::new_own(slot))
    }

    /// Returns the object behind a handle. The engine passes only handles that this instance holds, so an error is a bug of the host.
    pub(crate) fn get(&self, handle: &Resource<ObjectHandle>) -> wasmtime::Result<&Object> {
        let slot = self.slots.get(handle.rep() as usize).and_then(Option::as_ref);
        let slot = slot.ok_or_else(|| wasmtime::format_err!("no object behind handle {}", handle.rep()))?;
        Ok(&slot.object)
    }

    pub(crate) fn close(&mut self, handle: &Resource<ObjectHandle>) {
        let slot = handle.rep();
        if let Some(closed) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            self.free.push(slot);
            self.open -= 1;
            self.bytes -= closed.size;
        }
    }

    /// Charges the bytes that only the open handles keep alive, and sets the next credit: an eighth of the bytes that they share with a
    /// cache, so that many handles on cached objects are not counted too often, and at least [`min_credit`](Self::min_credit).
    #[cold]
    fn recount(&mut self, is_cached: impl Fn(&Object) -> bool) -> wasmtime::Result<()> {
        let (mut own, mut shared) = (0, 0);
        for Slot { object, size } in self.slots.iter().flatten() {
            if is_cached(object) {
                own += object.private_size();
                shared += size;
            } else {
                own += size;
            }
        }
        self.credit = self.min_credit().max(shared / 8);
        Ok(self.charge.resize(own).map_err(StopReason::HostMemory)?)
    }

    /// Ends a call: the handles that are still open are charged in full until a recount in the next call.
    pub(crate) fn end_call(&mut self) -> Result<(), HostMemoryExceeded> {
        if self.bytes == 0 {
            // The common case: all handles were closed.
            self.credit = self.min_credit();
        }
        if self.bytes == self.charge.bytes() { Ok(()) } else { self.charge.resize(self.bytes) }
    }

    /// Returns the plugin's account of host memory.
    pub(crate) fn memory(&self) -> &HostMemory {
        self.charge.memory()
    }

    /// Returns the bytes that a call may open before the first recount.
    fn min_credit(&self) -> usize {
        self.charge.memory().limit() / 16
    }

    /// Begins an `observe` call. Handles of earlier batches are empty from here on.
    pub(crate) fn open_batch(
        &mut self,
        observations: Vec<Observation>,
    ) -> wasmtime::Result<Resource<BatchHandle>> {
        self.reserve_one()?;
        self.batch_serial = self.batch_serial.wrapping_add(1);
        self.batch = observations;
        Ok(Resource::new_own(self.batch_serial))
    }

    /// Ends the `observe` call: its batch is empty from here on.
    pub(crate) fn end_batch(&mut self) {
        self.batch = Vec::new();
    }

    /// Counts a batch handle that the guest closed.
    pub(crate) fn close_batch(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Returns the notification at a position of the batch, or `None` after the batch's call.
    pub(crate) fn notification(&self, batch: &Resource<BatchHandle>, position: u32) -> Option<&Notification> {
        if batch.rep() != self.batch_serial {
            return None;
        }
        self.batch.get(position as usize).map(|observation| &observation.notification)
    }

    /// Returns how many handles may be open.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns how many handles are open.
    pub(crate) fn open_count(&self) -> u32 {
        self.open
    }

    /// Returns whether the guest holds so many handles after a call that it must be leaking them.
    pub(crate) fn is_leaking(&self) -> bool {
        self.open > self.limit / 2
    }

    fn reserve_one(&mut self) -> wasmtime::Result<()> {
        if self.open >= self.limit {
            return Err(StopReason::Handles { allowed: self.limit }.into());
        }
        self.open += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Object {
        let json = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
        Object::from_json(json).expect("a valid object")
    }

    #[test]
    fn a_closed_slot_is_reused() {
        let mut handles = Handles::new(2, &HostMemory::default());
        let first = handles.open(object("a"), |_| true).expect("within the limit");
        let second = handles.open(object("b"), |_| true).expect("within the limit");
        handles.close(&first);
        let third = handles.open(object("c"), |_| true).expect("one was closed");
        assert_eq!(third.rep(), first.rep());
        assert_eq!(handles.get(&third).expect("open").name(), "c");
        assert_eq!(handles.get(&second).expect("open").name(), "b");
        assert_eq!(handles.open_count(), 2);
    }

    #[test]
    fn a_handle_above_the_limit_is_refused_and_not_counted() {
        let mut handles = Handles::new(1, &HostMemory::default());
        let first = handles.open(object("a"), |_| true).expect("within the limit");
        let refused = handles.open(object("b"), |_| true).expect_err("above the limit");
        assert!(matches!(refused.downcast_ref(), Some(StopReason::Handles { allowed: 1 })));
        handles.close(&first);
        assert_eq!(handles.open_count(), 0);
    }

    #[test]
    fn a_batch_is_empty_after_its_call() {
        let observation = |name: &str| Observation {
            watch: "pods".into(),
            notification: Notification::Added { object: object(name), initial: false },
        };
        let mut handles = Handles::new(10, &HostMemory::default());
        let first = handles.open_batch(vec![observation("a")]).expect("within the limit");
        assert!(handles.notification(&first, 0).is_some());
        assert!(handles.notification(&first, 1).is_none());
        handles.end_batch();
        assert!(handles.notification(&first, 0).is_none());
        let second = handles.open_batch(vec![observation("b")]).expect("within the limit");
        assert!(handles.notification(&first, 0).is_none());
        assert_eq!(handles.notification(&second, 0).expect("open").object().name(), "b");
    }

    /// An object of about this many bytes.
    fn large(name: &str, bytes: usize) -> Object {
        let text = "x".repeat(bytes);
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"a":"{text}"}}}}"#
        );
        Object::from_json(json).expect("a valid object")
    }

    #[test]
    fn handles_on_uncached_versions_are_refused_beyond_the_host_memory() {
        let memory = HostMemory::new(1 << 20);
        let mut handles = Handles::new(100_000, &memory);
        let refused = (0..1_000).find_map(|_| handles.open(large("a", 10_000), |_| false).err());
        let refused = refused.expect("ten megabytes are too much");
        let Some(StopReason::HostMemory(exceeded)) = refused.downcast_ref() else { panic!("{refused}") };
        assert_eq!((exceeded.allowed, exceeded.kind), (1 << 20, HostMemoryKind::Handles));
        assert!(handles.bytes < (1 << 20) + (1 << 17), "{}", handles.bytes);
        drop(handles);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn handles_on_cached_versions_are_free_during_a_call_and_charged_in_full_after_it() {
        let memory = HostMemory::new(1 << 20);
        let mut handles = Handles::new(100_000, &memory);
        let object = large("a", 10_000);
        let open: Vec<_> =
            (0..1_000).map(|_| handles.open(object.clone(), |_| true).expect("it is cached")).collect();
        assert_eq!(memory.used(), 0);
        let exceeded = handles.end_call().expect_err("they stay open");
        assert!(exceeded.to_string().contains("limits.hostMemory of 1 MiB"), "{exceeded}");
        open.iter().skip(10).for_each(|handle| handles.close(handle));
        handles.end_call().expect("few stay open");
        assert_eq!(memory.used(), 10 * object.memory_size());
        open.iter().for_each(|handle| handles.close(handle));
        handles.end_call().expect("none stays open");
        assert_eq!((memory.used(), handles.bytes, handles.open_count()), (0, 0, 0));
    }

    #[test]
    fn opening_many_handles_on_cached_versions_recounts_seldom() {
        let mut handles = Handles::new(100_000, &HostMemory::new(1 << 20));
        let (object, lookups) = (large("a", 10_000), std::cell::Cell::new(0));
        for _ in 0..10_000 {
            let is_cached = |_: &Object| {
                lookups.set(lookups.get() + 1);
                true
            };
            handles.open(object.clone(), is_cached).expect("it is cached");
        }
        assert!(lookups.get() < 12 * 10_000, "{} lookups for 10,000 handles", lookups.get());
    }

    #[test]
    fn versions_superseded_while_a_call_holds_them_are_charged() {
        let memory = HostMemory::new(1 << 20);
        let mut handles = Handles::new(100_000, &memory);
        let is_superseded = std::cell::Cell::new(false);
        let is_cached = |_: &Object| !is_superseded.get();
        for _ in 0..200 {
            handles.open(large("a", 10_000), is_cached).expect("they are cached");
        }
        assert_eq!(memory.used(), 0);
        is_superseded.set(true);
        let refused = (0..100).find_map(|_| handles.open(large("b", 10_000), is_cached).err());
        assert!(matches!(refused.expect("two megabytes").downcast_ref(), Some(StopReason::HostMemory(_))));
    }
}
