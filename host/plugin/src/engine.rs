//! The engine that compiles and runs all plugins of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thiserror::Error;
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Config, Strategy, WasmBacktraceDetails};

use crate::compile::{CacheDirectory, CompilerProcess, Workshop};
use crate::mark::{self, LoadMark, Marked};
use crate::sandbox::GuestState;
use crate::ticker::Ticker;
use crate::{bindings, functions, load};

/// Bytes of stack that a guest may use in one call. One size for all plugins: it belongs to the engine, and interpreters need half of it.
pub(crate) const GUEST_STACK: usize = 512 << 10;
/// Bytes of stack behind each call, the guest's and that of the host's functions below it. Address space: memory is what was touched of it.
const CALL_STACK: usize = 2 << 20;

/// How plugins are compiled and interrupted.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How often running guests give their thread back, and the precision of CPU time; at least 1 ms.
    pub tick: Duration,
    /// Compile one plugin's functions on all cores.
    pub parallel_compilation: bool,
    /// Which compiler to use.
    pub compiler: Compiler,
    /// The largest file to load, in bytes.
    pub max_code_size: usize,
    /// Keeps compiled plugins between runs. A directory that can't be used costs a warning, and no more.
    pub cache: Option<CacheDirectory>,
    /// Compiles in processes of their own, one plugin each; without it, in this one.
    pub compiler_process: Option<CompilerProcess>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(10),
            parallel_compilation: true,
            compiler: Compiler::default(),
            max_code_size: 64 << 20,
            cache: None,
            compiler_process: None,
        }
    }
}

/// A compiler of wasm to machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compiler {
    /// Optimises.
    #[default]
    Cranelift,
    /// Compiles four to five times faster; the code is slower.
    Winch,
}

/// The engine couldn't be set up: a fault of the host or its platform.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The engine refuses the options on this machine.
    #[error("can't set up the wasm engine on this machine: {0}")]
    Setup(String),
    /// No thread for the ticker.
    #[error("can't start the engine's ticker thread")]
    Ticker(#[source] std::io::Error),
}

/// Compiles and runs plugins. Cheap to clone; the last clone (those inside [`Code`](crate::Code) and [`Instance`](crate::Instance) included) stops
/// the ticker when it is dropped.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) wasm: wasmtime::Engine,
    pub(crate) linker: Linker<GuestState>,
    pub(crate) options: EngineOptions,
    pub(crate) workshop: Workshop,
    pub(crate) ticker: Ticker,
    /// How often it has ticked.
    pub(crate) ticks: Arc<AtomicU64>,
}

impl Engine {
    /// Sets the engine up and starts its ticker thread.
    pub fn new(mut options: EngineOptions) -> Result<Self, EngineError> {
        options.tick = options.tick.max(Duration::from_millis(1));
        let wasm = wasm(&options)?;
        let linker = linker(&wasm).map_err(|error| setup(&error))?;
        let epoch = wasm.clone();
        let ticks = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&ticks);
        let tick = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            epoch.increment_epoch();
        };
        let ticker = Ticker::start(options.tick, tick).map_err(EngineError::Ticker)?;
        let workshop = Workshop::new(&wasm, options.cache.as_ref(), options.compiler_process.clone());
        Ok(Self { shared: Arc::new(Shared { wasm, linker, options, workshop, ticker, ticks }) })
    }

    /// Marks a plugin file, by its digest, as being handled in this process's memory, for as long as the mark is held. There is none without
    /// a compile cache.
    ///
    /// # Errors
    /// A process ended while it handled the file.
    pub fn mark(&self, digest: &str) -> Result<Option<LoadMark>, Marked> {
        match &self.shared.options.cache {
            Some(cache) if self.shared.workshop.keeps_files() => mark::mark(&cache.path, digest),
            _ => Ok(None),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// Wasmtime's part of an engine: what compiles.
pub(crate) fn wasm(options: &EngineOptions) -> Result<wasmtime::Engine, EngineError> {
    wasmtime::Engine::new(&config(options)).map_err(|error| setup(&error))
}

fn setup(error: &wasmtime::Error) -> EngineError {
    EngineError::Setup(load::one_line(&format!("{error:#}")))
}

fn config(options: &EngineOptions) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        .epoch_interruption(true)
        // For unwinders of others only, which have no business in a guest's frames; with many plugins, tables without use.
        .native_unwind_info(cfg!(windows))
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(CALL_STACK)
        .parallel_compilation(options.parallel_compilation)
        .strategy(match options.compiler {
            Compiler::Cranelift => Strategy::Cranelift,
            Compiler::Winch => Strategy::Winch,
        });
    config
}

/// What plugins may import: the contract, WASI 0.2 and its outgoing HTTP. Built once, shared by all.
fn linker(wasm: &wasmtime::Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(wasm);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    bindings::Controller::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    functions::add_quick_to_linker(&mut linker)?;
    Ok(linker)
}
