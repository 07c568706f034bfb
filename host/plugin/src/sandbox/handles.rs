//! The handles that a guest holds.

use pilothouse_model::{Notification, Object};
use wasmtime::component::Resource;

use super::Stop;
use crate::Observation;

/// The type of an `object` handle; the number inside is a slot of [`Handles`].
#[allow(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct ObjectHandle;

/// The type of a `batch` handle; the number inside is the serial of the `observe` call that it belongs to.
#[allow(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct BatchHandle;

/// Slots for the objects behind open handles.
///
/// A slab rather than wasmtime's `ResourceTable`: every slot is an `Object` (one pointer), so opening a handle allocates nothing once the
/// slab has grown, and the number of open handles is at hand.
///
/// Invariants: `open` is the number of filled slots plus open batches; a slot is either filled or on `free`.
pub(crate) struct Handles {
    slots: Vec<Option<Object>>,
    free: Vec<u32>,
    open: u32,
    limit: u32,
    batch: Vec<Observation>,
    serial: u32,
}

impl Handles {
    pub(crate) fn new(limit: u32) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), open: 0, limit, batch: Vec::new(), serial: 0 }
    }

    /// Opens a handle, unless that is one too many.
    pub(crate) fn open(&mut self, object: Object) -> wasmtime::Result<Resource<ObjectHandle>> {
        self.count_one()?;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(object);
                slot
            }
            None => {
                self.slots.push(Some(object));
                // `open` is within u32 and slots are reused, so there are never more slots than that.
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        Ok(Resource::new_own(slot))
    }

    /// Opens a handle for each object, or none.
    pub(crate) fn open_all(&mut self, objects: Vec<Object>) -> wasmtime::Result<Vec<Resource<ObjectHandle>>> {
        objects.into_iter().map(|object| self.open(object)).collect()
    }

    /// The object behind a handle. The engine passes only handles that it holds for this instance, so a miss is a bug of the host.
    pub(crate) fn get(&self, handle: &Resource<ObjectHandle>) -> wasmtime::Result<&Object> {
        let slot = self.slots.get(handle.rep() as usize).and_then(Option::as_ref);
        slot.ok_or_else(|| wasmtime::format_err!("no object behind handle {}", handle.rep()))
    }

    pub(crate) fn close(&mut self, handle: &Resource<ObjectHandle>) {
        let slot = handle.rep();
        if self.slots.get_mut(slot as usize).and_then(Option::take).is_some() {
            self.free.push(slot);
            self.open -= 1;
        }
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
        let mut handles = Handles::new(2);
        let first = handles.open(object("a")).expect("within the limit");
        let second = handles.open(object("b")).expect("within the limit");
        handles.close(&first);
        let third = handles.open(object("c")).expect("one was closed");
        assert_eq!(third.rep(), first.rep());
        assert_eq!(handles.get(&third).expect("open").name(), "c");
        assert_eq!(handles.get(&second).expect("open").name(), "b");
        assert_eq!(handles.open_count(), 2);
    }

    #[test]
    fn one_handle_too_many_is_refused_and_counts_nothing() {
        let mut handles = Handles::new(1);
        let first = handles.open(object("a")).expect("within the limit");
        let refused = handles.open(object("b")).expect_err("above the limit");
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
        let mut handles = Handles::new(10);
        let first = handles.open_batch(vec![observation("a")]).expect("within the limit");
        assert!(handles.notification(&first, 0).is_some());
        assert!(handles.notification(&first, 1).is_none());
        handles.end_batch();
        assert!(handles.notification(&first, 0).is_none());
        let second = handles.open_batch(vec![observation("b")]).expect("within the limit");
        assert!(handles.notification(&first, 0).is_none());
        assert_eq!(handles.notification(&second, 0).expect("open").object().name(), "b");
    }
}
