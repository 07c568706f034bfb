//! The same guest on bare wasmtime: hand-written imports, without limits, without a queue, and without other users of the objects.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use pilothouse_bench::pod;
use pilothouse_model::{Object, ParseOptions};
use wasmtime::component::{
    Component, ComponentType, Instance, Lift, Linker, Lower, Resource, ResourceTable, ResourceType, TypedFunc,
};
use wasmtime::{Engine, Result, Store, StoreContextMut, format_err};
use wit_component::ComponentEncoder;

use crate::pods::command_object;

#[derive(Clone, ComponentType, Lift, Lower, PartialEq, Eq, Hash)]
#[component(record)]
struct Key {
    namespace: String,
    name: String,
}

#[derive(Clone, ComponentType, Lift, Lower)]
#[component(record)]
struct Pair {
    key: String,
    value: String,
}

#[derive(Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code, reason = "the WIT enum has these cases")]
enum Reason {
    #[component(name = "created")]
    Created,
    #[component(name = "updated")]
    Updated,
    #[component(name = "deleted")]
    Deleted,
    #[component(name = "resync")]
    Resync,
    #[component(name = "requeue")]
    Requeue,
    #[component(name = "retry")]
    Retry,
    #[component(name = "startup")]
    Startup,
    #[component(name = "other")]
    Other,
}

#[derive(Clone, ComponentType, Lift, Lower)]
#[component(record)]
struct Request {
    watch: String,
    key: Key,
    reasons: Vec<Reason>,
    attempt: u32,
    extra: Vec<Pair>,
}

#[derive(Clone, Copy, ComponentType, Lift, Lower)]
#[component(variant)]
enum Outcome {
    #[component(name = "done")]
    Done,
    #[component(name = "requeue-after")]
    RequeueAfter(u32),
}

#[derive(Clone, ComponentType, Lift, Lower)]
#[component(variant)]
enum Failure {
    #[component(name = "retry")]
    Retry(String),
    #[component(name = "terminal")]
    Terminal(String),
}

#[derive(Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code, reason = "the WIT enum has these cases")]
enum Level {
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

type Objects = Arc<RwLock<HashMap<Key, Object>>>;

struct State {
    objects: Objects,
    handles: ResourceTable,
    last_log: Option<String>,
}

type Reconcile = TypedFunc<(Request,), (std::result::Result<Outcome, Failure>,)>;

/// An instance of the guest.
pub(crate) struct Bare {
    store: Store<State>,
    reconcile: Reconcile,
}

impl Bare {
    /// Creates an instance with a cache of `objects` Pods.
    pub(crate) fn new(module: &[u8], objects: usize) -> Result<Self> {
        let engine = Engine::default();
        let encoded = ComponentEncoder::default().module(module).and_then(|mut encoder| encoder.encode());
        let component = encoded.map_err(|error| format_err!("{error:#}"))?;
        let component = Component::new(&engine, component)?;
        let mut linker = Linker::new(&engine);
        imports(&mut linker)?;
        linker.define_unknown_imports_as_traps(&component)?;
        let objects = (0..objects).map(|number| pod(number, 1)).map(|pod| (key(&pod), pod)).collect();
        let objects = Arc::new(RwLock::new(objects));
        let state = State { objects, handles: ResourceTable::new(), last_log: None };
        let mut store = Store::new(&engine, state);
        let instance = linker.instantiate(&mut store, &component)?;
        let reconcile = export(&mut store, &instance)?;
        Ok(Self { store, reconcile })
    }

    /// Reconciles each of the first `objects` Pods once.
    pub(crate) fn reconcile_all(&mut self, watch: &str, objects: usize) -> Result<()> {
        for number in 0..objects {
            let name = format!("web-{number}");
            self.reconcile(watch, Key { namespace: format!("team-{}", number % 20), name })?;
        }
        Ok(())
    }

