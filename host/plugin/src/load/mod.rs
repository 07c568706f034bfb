//! From the bytes of a file to compiled code.
//!
//! `recognise` says what the bytes are, `inspect` what a module or component imports and exports, `encode` makes a core module into a
//! component. [`compile`](crate::compile) has the result compiled, and this file links it.

mod encode;
mod error;
mod inspect;
mod missing;
mod recognise;
mod wasi;

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentNamedList, InstancePre, Lift, Lower};

pub(crate) use encode::ADAPTER;
pub use error::LoadError;
pub(crate) use error::one_line;

use crate::artifact::Key;
use crate::bindings::exports::pilothouse::controller as exports;
use crate::bindings::pilothouse::controller::types;
use crate::code::{Code, Exports, Facts, Form, Indices, Inner, Linked, State};
use crate::compile::Source;
use crate::engine::Engine;
use crate::sandbox::{BatchHandle, GuestState, ObjectHandle};
pub(crate) use inspect::Interface;
use recognise::Kind;

/// The package that plugins are written against.
pub(crate) const PACKAGE: &str = "pilothouse:controller";
/// The version of it that this host serves.
pub(crate) const PACKAGE_VERSION: &str = "0.1.0";

/// A file that was checked and not yet compiled.
pub(crate) struct Prepared<'a> {
    /// The file, or the component that was made of it.
    pub(crate) component: Cow<'a, [u8]>,
    pub(crate) stated: Stated,
}

/// What the file says of itself, apart from its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stated {
    pub(crate) form: Form,
    pub(crate) package_version: String,
    /// The contract's interfaces that it exports.
    pub(crate) interfaces: Vec<Interface>,
}

/// Checks a file and makes it a component. Blocks for as long as that takes.
pub(crate) fn prepare(limit: usize, bytes: &[u8]) -> Result<Prepared<'_>, LoadError> {
    if bytes.len() > limit {
        return Err(LoadError::TooLarge { size: bytes.len(), limit });
    }
    let kind = recognise::recognise(bytes)?;
    let shape = inspect::inspect(bytes)?;
    inspect::check(&shape)?;
    let (form, component) = match kind {
        Kind::Component => (Form::Component, Cow::Borrowed(bytes)),
        Kind::CoreModule => {
            let functions = shape.functions.iter().map(|(module, name)| (module.as_str(), name.as_str()));
            missing::missing_functions(functions)?;
            (Form::CoreModule, Cow::Owned(encode::encode(bytes, &shape)?))
        }
    };
    let stated = Stated {
        form,
        package_version: shape.package_version().to_owned(),
        interfaces: Interface::ALL.into_iter().filter(|interface| shape.exports(*interface)).collect(),
    };
    Ok(Prepared { component, stated })
}

/// Links compiled code. Blocks for as long as that takes, which is not long.
pub(crate) fn link(engine: &Engine, component: &Component, stated: &Stated) -> Result<Linked, LoadError> {
    let instances = engine.shared.linker.instantiate_pre(component).map_err(|error| {
        let imported = imported_functions(component);
        let missing = missing::missing_functions(imported.iter().map(|(i, f)| (i.as_str(), f.as_str())));
        missing.err().unwrap_or_else(|| LoadError::link(&error))
    })?;
    let indices = Indices::find(&instances, stated)?;
    Ok(Linked { instances, indices })
}

/// A plugin's code from what was linked, and the file that it can be linked from again.
pub(crate) fn code(
    engine: &Engine,
    linked: Linked,
    stated: &Stated,
    key: &Key,
    size: usize,
    source: Option<Source>,
) -> Code {
    let exports = |interface| stated.interfaces.contains(&interface);
    let component = linked.instances.component().component_type();
    let facts = Facts {
        digest: key.plugin.to_string(),
        size,
        form: stated.form,
        package_version: stated.package_version.clone(),
        imports: component.imports(&engine.shared.wasm).map(|(name, _)| name.to_owned()).collect(),
        exports: Exports {
            reconcile: exports(Interface::Reconcile),
            observe: exports(Interface::Observe),
            index: exports(Interface::Index),
        },
    };
    let state = Mutex::new(State { linked: Some(Arc::new(linked)), used: Instant::now() });
    Code { inner: Arc::new(Inner { engine: engine.clone(), facts, source, state }) }
}

/// Interface and name of everything that a component imports from an interface.
fn imported_functions(component: &Component) -> Vec<(String, String)> {
    let engine = component.engine();
    let component_type = component.component_type();
    let imports = component_type.imports(engine).filter_map(|(interface, item)| match item.ty {
        ComponentItem::ComponentInstance(instance) => Some((interface, instance)),
        _ => None,
    });
    imports
        .flat_map(|(interface, instance)| {
            let names = instance.exports(engine).map(|(name, _)| (interface.to_owned(), name.to_owned()));
            names.collect::<Vec<_>>()
        })
        .collect()
}

impl Indices {
    /// Finds the exports and checks their types, so that a plugin with the right names and the wrong types is refused here and not at its
    /// first call.
    fn find(linked: &InstancePre<GuestState>, stated: &Stated) -> Result<Self, LoadError> {
        type Resource<T> = wasmtime::component::Resource<T>;
        type Answer<T> = (Result<T, types::Failure>,);
        let wrong = |error: wasmtime::Error| LoadError::link(&error);
        let optional = |interface: Interface| stated.interfaces.contains(&interface).then_some(());
        let check = Typecheck { linked };

        let plugin = exports::plugin::GuestIndices::new(linked).map_err(wrong)?;
        check.function::<(&str,), (Result<String, String>,)>(Interface::Plugin, "describe")?;
        let reconcile = optional(Interface::Reconcile)
            .map(|()| {
                check.function::<(&types::Request,), Answer<types::Outcome>>(
                    Interface::Reconcile,
                    "reconcile",
                )?;
                exports::reconcile::GuestIndices::new(linked).map_err(wrong)
            })
            .transpose()?;
        let observe = optional(Interface::Observe)
            .map(|()| {
                check.function::<(&[exports::observe::Notification], Resource<BatchHandle>), Answer<()>>(
                    Interface::Observe,
                    "observe",
                )?;
                exports::observe::GuestIndices::new(linked).map_err(wrong)
            })
            .transpose()?;
        let index = optional(Interface::Index)
            .map(|()| {
                check
                    .function::<(&str, Resource<ObjectHandle>), (Vec<String>,)>(Interface::Index, "values")?;
                exports::index::GuestIndices::new(linked).map_err(wrong)
            })
            .transpose()?;
        Ok(Self { plugin, reconcile, observe, index })
    }
}

struct Typecheck<'a> {
    linked: &'a InstancePre<GuestState>,
}

impl Typecheck<'_> {
    fn function<Params, Return>(&self, interface: Interface, name: &str) -> Result<(), LoadError>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift,
    {
        let wrong = |message: String| LoadError::WrongType {
            function: format!("{}#{name}", interface.export_name()),
            message: one_line(&message),
        };
        let component = self.linked.component();
        let instance = component.get_export_index(None, interface.export_name());
        let item = instance.and_then(|instance| component.get_export(Some(&instance), name));
        match item {
            Some((ComponentItem::ComponentFunc(function), _)) => function
                .typecheck::<Params, Return>(&self.linked.instance_type())
                .map_err(|error| wrong(format!("{error:#}"))),
            Some(_) => Err(wrong("it is no function".to_owned())),
            None => Err(wrong("it is missing".to_owned())),
        }
    }
}
