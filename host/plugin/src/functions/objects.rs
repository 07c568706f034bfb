//! `objects`: reading an object through its handle.

use std::borrow::Cow;

use pilothouse_model::text_of;
use wasmtime::component::Resource;

use super::{check_pointer, check_pointers};
use crate::bindings::pilothouse::controller::objects::{Host, HostObject, Owner};
use crate::bindings::pilothouse::controller::types::{ObjectKey, Pair};
use crate::sandbox::{GuestState, ObjectHandle};

type Handle = Resource<ObjectHandle>;

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
        self.carry(object.labels().map(|(key, value)| size_of::<Pair>() + key.len() + value.len()).sum())?;
        let labels = object.labels();
        Ok(labels.map(|(key, value)| Pair { key: key.into_owned(), value: value.into_owned() }).collect())
    }

    fn label(&mut self, handle: Handle, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.handles.get(&handle)?.label(&key).map(Cow::into_owned))
    }

    fn annotation(&mut self, handle: Handle, key: String) -> wasmtime::Result<Option<String>> {
        let text = self.handles.get(&handle)?.annotation(&key);
        text.map(|text| self.carried(&text)).transpose()
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
        check_pointer("object.field", &pointer)?;
        self.handles.get(&handle)?.field(&pointer).map(|text| self.carried(text)).transpose()
    }

    fn text(&mut self, handle: Handle, pointer: String) -> wasmtime::Result<Option<String>> {
        check_pointer("object.text", &pointer)?;
        let text = self.handles.get(&handle)?.text(&pointer);
        text.map(|text| self.carried(&text)).transpose()
    }

    fn fields(&mut self, handle: Handle, pointers: Vec<String>) -> wasmtime::Result<Vec<Option<String>>> {
        fields(self, &handle, &pointers)
    }

    fn texts(&mut self, handle: Handle, pointers: Vec<String>) -> wasmtime::Result<Vec<Option<String>>> {
        texts(self, &handle, &pointers)
    }

    fn json(&mut self, handle: Handle) -> wasmtime::Result<String> {
        self.carried(self.handles.get(&handle)?.json())
    }

    fn drop(&mut self, handle: Handle) -> wasmtime::Result<()> {
        self.handles.close(&handle);
        Ok(())
    }
}

pub(super) fn fields<P: AsRef<str>>(
    state: &GuestState,
    handle: &Handle,
    pointers: &[P],
) -> wasmtime::Result<Vec<Option<String>>> {
    values("object.fields", state, handle, pointers, |raw| Cow::Borrowed(raw))
}

pub(super) fn texts<P: AsRef<str>>(
    state: &GuestState,
    handle: &Handle,
    pointers: &[P],
) -> wasmtime::Result<Vec<Option<String>>> {
    values("object.texts", state, handle, pointers, text_of)
}

/// What `read` makes of the JSON at each pointer, if one call may carry all of it.
fn values<P: AsRef<str>>(
    function: &'static str,
    state: &GuestState,
    handle: &Handle,
    pointers: &[P],
    read: impl for<'a> Fn(&'a str) -> Cow<'a, str>,
) -> wasmtime::Result<Vec<Option<String>>> {
    check_pointers(function, pointers)?;
    let mut size = size_of::<Option<String>>() * pointers.len();
    let found = state.handles.get(handle)?.fields(pointers).into_iter();
    // Before each copy, so that no more is copied than one call may carry.
    let copied = found.map(|value| {
        let value = value.map(&read);
        size += value.as_deref().map_or(0, str::len);
        state.carry(size)?;
        Ok(value.map(Cow::into_owned))
    });
    copied.collect()
}
