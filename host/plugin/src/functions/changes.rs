//! Implements `changes`: reads the objects behind the notifications of an `observe` call.

use pilothouse_model::{Notification, Object};
use wasmtime::component::Resource;

use crate::bindings::pilothouse::controller::changes::{Host, HostBatch};
use crate::sandbox::{BatchHandle, GuestState, ObjectHandle};

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
        let object = self.handles.notification(&batch, position).and_then(after);
        object.and_then(|object| object.field(&pointer)).map(|text| self.copy_for_guest(text)).transpose()
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
