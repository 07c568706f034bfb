//! A plugin's compiled code, and what is known of the plugin without running it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::component::InstancePre;

use crate::bindings::exports::pilothouse::controller as exports;
use crate::compile::{self, CodeSource};
use crate::engine::Engine;
use crate::sandbox::GuestState;
use crate::{DescribeError, Fault, Host, Instance, InstanceLimits, LoadError};

/// A plugin that was checked, compiled and linked, and can be instantiated. Cheap to clone.
///
/// Code that comes from a file is unmapped while the plugin is idle (see [`InstancePool::drop_idle`](crate::InstancePool::drop_idle)), and
/// mapped again when it is instantiated.
#[derive(Clone)]
pub struct CompiledPlugin {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) metadata: Metadata,
    /// The file that the code is mapped from. Code without a file stays mapped.
    pub(crate) source: Option<CodeSource>,
    pub(crate) state: Mutex<State>,
}

/// Whether the code is mapped. What wasmtime keeps of mapped code (its types, the addresses of its functions) takes far more memory than
/// everything else of an idle plugin.
pub(crate) struct State {
    /// `None` while unmapped.
    pub(crate) linked: Option<Arc<LinkedCode>>,
    /// When the code was last requested.
    pub(crate) last_used: Instant,
}

/// Mapped and linked code. Each instance holds it, too.
pub(crate) struct LinkedCode {
    pub(crate) instances: InstancePre<GuestState>,
    pub(crate) indices: Indices,
}

/// Keeps the code of a plugin mapped. Cheap to clone.
#[derive(Clone)]
pub struct MappedCode {
    _linked: Arc<LinkedCode>,
}

impl fmt::Debug for MappedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedCode").finish_non_exhaustive()
    }
}

/// The indices of the exports.
pub(crate) struct Indices {
    pub(crate) plugin: exports::plugin::GuestIndices,
    pub(crate) reconcile: Option<exports::reconcile::GuestIndices>,
    pub(crate) observe: Option<exports::observe::GuestIndices>,
    pub(crate) index: Option<exports::index::GuestIndices>,
}

/// What is known of a plugin's file without running it.
pub(crate) struct Metadata {
    /// SHA-256 in hex.
    pub(crate) digest: String,
    pub(crate) size: usize,
    pub(crate) form: Form,
    pub(crate) package_version: String,
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Exports,
    /// How long compiling took; `None` for code from the cache.
    pub(crate) compile_time: Option<Duration>,
    pub(crate) warnings: Vec<String>,
}

/// The form of a plugin's file.
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

impl CompiledPlugin {
    /// Returns the SHA-256 of the file, in hex.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.inner.metadata.digest
    }

    /// Returns the size of the file, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.inner.metadata.size
    }

    /// Returns how long compiling the plugin took, with linking and the wait for other large plugins. `None` if the code was in the cache.
    #[must_use]
    pub fn compile_time(&self) -> Option<Duration> {
        self.inner.metadata.compile_time
    }

    /// Records how long compiling took. To be called before the plugin is cloned.
    pub(crate) fn with_compile_time(mut self, time: Duration) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.metadata.compile_time = Some(time);
        }
        self
    }

    /// Returns whether the file was a component or a core module.
    #[must_use]
    pub fn form(&self) -> Form {
        self.inner.metadata.form
    }

    /// Returns which optional interfaces the plugin exports.
    #[must_use]
    pub fn exports(&self) -> Exports {
        self.inner.metadata.exports
    }

    /// Returns the interfaces that the plugin imports, as `namespace:package/interface@version`.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.inner.metadata.imports
    }

    /// Returns what is allowed in the file but probably a mistake, such as a misspelt export; one line each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.inner.metadata.warnings
    }

    /// Returns the version of `pilothouse:controller` that the plugin was built for.
    #[must_use]
    pub fn package_version(&self) -> &str {
        &self.inner.metadata.package_version
    }

    /// Creates an instance, and runs the module's start code if it has any.
    ///
    /// Cancel safe: dropping the future discards the instance.
    pub async fn instantiate(&self, host: Arc<dyn Host>, limits: &InstanceLimits) -> Result<Instance, Fault> {
        Instance::new(self, host, limits).await
    }

    /// Asks the plugin for its descriptor, on a new instance, with the [configuration](Host::config) of the host.
    ///
    /// Cancel safe: dropping the future discards the instance.
    pub async fn describe(
        &self,
        host: Arc<dyn Host>,
        limits: &InstanceLimits,
    ) -> Result<String, DescribeError> {
        self.instantiate(Arc::clone(&host), limits).await?.describe(host.config()).await
    }
}

impl CompiledPlugin {
    /// Maps the code, if it is not mapped. It stays mapped while the result exists, however long the plugin is idle: for simulations, in which hours
    /// pass in milliseconds.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// Errors if the file cannot be mapped.
    pub async fn keep_mapped(&self) -> Result<MappedCode, LoadError> {
        self.map().await.map(|linked| MappedCode { _linked: linked })
    }

    /// Returns the mapped code. Maps and links it again if it was unmapped, on a thread for blocking work; this takes a few milliseconds.
    ///
    /// Cancel safe.
    pub(crate) async fn map(&self) -> Result<Arc<LinkedCode>, LoadError> {
        {
            let mut state = self.inner.state.lock();
            state.last_used = Instant::now();
            if let Some(linked) = &state.linked {
                return Ok(Arc::clone(linked));
            }
        }
        let code = self.clone();
        compile::blocking(move || {
            let Inner { engine, source, state, .. } = &*code.inner;
            let source = source
                .as_ref()
                .ok_or_else(|| LoadError::Internal("code without a file was unmapped".to_owned()))?;
            let linked = source.link(engine)?;
            // Two tasks may map the code at the same time; the first result is kept.
            Ok(Arc::clone(state.lock().linked.get_or_insert(linked)))
        })
        .await
    }

    /// Unmaps the code if it was not requested for this long and no instance runs it. Returns whether it was unmapped.
    pub(crate) fn unmap_if_idle(&self, idle_for: Duration) -> bool {
        let unmapped = {
            let mut state = self.inner.state.lock();
            let is_idle = Instant::now().saturating_duration_since(state.last_used) >= idle_for;
            let is_unused = state.linked.as_ref().is_some_and(|linked| Arc::strong_count(linked) == 1);
            if is_idle && is_unused && self.inner.source.is_some() { state.linked.take() } else { None }
        };
        // The code is unmapped when this is dropped, after the lock was released.
        unmapped.is_some()
    }

    /// Returns whether the code is mapped. For tests and benchmarks.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.inner.state.lock().linked.is_some()
    }
}

impl fmt::Debug for CompiledPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledPlugin")
            .field("digest", &self.digest())
            .field("size", &self.size())
            .field("form", &self.form())
            .field("exports", &self.exports())
            .finish_non_exhaustive()
    }
}
