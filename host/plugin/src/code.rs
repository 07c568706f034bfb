//! A plugin's compiled code.

use std::fmt;
use std::sync::Arc;

use wasmtime::component::InstancePre;

use crate::artifact::InUse;
use crate::bindings::exports::pilothouse::controller as exports;
use crate::engine::Engine;
use crate::sandbox::GuestState;
use crate::{DescribeError, Fault, Host, Instance, Limits};

/// A plugin's code: checked, compiled and linked, ready to instantiate. Cheap to clone.
#[derive(Clone)]
pub struct Code {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) linked: InstancePre<GuestState>,
    pub(crate) indices: Indices,
    pub(crate) facts: Facts,
    /// Keeps the file that the code is mapped from where it is.
    pub(crate) _in_use: Option<InUse>,
}

/// Where the exports are.
pub(crate) struct Indices {
    pub(crate) plugin: exports::plugin::GuestIndices,
    pub(crate) reconcile: Option<exports::reconcile::GuestIndices>,
    pub(crate) observe: Option<exports::observe::GuestIndices>,
    pub(crate) index: Option<exports::index::GuestIndices>,
}

/// What is known of a file without running it.
pub(crate) struct Facts {
    pub(crate) digest: String,
    pub(crate) size: usize,
    pub(crate) form: Form,
    pub(crate) package_version: String,
    pub(crate) imports: Vec<String>,
}

/// What a plugin's file was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A component.
    Component,
    /// A core module, made into a component by the loader.
    CoreModule,
}

/// Which optional interfaces a plugin exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exports {
    /// `reconcile`.
    pub reconcile: bool,
    /// `observe`.
    pub observe: bool,
    /// `index`.
    pub index: bool,
}

impl Code {
    /// The SHA-256 of the file, in hex.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.inner.facts.digest
    }

    /// The file's size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.inner.facts.size
    }

    /// What the file was.
    #[must_use]
    pub fn form(&self) -> Form {
        self.inner.facts.form
    }

    /// What the plugin can be called for.
    #[must_use]
    pub fn exports(&self) -> Exports {
        let Indices { reconcile, observe, index, .. } = &self.inner.indices;
        Exports { reconcile: reconcile.is_some(), observe: observe.is_some(), index: index.is_some() }
    }

    /// The interfaces that the plugin imports, as `namespace:package/interface@version`.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.inner.facts.imports
    }

    /// The version of `pilothouse:controller` that the plugin was built for.
    #[must_use]
    pub fn package_version(&self) -> &str {
        &self.inner.facts.package_version
    }

    /// Makes an instance, running the module's start code if it has any.
    ///
    /// Cancel safe: dropping the future discards the instance.
    pub async fn instantiate(&self, host: Arc<dyn Host>, limits: &Limits) -> Result<Instance, Fault> {
        Instance::new(self, host, limits).await
    }

    /// Asks the plugin for its descriptor, on an instance of its own, with the [configuration](Host::config) that the host has.
    ///
    /// Cancel safe: dropping the future discards the instance.
    pub async fn describe(&self, host: Arc<dyn Host>, limits: &Limits) -> Result<String, DescribeError> {
        self.instantiate(Arc::clone(&host), limits).await?.describe(host.config()).await
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Code")
            .field("digest", &self.digest())
            .field("size", &self.size())
            .field("form", &self.form())
            .field("exports", &self.exports())
            .finish_non_exhaustive()
    }
}
