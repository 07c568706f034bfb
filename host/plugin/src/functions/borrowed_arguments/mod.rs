//! The functions that guests call most, again: with arguments that are read where they are in the guest's memory. What is generated from the
//! contract copies each text first, which is most of what such a call costs. They answer as those in the files beside this one do.

use std::borrow::Cow;

use wasmtime::component::{ComponentType, Lift, Linker, Resource, WasmStr};
use wasmtime::{Result, StoreContextMut};

use super::check_pointer;
use super::objects::{fields, texts};
use crate::Call;
use crate::sandbox::{GuestState, ObjectHandle, Stop};

type Key = pilothouse_model::ObjectKey;
type Handle = Resource<ObjectHandle>;

const CACHE: &str = "pilothouse:controller/cache@0.1.0";
const GET: &str = "get";
const OBJECTS: &str = "pilothouse:controller/objects@0.1.0";
const FIELD: &str = "[method]object.field";
const TEXT: &str = "[method]object.text";
const FIELDS: &str = "[method]object.fields";
const TEXTS: &str = "[method]object.texts";

/// `types.object-key`
#[derive(ComponentType, Lift)]
#[component(record)]
struct WasmKey {
    namespace: WasmStr,
    name: WasmStr,
}

/// Puts them in the place of those that are there.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> Result<()> {
    linker.allow_shadowing(true);
    let added = add(linker);
    linker.allow_shadowing(false);
    added
}

fn add(linker: &mut Linker<GuestState>) -> Result<()> {
    linker.instance(CACHE)?.func_wrap(GET, get)?;
    let mut objects = linker.instance(OBJECTS)?;
    objects.func_wrap(FIELD, |store: StoreContextMut<'_, _>, (object, pointer): (Handle, WasmStr)| {
        Ok((field(&store, &object, &pointer)?,))
    })?;
    objects.func_wrap(TEXT, |store: StoreContextMut<'_, _>, (object, pointer): (Handle, WasmStr)| {
        Ok((text(&store, &object, &pointer)?,))
    })?;
    objects.func_wrap(
        FIELDS,
        |mut store: StoreContextMut<'_, _>, (object, pointers): (Handle, Vec<WasmStr>)| {
            accounted(&mut store, |store| fields(store.data(), &object, &in_place(store, &pointers)?))
        },
    )?;
    objects.func_wrap(
        TEXTS,
        |mut store: StoreContextMut<'_, _>, (object, pointers): (Handle, Vec<WasmStr>)| {
            accounted(&mut store, |store| texts(store.data(), &object, &in_place(store, &pointers)?))
        },
    )
}

/// Charges what the work takes to the call: many pointers into a large object may take longer than a tick.
fn accounted<T>(
    store: &mut StoreContextMut<'_, GuestState>,
    work: impl FnOnce(&StoreContextMut<'_, GuestState>) -> Result<T>,
) -> Result<(T,)> {
    let mut since = store.data().cpu.now();
    let answer = work(store)?;
    store.data_mut().cpu.account(&mut since)?;
    Ok((answer,))
}

fn in_place<'a>(store: &'a StoreContextMut<'_, GuestState>, texts: &[WasmStr]) -> Result<Vec<Cow<'a, str>>> {
    texts.iter().map(|text| text.to_str(store)).collect()
}

fn is_key(key: &Key, namespace: &str, name: &str) -> bool {
    key.name() == name && key.namespace() == namespace
}

fn get(
    mut store: StoreContextMut<'_, GuestState>,
    (watch, key): (WasmStr, WasmKey),
) -> Result<(Option<Handle>,)> {
    let object = {
        let (watch, namespace, name) =
            (watch.to_str(&store)?, key.namespace.to_str(&store)?, key.name.to_str(&store)?);
        let state = store.data();
        state.allow("cache.get")?;
        // Mostly the object that is to be reconciled.
        match &state.call {
            Call::Reconcile(request) if is_key(&request.key, &namespace, &name) => {
                state.host.cache_get(&state.call, &watch, &request.key)
            }
            call => state.host.cache_get(call, &watch, &Key::new(&namespace, &name)),
        }
        .map_err(Stop::from)?
    };
    let Some(object) = object else { return Ok((None,)) };
    // While the guest goes on, the processor loads what it will most likely ask for.
    object.fetch_parts();
    Ok((Some(store.data_mut().open(object)?),))
}

fn field(
    store: &StoreContextMut<'_, GuestState>,
    object: &Handle,
    pointer: &WasmStr,
) -> Result<Option<String>> {
    let pointer = pointer.to_str(store)?;
    check_pointer("object.field", &pointer)?;
    let state = store.data();
    let text = state.handles.get(object)?.field(&pointer);
    text.map(|text| state.carried(text)).transpose()
}

fn text(
    store: &StoreContextMut<'_, GuestState>,
    object: &Handle,
    pointer: &WasmStr,
) -> Result<Option<String>> {
    let pointer = pointer.to_str(store)?;
    check_pointer("object.text", &pointer)?;
    let state = store.data();
    let text = state.handles.get(object)?.text(&pointer);
    text.map(|text| state.carried(&text)).transpose()
}

#[cfg(test)]
mod tests {
    use wasmtime::component::HasSelf;
    use wasmtime::{Config, Engine};

    use super::*;
    use crate::bindings;

    #[test]
    fn each_takes_the_place_of_one_that_is_generated() {
        let engine = Engine::new(Config::new().wasm_component_model(true)).expect("an engine");
        let mut linker = Linker::new(&engine);
        bindings::Controller::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)
            .expect("the contract");
        for (interface, name) in
            [(CACHE, GET), (OBJECTS, FIELD), (OBJECTS, TEXT), (OBJECTS, FIELDS), (OBJECTS, TEXTS)]
        {
            let mut interface = linker.instance(interface).expect("an interface");
            let again = interface.func_wrap(name, |_: StoreContextMut<'_, GuestState>, ()| Ok(()));
            assert!(again.is_err(), "{name} is there");
        }
        add_to_linker(&mut linker).expect("one for each");
    }
}
