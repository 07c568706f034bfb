//! A plugin's compiled code.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::component::InstancePre;

use crate::bindings::exports::pilothouse::controller as exports;
use crate::compile::{self, Source};
use crate::engine::Engine;
use crate::sandbox::GuestState;
use crate::{DescribeError, Fault, Host, Instance, Limits, LoadError};

/// A plugin's code: checked, compiled and linked, ready to instantiate. Cheap to clone.
#[derive(Clone)]
pub struct Code {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) facts: Facts,
    /// The file that the code is mapped from; without one it can't sleep.
    pub(crate) source: Option<Source>,
    pub(crate) state: Mutex<State>,
}

/// Whether the code is mapped. What wasmtime keeps of mapped code (its types, its functions' places) is far more than all else that an idle
/// plugin costs.
pub(crate) struct State {
    /// `None` while asleep.
    pub(crate) linked: Option<Arc<Linked>>,
    /// When it was last asked for.
    pub(crate) used: Instant,
}

/// Mapped code, ready to instantiate. Instances hold it, too.
pub(crate) struct Linked {
    pub(crate) instances: InstancePre<GuestState>,
    pub(crate) indices: Indices,
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
    pub(crate) exports: Exports,
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
        self.inner.facts.exports
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

impl Code {
    /// The mapped code; if it sleeps, it is mapped and linked again, on a thread for blocking work, which takes a few milliseconds.
    ///
    /// Cancel safe.
    pub(crate) async fn awake(&self) -> Result<Arc<Linked>, LoadError> {
        {
            let mut state = self.inner.state.lock();
            state.used = Instant::now();
            if let Some(linked) = &state.linked {
                return Ok(Arc::clone(linked));
            }
        }
        let code = self.clone();
        compile::blocking(move || {
            let Inner { engine, source, state, .. } = &*code.inner;
            let source =
                source.as_ref().ok_or_else(|| LoadError::Internal("code without a file slept".to_owned()))?;
            let linked = source.link(engine)?;
            // Two who wake it at the same time both map it; the first one's is kept.
            Ok(Arc::clone(state.lock().linked.get_or_insert(linked)))
        })
        .await
    }

    /// Lets go of the mapped code if nobody has asked for it for this long and no instance runs it; says whether it did. It wakes by itself.
    pub(crate) fn sleep(&self, idle_for: Duration) -> bool {
        let asleep = {
            let mut state = self.inner.state.lock();
            let is_idle = Instant::now().saturating_duration_since(state.used) >= idle_for;
            let is_unused = state.linked.as_ref().is_some_and(|linked| Arc::strong_count(linked) == 1);
            if is_idle && is_unused && self.inner.source.is_some() { state.linked.take() } else { None }
        };
        // Unmapped here, outside of the lock.
        asleep.is_some()
    }

    /// Whether the code is mapped; for tests and benchmarks.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.inner.state.lock().linked.is_some()
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
