//! Imports that read their string arguments in place, in the guest's linear memory.
//!
//! The functions that `bindgen!` generates copy each string argument into a `String` before they call the host. For the imports that guests
//! call most, these copies are most of the cost of a call. [`replace_in_linker`] therefore replaces the generated functions of `cache.get`
//! and `object.field`, `text`, `fields` and `texts` by functions that take a [`WasmStr`].
//!
//! Each of these imports has one implementation (`cache::get`, `objects::field`, …). It is generic over its [`Caller`] and its
//! [`StringArgument`]s, so both the functions of this module and the methods of the generated traits are calls of it.

use std::borrow::Cow;

use wasmtime::component::{ComponentType, Lift, Linker, Resource, WasmStr};
use wasmtime::{Result, StoreContextMut};

use super::{cache, objects};
use crate::contract::interface_name;
use crate::sandbox::{GuestState, ObjectHandle};

type Handle = Resource<ObjectHandle>;
type GuestStore<'a> = StoreContextMut<'a, GuestState>;

const CACHE: &str = "cache";
const GET: &str = "get";
const OBJECTS: &str = "objects";
const FIELD: &str = "[method]object.field";
const TEXT: &str = "[method]object.text";
const FIELDS: &str = "[method]object.fields";
const TEXTS: &str = "[method]object.texts";

/// The guest that calls an import: its store, or only the store's data, which is what generated methods have.
pub(super) trait Caller {
    fn state(&self) -> &GuestState;
    fn state_mut(&mut self) -> &mut GuestState;
}

impl Caller for GuestState {
    fn state(&self) -> &GuestState {
        self
    }

    fn state_mut(&mut self) -> &mut GuestState {
        self
    }
}

impl Caller for GuestStore<'_> {
    fn state(&self) -> &GuestState {
        self.data()
    }

    fn state_mut(&mut self) -> &mut GuestState {
        self.data_mut()
    }
}

/// A string argument of an import called by `C`: copied already, or still in the guest's memory.
pub(super) trait StringArgument<C> {
    /// Returns the text. Borrows it if it is UTF-8 in the guest's memory, and transcodes it otherwise.
    ///
    /// # Errors
    /// If the bytes are not valid in the guest's string encoding.
    fn read<'a>(&'a self, caller: &'a C) -> Result<Cow<'a, str>>;
}

impl<C> StringArgument<C> for String {
    fn read<'a>(&'a self, _: &'a C) -> Result<Cow<'a, str>> {
        Ok(Cow::Borrowed(self))
    }
}

impl<'s> StringArgument<GuestStore<'s>> for WasmStr {
    fn read<'a>(&'a self, store: &'a GuestStore<'s>) -> Result<Cow<'a, str>> {
        self.to_str(store)
    }
}

/// `types.object-key` with its strings in the guest's memory.
#[derive(ComponentType, Lift)]
#[component(record)]
struct BorrowedKey {
    namespace: WasmStr,
    name: WasmStr,
}

/// Replaces the generated functions of these imports, which `linker` must have already.
pub(super) fn replace_in_linker(linker: &mut Linker<GuestState>) -> Result<()> {
    linker.allow_shadowing(true);
    let replaced = replace(linker);
    linker.allow_shadowing(false);
    replaced
}

fn replace(linker: &mut Linker<GuestState>) -> Result<()> {
    linker.instance(&interface_name(CACHE))?.func_wrap(
        GET,
        |mut store: GuestStore<'_>, (watch, key): (WasmStr, BorrowedKey)| {
            Ok((cache::get(&mut store, &watch, &key.namespace, &key.name)?,))
        },
    )?;
    let mut objects = linker.instance(&interface_name(OBJECTS))?;
    objects.func_wrap(FIELD, |store: GuestStore<'_>, (object, pointer): (Handle, WasmStr)| {
        Ok((objects::field(&store, &object, &pointer)?,))
    })?;
    objects.func_wrap(TEXT, |store: GuestStore<'_>, (object, pointer): (Handle, WasmStr)| {
        Ok((objects::text(&store, &object, &pointer)?,))
    })?;
    objects.func_wrap(FIELDS, |mut store: GuestStore<'_>, (object, pointers): (Handle, Vec<WasmStr>)| {
        Ok((objects::fields(&mut store, &object, &pointers)?,))
    })?;
    objects.func_wrap(TEXTS, |mut store: GuestStore<'_>, (object, pointers): (Handle, Vec<WasmStr>)| {
        Ok((objects::texts(&mut store, &object, &pointers)?,))
    })
}

#[cfg(test)]
mod tests;
