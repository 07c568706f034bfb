//! Implements `objects`: reads an object through its handle.

use std::borrow::Cow;

use pilothouse_model::unquote_json;
use wasmtime::component::Resource;

use super::borrowed_arguments::{Caller, StringArgument};
use super::{check_pointer, check_pointer_count};
use crate::bindings::pilothouse::controller::objects::{Host, HostObject, Owner};
use crate::bindings::pilothouse::controller::types::{ObjectKey, Pair};
use crate::sandbox::{GuestState, ObjectHandle};

type Handle = Resource<ObjectHandle>;

/// Bytes of text that lookups of one call may read before the time is charged, about a millisecond.
const TEXT_BETWEEN_CHARGES: usize = 1 << 20;

impl Host for GuestState {}

impl HostObject for GuestState {
    fn key(&mut self, handle: Handle) -> wasmtime::Result<ObjectKey> {
        Ok(self.handles.get(&handle)?.key().into())
    }

    fn api_version(&mut self, handle: Handle) -> wasmtime::Result<String> {
        Ok(self.handles.get(&handle)?.api_version().to_owned())
    }

    fn kind(&mut self, handle: Handle) -> wasmtime::Result<String> {
        Ok(self.handles.get(&handle)?.kind().to_owned())
    }

    fn uid(&mut self, handle: Handle) -> wasmtime::Result<String> {
        Ok(self.handles.get(&handle)?.uid().to_owned())
    }

    fn resource_version(&mut self, handle: Handle) -> wasmtime::Result<String> {
        Ok(self.handles.get(&handle)?.resource_version().to_owned())
    }

    fn generation(&mut self, handle: Handle) -> wasmtime::Result<u32> {
        Ok(u32::try_from(self.handles.get(&handle)?.generation()).unwrap_or(u32::MAX))
    }

    fn labels(&mut self, handle: Handle) -> wasmtime::Result<Vec<Pair>> {
        let object = self.handles.get(&handle)?;
        self.check_message_size(
            object.labels().map(|(key, value)| size_of::<Pair>() + key.len() + value.len()).sum(),
        )?;
        let labels = object.labels();
        Ok(labels.map(|(key, value)| Pair { key: key.into_owned(), value: value.into_owned() }).collect())
    }

    fn label(&mut self, handle: Handle, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.handles.get(&handle)?.label(&key).map(Cow::into_owned))
    }

    fn annotation(&mut self, handle: Handle, key: String) -> wasmtime::Result<Option<String>> {
        let text = self.handles.get(&handle)?.annotation(&key);
        text.map(|text| self.copy_for_guest(&text)).transpose()
    }

    fn deletion_timestamp(&mut self, handle: Handle) -> wasmtime::Result<Option<String>> {
        Ok(self.handles.get(&handle)?.deletion_timestamp().map(str::to_owned))
    }

    fn controller(&mut self, handle: Handle) -> wasmtime::Result<Option<Owner>> {
        let owner = self.handles.get(&handle)?.controller();
        Ok(owner.map(|owner| Owner {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
        }))
    }

    fn field(&mut self, handle: Handle, pointer: String) -> wasmtime::Result<Option<String>> {
        field(self, &handle, &pointer)
    }

    fn text(&mut self, handle: Handle, pointer: String) -> wasmtime::Result<Option<String>> {
        text(self, &handle, &pointer)
    }

    fn fields(&mut self, handle: Handle, pointers: Vec<String>) -> wasmtime::Result<Vec<Option<String>>> {
        fields(self, &handle, &pointers)
    }

    fn texts(&mut self, handle: Handle, pointers: Vec<String>) -> wasmtime::Result<Vec<Option<String>>> {
        texts(self, &handle, &pointers)
    }

    fn json(&mut self, handle: Handle) -> wasmtime::Result<String> {
        self.copy_for_guest(self.handles.get(&handle)?.json())
    }

    fn drop(&mut self, handle: Handle) -> wasmtime::Result<()> {
        self.handles.close(&handle);
        Ok(())
    }
}

