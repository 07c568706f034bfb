//! Implements `changes`: reads the objects behind the notifications of an `observe` call.

use pilothouse_model::{Notification, Object};
use wasmtime::component::Resource;

use crate::bindings::pilothouse::controller::changes::{Host, HostBatch};
use crate::sandbox::{BatchHandle, GuestState, ObjectHandle};

/// The maximum size of a text that `batch.after-field` unpacks once for a batch, in bytes.
const MAX_KEPT_TEXT: usize = 16 << 10;

type Handle = Resource<BatchHandle>;

impl Host for GuestState {}

impl HostBatch for GuestState {
    fn before(&mut self, batch: Handle, position: u32) -> wasmtime::Result<Option<Resource<ObjectHandle>>> {
        let object = self.handles.notification(&batch, position).and_then(before).cloned();
        object.map(|object| self.open(object)).transpose()
    }

    fn after(&mut self, batch: Handle, position: u32) -> wasmtime::Result<Option<Resource<ObjectHandle>>> {
        let object = self.handles.notification(&batch, position).and_then(after).cloned();
        object.map(|object| self.open(object)).transpose()
    }

    fn after_field(
        &mut self,
        batch: Handle,
        position: u32,
        pointer: String,
    ) -> wasmtime::Result<Option<String>> {
        super::check_pointer("batch.after-field", &pointer)?;
        let Some(object) = self.handles.notification(&batch, position).and_then(after) else {
            return Ok(None);
        };
        // A large text is not kept for as long as the batch, because no handle is charged for it.
        let is_large = object.private_size() > MAX_KEPT_TEXT;
        let object = if is_large { &object.fresh_view() } else { object };
        object.field(&pointer).map(|text| self.copy_for_guest(text)).transpose()
    }

    fn drop(&mut self, _batch: Handle) -> wasmtime::Result<()> {
        self.handles.close_batch();
        Ok(())
    }
}

fn before(notification: &Notification) -> Option<&Object> {
    match notification {
        Notification::Added { .. } => None,
        Notification::Updated { old, .. } => Some(old),
        Notification::Deleted { last, .. } => Some(last),
    }
}

fn after(notification: &Notification) -> Option<&Object> {
    match notification {
        Notification::Added { object, .. } | Notification::Updated { new: object, .. } => Some(object),
        Notification::Deleted { .. } => None,
    }
}
