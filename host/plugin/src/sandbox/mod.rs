//! The state behind one instance: what it holds, what it has used up, and how it is stopped.

mod console;
mod cpu;
mod handles;
mod http;
mod memory;
mod wasi;

use std::collections::HashSet;
use std::sync::Arc;

use pilothouse_model::Object;
use thiserror::Error;
use wasmtime::Store;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

pub(crate) use console::{SharedConsole, cut};
pub(crate) use cpu::CpuMeter;
pub(crate) use handles::Handles;
#[allow(unreachable_pub, reason = "the generated bindings re-export them")]
pub use handles::{BatchHandle, ObjectHandle};
pub(crate) use memory::MemoryLimiter;

use crate::{Call, Host, HostMemoryExceeded, Limits, Misuse};

/// Why the host stops a guest. Travels through the engine as the error of a trap.
#[derive(Clone, Debug, Error)]
pub(crate) enum Stop {
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
    #[error("an answer of more than {allowed} bytes")]
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
    /// The import that the guest waits in, for the message of a time-out.
    pub(crate) waiting_in: Option<&'static str>,
    /// Bytes that one call may carry; for what the guest sends the engine holds the same limit.
    pub(crate) message_size: usize,
    /// Bytes of a manifest that the guest sends.
    pub(crate) object_size: usize,
    /// Names of metrics that were complained about, so that it happens once.
    pub(crate) refused_metrics: HashSet<String>,
    pub(crate) http: http::Http,
    wasi: WasiCtx,
    wasi_table: ResourceTable,
}

impl GuestState {
    /// A store with nothing in it yet, ready to instantiate in.
    pub(crate) fn store(
        engine: &wasmtime::Engine,
        cpu: CpuMeter,
        host: Arc<dyn Host>,
        limits: &Limits,
    ) -> Store<Self> {
        let console = console::Console::shared(host.clone(), limits.log_line_size);
        let mut wasi_table = ResourceTable::new();
        wasi_table.set_max_capacity(limits.handles as usize);
        let state = Self {
            wasi: wasi::context(&host, &console, limits),
            http: http::Http::new(host.clone(), console.clone(), limits),
            handles: Handles::new(limits.handles, &host.host_memory()),
            host,
            call: Call::Instantiate,
            memory: MemoryLimiter::new(limits),
            cpu,
            console,
            waiting_in: None,
            message_size: limits.message_size,
            object_size: limits.object_size,
            refused_metrics: HashSet::new(),
            wasi_table,
        };
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(limits.message_size);
        // Of every kind, those of types that the guest defines itself included: the engine keeps them in the host's memory.
        store.set_max_component_handles((limits.handles as usize).saturating_mul(2));
        store.epoch_deadline_callback(|mut store| store.data_mut().cpu.on_tick());
        store
    }

    /// Opens a handle on an object.
    pub(crate) fn open(&mut self, object: Object) -> wasmtime::Result<Resource<ObjectHandle>> {
        let host = &self.host;
        self.handles.open(object, |object| host.is_cached(object))
    }

    /// Opens a handle on each object, or fails.
    pub(crate) fn open_all(&mut self, objects: Vec<Object>) -> wasmtime::Result<Vec<Resource<ObjectHandle>>> {
        objects.into_iter().map(|object| self.open(object)).collect()
    }

    /// Charges the ticks since then to the call; where there were any, others get to run. For host functions that look at many objects,
    /// after each few.
    pub(crate) async fn breathe(&mut self, since: &mut u64) -> wasmtime::Result<()> {
        if self.cpu.account(since)? {
            self.cpu.give_way().await;
            // Meanwhile time passed that was others'.
            *since = self.cpu.now();
        }
        Ok(())
    }

    /// Refuses an answer that is larger than one call may carry, before it is copied.
    pub(crate) fn carry(&self, bytes: usize) -> wasmtime::Result<()> {
        if bytes > self.message_size {
            return Err(Stop::MessageSize { allowed: self.message_size }.into());
        }
        Ok(())
    }

    /// A copy of a text for the guest, if one call may carry it.
    pub(crate) fn carried(&self, text: &str) -> wasmtime::Result<String> {
        self.carry(text.len())?;
        Ok(text.to_owned())
    }

    /// Refuses what a guest may not do while it describes itself or computes index values: those must depend on their arguments alone.
    pub(crate) fn allow(&self, function: &'static str) -> wasmtime::Result<()> {
        match &self.call {
            Call::Reconcile(_) | Call::Observe(_) => Ok(()),
            call @ (Call::Instantiate | Call::Describe | Call::IndexValues(_)) => {
                Err(Stop::from(Misuse::NotNow { function, call: call.name() }).into())
            }
        }
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let http::Http { context, hooks } = &mut self.http;
        WasiHttpCtxView { ctx: context, table: &mut self.wasi_table, hooks }
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.wasi_table }
    }
}
