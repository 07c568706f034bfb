//! From the bytes of a file to a component that can be compiled, and from compiled to linked code.
//!
//! [`detect`] recognises the format of the file, [`inspect`] reads what it imports and exports, [`aliases`] replaces identifiers that stand
//! for names of the contract, and [`encode`] turns a core module into a component. [`compile`](crate::compile) compiles the result, and this
//! file links it.
//!
//! [`features`], [`import_check`], [`export_check`] and [`missing_functions`] refuse what the host cannot run, with a remedy. [`similar`] finds
//! the name that a misspelt one was meant to be.

mod aliases;
mod detect;
mod encode;
mod error;
mod export_check;
mod features;
mod import_check;
mod inspect;
mod missing_functions;
mod similar;
mod start_section;
mod wasi;

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentNamedList, InstancePre, Lift, Lower};

pub(crate) use encode::{ADAPTER, parse_contract};
pub use error::LoadError;
use error::name_text;
pub(crate) use error::one_line;
pub use similar::most_similar;

use crate::artifact::ArtifactKey;
use crate::bindings::exports::pilothouse::controller as exports;
use crate::bindings::pilothouse::controller::types;
use crate::compile::CodeSource;
use crate::compiled_plugin::{CompiledPlugin, Exports, Form, Indices, Inner, LinkedCode, Metadata, State};
use crate::engine::Engine;
use crate::sandbox::{BatchHandle, GuestState, ObjectHandle};
pub(crate) use inspect::Interface;

/// A file that was checked and not yet compiled.
pub(crate) struct PreparedComponent<'a> {
    /// The file, or the component that it was encoded to.
    pub(crate) component: Cow<'a, [u8]>,
    pub(crate) info: ModuleInfo,
}

/// What is read from the file apart from its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleInfo {
    pub(crate) form: Form,
    pub(crate) package_version: String,
    /// The interfaces of the contract that the file exports.
    pub(crate) interfaces: Vec<Interface>,
    /// What is allowed but probably a mistake, one line each.
    pub(crate) warnings: Vec<String>,
}

/// Checks a file and encodes it to a component if it is a core module. Blocks.
pub(crate) fn prepare(limit: usize, bytes: &[u8]) -> Result<PreparedComponent<'_>, LoadError> {
    if bytes.len() > limit {
        return Err(LoadError::TooLarge { size: bytes.len(), limit });
    }
    let form = detect::detect_form(bytes)?;
    let mut summary = inspect::inspect(bytes)?;
    let renamed = match form {
        Form::CoreModule => aliases::resolve(bytes, &summary)?,
        Form::Component => None,
    };
    if let Some(module) = &renamed {
        summary = inspect::inspect(module)?;
    }
    inspect::check(&summary)?;
    let component = match form {
        Form::Component => Cow::Borrowed(bytes),
        Form::CoreModule => {
            let functions = summary.functions.iter().map(|(module, name)| (module.as_str(), name.as_str()));
            missing_functions::check_functions(functions)?;
            let module = start_section::run_as_initialize(renamed.as_deref().unwrap_or(bytes));
            Cow::Owned(encode::encode(&module, &summary)?)
        }
    };
    let info = ModuleInfo {
        form,
        package_version: summary.package_version().to_owned(),
        interfaces: Interface::ALL.into_iter().filter(|interface| summary.exports(*interface)).collect(),
        warnings: export_check::warnings(&summary),
    };
    Ok(PreparedComponent { component, info })
}

/// Links compiled code and checks the types of its exports. Blocks, for a few milliseconds at most.
pub(crate) fn link(
    engine: &Engine,
    component: &Component,
    info: &ModuleInfo,
) -> Result<LinkedCode, LoadError> {
    let instances = engine.shared.linker.instantiate_pre(component).map_err(|error| {
        let imported = imported_functions(component);
        let functions = imported.iter().map(|(interface, name)| (interface.as_str(), name.as_str()));
        let missing = missing_functions::check_functions(functions);
        missing.err().unwrap_or_else(|| LoadError::link(&error))
    })?;
    let indices = Indices::find(&instances, info)?;
    Ok(LinkedCode { instances, indices })
}

/// Creates a plugin from linked code and, if there is one, the file that it can be mapped from again.
pub(crate) fn compiled_plugin(
    engine: &Engine,
    linked: LinkedCode,
    info: &ModuleInfo,
    key: &ArtifactKey,
    size: usize,
    source: Option<CodeSource>,
) -> CompiledPlugin {
    let is_exported = |interface| info.interfaces.contains(&interface);
    let component = linked.instances.component().component_type();
    let metadata = Metadata {
        digest: key.plugin.to_string(),
        size,
        form: info.form,
        package_version: info.package_version.clone(),
        imports: component.imports(&engine.shared.wasmtime).map(|(name, _)| name.to_owned()).collect(),
        exports: Exports {
            reconcile: is_exported(Interface::Reconcile),
            observe: is_exported(Interface::Observe),
            index: is_exported(Interface::Index),
        },
        compile_time: None,
        warnings: info.warnings.clone(),
    };
    let state = Mutex::new(State { linked: Some(Arc::new(linked)), last_used: Instant::now() });
    CompiledPlugin { inner: Arc::new(Inner { engine: engine.clone(), metadata, source, state }) }
}

/// Returns interface and name of everything that a component imports from an interface.
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
    /// Finds the exports and checks their types, so that a plugin with the right names and the wrong types is refused at load and not at
    /// its first call.
    fn find(linked: &InstancePre<GuestState>, info: &ModuleInfo) -> Result<Self, LoadError> {
        type Resource<T> = wasmtime::component::Resource<T>;
        type Answer<T> = (Result<T, types::Failure>,);
        let wrong = |error: wasmtime::Error| LoadError::link(&error);
        let optional = |interface: Interface| info.interfaces.contains(&interface).then_some(());
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
            Some(_) => Err(wrong("it is not a function".to_owned())),
            None => Err(wrong("it is missing".to_owned())),
        }
    }
}
