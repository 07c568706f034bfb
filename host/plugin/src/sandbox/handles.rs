//! The handles that a guest holds.

use pilothouse_model::{Notification, Object};
use wasmtime::component::Resource;

use super::Stop;
use crate::{HostMemory, HostMemoryCharge, HostMemoryExceeded, HostMemoryKind, Observation};

/// The type of an `object` handle; the number inside is a slot of [`Handles`].
#[allow(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct ObjectHandle;

/// The type of a `batch` handle; the number inside is the serial of the `observe` call that it belongs to.
#[allow(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct BatchHandle;

/// Slots for the objects behind open handles.
///
/// A slab rather than wasmtime's `ResourceTable`: every slot is an `Object` (one pointer) and a number, so opening a handle allocates
/// nothing once the slab has grown, and the number of open handles is at hand.
///
/// # What is charged
/// A handle on the version that a cache holds keeps nothing alive that would not be there anyway; one on a superseded version, or on an
/// object from the server, does. Which is which changes with the cache, so it is looked up ([`Handles::count`]) only when as much was
/// opened since the last time as could matter: until then a call has [`slack`](Self::slack). Between calls all handles are charged in
/// full, because nobody looks then.
///
/// Invariants: `open` is the number of filled slots plus open batches; a slot is either filled or on `free`; `bytes` is the sum of the
/// slots' sizes.
pub(crate) struct Handles {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    open: u32,
    limit: u32,
    bytes: usize,
    /// Bytes that may be opened before it is counted again.
    credit: usize,
    charge: HostMemoryCharge,
    batch: Vec<Observation>,
    serial: u32,
}

/// An object, and its size when it was opened.
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
            serial: 0,
        };
        handles.credit = handles.slack();
        handles
    }

    /// Opens a handle, unless that is one too many.
    pub(crate) fn open(
        &mut self,
        object: Object,
        is_cached: impl Fn(&Object) -> bool,
    ) -> wasmtime::Result<Resource<ObjectHandle>> {
        self.count_one()?;
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
                // `open` is within u32 and slots are reused, so there are never more slots than that.
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        match self.credit.checked_sub(size) {
            Some(credit) => self.credit = credit,
            None => self.count(is_cached)?,
        }
        Ok(Resource::new_own(slot))
    }

    /// The object behind a handle. The engine passes only handles that it holds for this instance, so a miss is a bug of the host.
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

    /// Charges what the open handles alone keep alive, and gives the next credit: an eighth of what they share with a cache, so that many
    /// handles on cached objects are not looked at too often, and at least the slack.
    #[cold]
    fn count(&mut self, is_cached: impl Fn(&Object) -> bool) -> wasmtime::Result<()> {
        let (mut own, mut shared) = (0, 0);
        for Slot { object, size } in self.slots.iter().flatten() {
            if is_cached(object) {
                own += object.private_size();
                shared += size;
            } else {
                own += size;
            }
        }
        self.credit = self.slack().max(shared / 8);
        Ok(self.charge.resize(own).map_err(Stop::HostMemory)?)
    }

    /// Ends a call: what is still open is charged in full until the next one counts anew.
    pub(crate) fn end_call(&mut self) -> Result<(), HostMemoryExceeded> {
        if self.bytes == 0 {
            // Opened and closed again, as most are.
            self.credit = self.slack();
        }
        if self.bytes == self.charge.bytes() { Ok(()) } else { self.charge.resize(self.bytes) }
    }

    /// The plugin's account.
    pub(crate) fn memory(&self) -> &HostMemory {
        self.charge.memory()
    }

    /// What one call may open before it is counted, in bytes.
    fn slack(&self) -> usize {
        self.charge.memory().limit() / 16
    }

    /// Begins an `observe` call: handles of earlier batches answer nothing from here on.
    pub(crate) fn open_batch(
        &mut self,
        observations: Vec<Observation>,
    ) -> wasmtime::Result<Resource<BatchHandle>> {
        self.count_one()?;
        self.serial = self.serial.wrapping_add(1);
        self.batch = observations;
        Ok(Resource::new_own(self.serial))
    }

    /// Ends the `observe` call.
    pub(crate) fn end_batch(&mut self) {
        self.batch = Vec::new();
    }

    pub(crate) fn close_batch(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// The notification at a position of the batch, while its call lasts.
    pub(crate) fn notification(&self, batch: &Resource<BatchHandle>, position: u32) -> Option<&Notification> {
        if batch.rep() != self.serial {
            return None;
        }
        self.batch.get(position as usize).map(|observation| &observation.notification)
    }

    /// How many handles may be open.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// How many handles are open.
    pub(crate) fn open_count(&self) -> u32 {
        self.open
    }

    /// Whether the guest still holds so many handles after a call that it leaks.
    pub(crate) fn is_leaking(&self) -> bool {
        self.open > self.limit / 2
    }

    fn count_one(&mut self) -> wasmtime::Result<()> {
        if self.open >= self.limit {
            return Err(Stop::Handles { allowed: self.limit }.into());
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
    fn a_closed_slot_is_used_again() {
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
    fn one_handle_too_many_is_refused_and_counts_nothing() {
        let mut handles = Handles::new(1, &HostMemory::default());
        let first = handles.open(object("a"), |_| true).expect("within the limit");
        let refused = handles.open(object("b"), |_| true).expect_err("above the limit");
        assert!(matches!(refused.downcast_ref(), Some(Stop::Handles { allowed: 1 })));
        handles.close(&first);
        assert_eq!(handles.open_count(), 0);
    }

    #[test]
    fn a_batch_answers_nothing_after_its_call() {
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

    /// An object of about so many bytes.
    fn large(name: &str, bytes: usize) -> Object {
        let text = "x".repeat(bytes);
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"a":"{text}"}}}}"#
        );
        Object::from_json(json).expect("a valid object")
    }

    #[test]
    fn handles_on_versions_that_no_cache_holds_are_refused_beyond_the_host_memory() {
        let memory = HostMemory::new(1 << 20);
        let mut handles = Handles::new(100_000, &memory);
        let refused = (0..1_000).find_map(|_| handles.open(large("a", 10_000), |_| false).err());
        let refused = refused.expect("ten megabytes are too much");
        let Some(Stop::HostMemory(exceeded)) = refused.downcast_ref() else { panic!("{refused}") };
        assert_eq!((exceeded.allowed, exceeded.kind), (1 << 20, HostMemoryKind::Handles));
        assert!(handles.bytes < (1 << 20) + (1 << 17), "{}", handles.bytes);
        drop(handles);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn handles_on_cached_versions_cost_nothing_in_a_call_and_what_they_take_after_it() {
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
    fn many_handles_on_cached_versions_are_not_looked_at_for_each_that_is_opened() {
        let mut handles = Handles::new(100_000, &HostMemory::new(1 << 20));
        let (object, looks) = (large("a", 10_000), std::cell::Cell::new(0));
        for _ in 0..10_000 {
            let look = |_: &Object| {
                looks.set(looks.get() + 1);
                true
            };
            handles.open(object.clone(), look).expect("it is cached");
        }
        assert!(looks.get() < 12 * 10_000, "{} looks for 10,000 handles", looks.get());
    }

    #[test]
    fn versions_that_are_superseded_while_a_call_holds_them_are_charged() {
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
        assert!(matches!(refused.expect("two megabytes").downcast_ref(), Some(Stop::HostMemory(_))));
    }
}