/// Implements `object.field`.
pub(super) fn field<C: Caller>(
    caller: &C,
    handle: &Handle,
    pointer: &impl StringArgument<C>,
) -> wasmtime::Result<Option<String>> {
    let pointer = pointer.read(caller)?;
    check_pointer("object.field", &pointer)?;
    let state = caller.state();
    let json = state.handles.get(handle)?.field(&pointer);
    json.map(|json| state.copy_for_guest(json)).transpose()
}

/// Implements `object.text`.
pub(super) fn text<C: Caller>(
    caller: &C,
    handle: &Handle,
    pointer: &impl StringArgument<C>,
) -> wasmtime::Result<Option<String>> {
    let pointer = pointer.read(caller)?;
    check_pointer("object.text", &pointer)?;
    let state = caller.state();
    let text = state.handles.get(handle)?.text(&pointer);
    text.map(|text| state.copy_for_guest(&text)).transpose()
}

/// Implements `object.fields`.
pub(super) fn fields<C: Caller>(
    caller: &mut C,
    handle: &Handle,
    pointers: &[impl StringArgument<C>],
) -> wasmtime::Result<Vec<Option<String>>> {
    values("object.fields", caller, handle, pointers, |json| Cow::Borrowed(json))
}

/// Implements `object.texts`.
pub(super) fn texts<C: Caller>(
    caller: &mut C,
    handle: &Handle,
    pointers: &[impl StringArgument<C>],
) -> wasmtime::Result<Vec<Option<String>>> {
    values("object.texts", caller, handle, pointers, unquote_json)
}

/// Reads and converts the JSON at each pointer. Charges the time to the call after each few pointers, so that the call's limit ends it:
/// many pointers into a large object may take longer than a tick.
fn values<C: Caller>(
    function: &'static str,
    caller: &mut C,
    handle: &Handle,
    pointers: &[impl StringArgument<C>],
    convert: impl for<'a> Fn(&'a str) -> Cow<'a, str>,
) -> wasmtime::Result<Vec<Option<String>>> {
    check_pointer_count(function, pointers.len())?;
    let mut size = size_of::<Option<String>>() * pointers.len();
    let mut values = Vec::with_capacity(pointers.len());
    let group = pointers_between_charges(caller.state().handles.get(handle)?.json().len());
    for pointers in pointers.chunks(group) {
        read_values(function, caller, handle, pointers, &convert, &mut size, &mut values)?;
        caller.state_mut().cpu.charge_elapsed()?;
    }
    Ok(values)
}

/// Returns how many pointers into an object of this size are looked up before the time is charged. Small objects are read in one pass.
pub(super) fn pointers_between_charges(json_size: usize) -> usize {
    (TEXT_BETWEEN_CHARGES / json_size.max(1)).max(1)
}

fn read_values<C: Caller>(
    function: &'static str,
    caller: &C,
    handle: &Handle,
    pointers: &[impl StringArgument<C>],
    convert: impl for<'a> Fn(&'a str) -> Cow<'a, str>,
    size: &mut usize,
    values: &mut Vec<Option<String>>,
) -> wasmtime::Result<()> {
    let pointers: Vec<_> =
        pointers.iter().map(|pointer| pointer.read(caller)).collect::<wasmtime::Result<_>>()?;
    pointers.iter().try_for_each(|pointer| check_pointer(function, pointer))?;
    let state = caller.state();
    for json in state.handles.get(handle)?.fields(&pointers) {
        let value = json.map(&convert);
        *size += value.as_deref().map_or(0, str::len);
        // Checked before each copy, so that no more is copied than one call may carry.
        state.check_message_size(*size)?;
        values.push(value.map(Cow::into_owned));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_an_object_is_the_fewer_pointers_are_looked_up_before_the_time_is_charged() {
        let groups = [0, 4 << 10, 1 << 20, 2 << 20, usize::MAX].map(pointers_between_charges);
        assert_eq!(groups, [1 << 20, 256, 1, 1, 1]);
    }
}