    /// Makes the guest read `times` objects in one reconcile.
    pub(crate) fn read(&mut self, times: usize) -> Result<()> {
        let json = command_object("read", 0, 1, times);
        let object = Object::parse(json.as_bytes(), &ParseOptions::default())?;
        let key = key(&object);
        self.store.data().objects.write().insert(key.clone(), object);
        self.reconcile("pods", key)?;
        let line = self.store.data_mut().last_log.take().unwrap_or_default();
        if line == format!("read {times}") {
            Ok(())
        } else {
            Err(format_err!("after {times} reads, the guest logged {line:?}"))
        }
    }

    fn reconcile(&mut self, watch: &str, key: Key) -> Result<()> {
        let reasons = vec![Reason::Updated];
        let request = Request { watch: watch.to_owned(), key, reasons, attempt: 0, extra: Vec::new() };
        let (answer,) = self.reconcile.call(&mut self.store, (request,))?;
        match answer {
            Ok(Outcome::Done) => Ok(()),
            Ok(Outcome::RequeueAfter(delay)) => Err(format_err!("requeued after {delay} ms")),
            Err(Failure::Retry(text) | Failure::Terminal(text)) => Err(format_err!("{text}")),
        }
    }
}

fn key(object: &Object) -> Key {
    Key { namespace: object.namespace().to_owned(), name: object.name().to_owned() }
}

fn export(store: &mut Store<State>, instance: &Instance) -> Result<Reconcile> {
    let missing = || format_err!("the guest has no reconcile");
    let interface = instance.get_export_index(&mut *store, None, "pilothouse:controller/reconcile@0.1.1");
    let interface = interface.ok_or_else(missing)?;
    let function =
        instance.get_export_index(&mut *store, Some(&interface), "reconcile").ok_or_else(missing)?;
    instance.get_typed_func(&mut *store, function)
}

fn imports(linker: &mut Linker<State>) -> Result<()> {
    // Each interface that uses the resource imports it under its own name.
    for interface in ["cache", "changes", "client", "events", "objects"] {
        let mut interface = linker.instance(&format!("pilothouse:controller/{interface}@0.1.1"))?;
        interface.resource("object", ResourceType::host::<Object>(), |mut store, handle| {
            store.data_mut().handles.delete(Resource::<Object>::new_own(handle))?;
            Ok(())
        })?;
    }
    let mut objects = linker.instance("pilothouse:controller/objects@0.1.1")?;
    type Read = (Resource<Object>, String);
    objects.func_wrap("[method]object.text", |store: StoreContextMut<'_, State>, (of, pointer): Read| {
        Ok((store.data().handles.get(&of)?.text(&pointer).map(std::borrow::Cow::into_owned),))
    })?;
    type ReadAll = (Resource<Object>, Vec<String>);
    objects.func_wrap("[method]object.texts", |store: StoreContextMut<'_, State>, (of, all): ReadAll| {
        let object = store.data().handles.get(&of)?;
        let texts = all.iter().map(|pointer| object.text(pointer).map(std::borrow::Cow::into_owned));
        Ok((texts.collect::<Vec<_>>(),))
    })?;
    objects.func_wrap(
        "[method]object.annotation",
        |store: StoreContextMut<'_, State>, (of, name): Read| {
            Ok((store.data().handles.get(&of)?.annotation(&name).map(std::borrow::Cow::into_owned),))
        },
    )?;
    let mut cache = linker.instance("pilothouse:controller/cache@0.1.1")?;
    cache.func_wrap("get", |mut store: StoreContextMut<'_, State>, (_, key): (String, Key)| {
        let object = store.data().objects.read().get(&key).cloned();
        Ok((object.map(|object| store.data_mut().handles.push(object)).transpose()?,))
    })?;
    let mut log = linker.instance("pilothouse:controller/log@0.1.1")?;
    log.func_wrap("log", |mut store: StoreContextMut<'_, State>, (_, text, _): (Level, String, Vec<Pair>)| {
        store.data_mut().last_log = Some(text);
        Ok(())
    })
}
