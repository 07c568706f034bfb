//! The state behind one instance: the handles that it holds, how much of its limits it has used, and the reasons to stop it.

mod console;
mod cpu;
mod handles;
mod http;
mod memory;
mod wasi;
mod wasi_resources;

use std::sync::Arc;

use pilothouse_model::Object;
use pilothouse_model::hash::HashSet;
use thiserror::Error;
use wasmtime::Store;
use wasmtime::component::Resource;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

pub(crate) use console::SharedConsole;
pub(crate) use cpu::CpuMeter;
pub(crate) use handles::Handles;
#[allow(unreachable_pub, reason = "the generated bindings re-export them")]
pub use handles::{BatchHandle, ObjectHandle};
pub(crate) use http::replace_in_linker as bound_http_messages;
pub(crate) use memory::MemoryLimiter;
pub(crate) use wasi_resources::WasiResources;

use crate::engine::Shared;
use crate::{Call, Host, HostMemoryExceeded, InstanceLimits, Misuse};

/// Why the host stops a guest. Wasmtime passes it through as the error of a trap.
#[derive(Clone, Debug, Error)]
pub(crate) enum StopReason {
    #[error("{0}")]
    Misuse(#[from] Misuse),
    #[error("used up its CPU time")]
    CpuTime,
    #[error("memory of {wanted} bytes wanted, {allowed} allowed")]
    Memory { allowed: usize, wanted: usize },
    #[error("tables of {wanted} elements wanted, {allowed} allowed")]
    TableElements { allowed: usize, wanted: usize },
    #[error("more than {allowed} handles")]
    Handles { allowed: u32 },
    #[error("a result of more than {allowed} bytes")]
    MessageSize { allowed: usize },
    #[error("{0}")]
    HostMemory(#[from] HostMemoryExceeded),
}

/// The data of an instance's store.
pub(crate) struct GuestState {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) call: Call,
    pub(crate) handles: Handles,
    pub(crate) memory: MemoryLimiter,
    pub(crate) cpu: CpuMeter,
    pub(crate) console: SharedConsole,
    /// The import in which the guest waits, for the message of a timeout.
    pub(crate) waiting_in: Option<&'static str>,
    /// The stack that the guest may use in one call, in bytes. The engine enforces it.
    pub(crate) stack: usize,
    /// `limits.messageSize`: bytes that one call may carry. The engine enforces the same limit on what the guest sends.
    pub(crate) message_size: usize,
    /// `limits.objectSize`: bytes of a manifest that the guest sends.
    pub(crate) object_size: usize,
    /// Names of invalid metrics that a warning was logged for already.
    pub(crate) refused_metrics: HashSet<String>,
    pub(crate) http: http::Http,
    pub(crate) wasi_resources: WasiResources,
    wasi: WasiCtx,
}

impl GuestState {
    /// Creates an empty store with all limits set, ready for an instance.
    pub(crate) fn store(
        engine: &Shared,
        cpu: CpuMeter,
        host: Arc<dyn Host>,
        limits: &InstanceLimits,
    ) -> Store<Self> {
        let console = console::Console::shared(host.clone(), limits.log_line_size);
        let state = Self {
            wasi: wasi::context(&host, &console, limits),
            http: http::Http::new(host.clone(), console.clone(), limits),
            handles: Handles::new(limits.handles, &host.host_memory()),
            wasi_resources: WasiResources::new(limits.handles, &host.host_memory()),
            host,
            call: Call::Instantiate,
            memory: MemoryLimiter::new(limits),
            cpu,
            console,
            waiting_in: None,
            stack: engine.options.compiler.guest_stack(),
            message_size: limits.message_size,
            object_size: limits.object_size,
            refused_metrics: HashSet::default(),
        };
        let mut store = Store::new(&engine.wasmtime, state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(limits.message_size);
        // This counts handles of every kind, also of resource types that the guest defines: the engine keeps them all in the host's memory.
        store.set_max_component_handles((limits.handles as usize).saturating_mul(2));
        if engine.options.call_fuel.is_none() {
            store.epoch_deadline_callback(|mut store| store.data_mut().cpu.on_tick());
        }
        store
    }

    /// Opens a handle on an object.
    pub(crate) fn open(&mut self, object: Object) -> wasmtime::Result<Resource<ObjectHandle>> {
        let host = &self.host;
        self.handles.open(object, |object| host.is_cached(object))
    }

    /// Opens a handle on each object.
    ///
    /// # Errors
    /// If one of them exceeds a limit; the handles opened before it stay open.
    pub(crate) fn open_all(&mut self, objects: Vec<Object>) -> wasmtime::Result<Vec<Resource<ObjectHandle>>> {
        objects.into_iter().map(|object| self.open(object)).collect()
    }

    /// Returns whether the guest holds so many handles or resources of WASI after a call that it must be leaking them.
    pub(crate) fn is_leaking(&self) -> bool {
        self.handles.is_leaking() || self.wasi_resources.is_leaking()
    }

    /// Charges the ticks since the last charge to the call, and yields to other tasks if there were any. Host functions that look at many
    /// objects call this after every few.
    pub(crate) async fn yield_after_tick(&mut self) -> wasmtime::Result<()> {
        if self.cpu.charge_elapsed()? {
            self.cpu.yield_now().await;
        }
        Ok(())
    }

    /// Errors if a result of this size is larger than one call may carry. To be called before the result is copied.
    pub(crate) fn check_message_size(&self, bytes: usize) -> wasmtime::Result<()> {
        if bytes > self.message_size {
            return Err(StopReason::MessageSize { allowed: self.message_size }.into());
        }
        Ok(())
    }

    /// Copies a text for the guest. Errors if it is larger than one call may carry.
    pub(crate) fn copy_for_guest(&self, text: &str) -> wasmtime::Result<String> {
        self.check_message_size(text.len())?;
        Ok(text.to_owned())
    }

    /// Errors if the guest is describing itself or computing index values: the results of those calls must depend on their arguments alone,
    /// so most imports are not available in them.
    pub(crate) fn check_available(&self, function: &'static str) -> wasmtime::Result<()> {
        match &self.call {
            Call::Reconcile(_) | Call::Observe(_) => Ok(()),
            call @ (Call::Instantiate | Call::Describe | Call::IndexValues(_)) => {
                Err(StopReason::from(Misuse::UnavailableInCall { function, call: call.name() }).into())
            }
        }
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let http::Http { context, hooks } = &mut self.http;
        WasiHttpCtxView { ctx: context, table: self.wasi_resources.table_for_http(), hooks }
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: self.wasi_resources.table() }
    }
}
