//! The engine that compiles and runs all plugins of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thiserror::Error;
use wasmtime::component::Linker;
use wasmtime::{Config, OptLevel, Strategy, WasmBacktraceDetails};

use crate::compile::{CacheDirectory, CompilePipeline, CompilerProcess};
use crate::crash_marker::{self, CrashMarker, PreviousCrash};
use crate::sandbox::{self, GuestState};
use crate::ticker::Ticker;
use crate::{functions, load};

/// Stack that optimised code of a guest may use in one call, in bytes. The size is a property of the engine, so it is the same for all plugins;
/// language interpreters need half of it.
const GUEST_STACK: usize = 512 << 10;
/// Stack that other code may use. Its frames are larger, because it keeps more values in memory.
const UNOPTIMIZED_GUEST_STACK: usize = 2 * GUEST_STACK;
/// Stack for the host functions that a guest calls, in bytes. With the guest's, this is reserved address space; only touched pages take
/// memory.
const HOST_STACK: usize = 1536 << 10;

/// How plugins are compiled and interrupted.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How often running guests yield their thread, which is also the precision of CPU time. At least 1 ms; default 10 ms.
    pub tick: Duration,
    /// Whether the functions of one plugin are compiled on all cores.
    pub parallel_compilation: bool,
    /// The compiler to use.
    pub compiler: Compiler,
    /// The largest file to load, in bytes; default 64 MiB.
    pub max_code_size: usize,
    /// Where compiled plugins are kept between runs. If the directory cannot be used, plugins are compiled at each start, and a warning is
    /// logged.
    pub cache: Option<CacheDirectory>,
    /// Compiles each plugin in a process of its own. `None` compiles in this process.
    pub compiler_process: Option<CompilerProcess>,
    /// How many instructions one call may execute, approximately. `None`, the default, limits the CPU time of calls instead.
    ///
    /// With it, the same calls with the same answers always end in the same way: nothing depends on how fast the machine is, no thread
    /// interrupts guests, and floating-point results do not depend on the processor. Guests do not yield while they compute. For simulations.
    pub call_fuel: Option<u64>,
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
            call_fuel: None,
        }
    }
}

/// A compiler from WebAssembly to machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compiler {
    /// The optimising compiler.
    #[default]
    Cranelift,
    /// The optimising compiler without optimisation.
    UnoptimizedCranelift,
    /// The baseline compiler: it compiles four to five times faster, to slower code. It refuses tail calls and some SIMD
    /// instructions. Needs the feature `winch`.
    #[cfg(feature = "winch")]
    Winch,
}

impl Compiler {
    /// The compiler that takes the least time. On other architectures than x86-64, Winch is not as well supported.
    #[cfg(all(feature = "winch", target_arch = "x86_64"))]
    pub const QUICKEST: Self = Self::Winch;
    /// The compiler that takes the least time, of those that this build has.
    #[cfg(not(all(feature = "winch", target_arch = "x86_64")))]
    pub const QUICKEST: Self = Self::UnoptimizedCranelift;

    /// Returns the stack that code of this compiler may use in one call, in bytes.
    pub(crate) const fn guest_stack(self) -> usize {
        match self {
            Self::Cranelift => GUEST_STACK,
            Self::UnoptimizedCranelift => UNOPTIMIZED_GUEST_STACK,
            #[cfg(feature = "winch")]
            Self::Winch => UNOPTIMIZED_GUEST_STACK,
        }
    }
}

/// Why the engine could not be set up. The cause is the host or its platform, never a plugin.
#[derive(Debug, Error)]
pub enum EngineError {
    /// Wasmtime refuses the options on this machine.
    #[error("cannot set up the wasm engine on this machine: {0}")]
    Setup(String),
    /// The operating system starts no thread for the ticker.
    #[error("cannot start the engine's ticker thread")]
    Ticker(#[source] std::io::Error),
}

/// Compiles and runs plugins. Cheap to clone.
///
/// Each [`CompiledPlugin`](crate::CompiledPlugin) and [`Instance`](crate::Instance) holds a clone. Dropping the last one stops the ticker.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<GuestState>,
    pub(crate) options: EngineOptions,
    pub(crate) pipeline: CompilePipeline,
    pub(crate) ticker: Ticker,
    /// How many times the ticker has ticked.
    pub(crate) ticks: Arc<AtomicU64>,
}

impl Engine {
    /// Sets the engine up and starts its ticker thread.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        Self::with_imports(options, functions::add_to_linker)
    }

    /// Sets up an engine whose plugins get the imports that `add_imports` adds, beside those of WASI.
    pub(crate) fn with_imports(
        mut options: EngineOptions,
        add_imports: fn(&mut Linker<GuestState>) -> wasmtime::Result<()>,
    ) -> Result<Self, EngineError> {
        options.tick = options.tick.max(Duration::from_millis(1));
        let wasmtime = wasmtime_engine(&options)?;
        let linker = linker(&wasmtime, add_imports).map_err(|error| setup_error(&error))?;
        let ticks = Arc::<AtomicU64>::default();
        let on_tick = {
            let (wasmtime, ticks) = (wasmtime.clone(), Arc::clone(&ticks));
            move || {
                ticks.fetch_add(1, Ordering::Relaxed);
                wasmtime.increment_epoch();
            }
        };
        let ticker = match options.call_fuel {
            Some(_) => Ticker::stopped(),
            None => Ticker::start(options.tick, on_tick).map_err(EngineError::Ticker)?,
        };
        let pipeline =
            CompilePipeline::new(&wasmtime, options.cache.as_ref(), options.compiler_process.clone());
        Ok(Self { shared: Arc::new(Shared { wasmtime, linker, options, pipeline, ticker, ticks }) })
    }

    /// Creates a marker for the plugin file of this digest, to be held while this process handles the file in its own memory. If the
    /// process dies meanwhile, the marker makes the next start refuse the file. Returns `None` where no marker can be created, and without
    /// a compile cache. Simulations get no markers: they load the same file for each run, and must not depend on what other processes do.
    ///
    /// # Errors
    /// If an earlier process ended while it handled the file.
    pub fn create_crash_marker(&self, digest: &str) -> Result<Option<CrashMarker>, PreviousCrash> {
        match &self.shared.options {
            EngineOptions { cache: Some(cache), call_fuel: None, .. } if self.shared.pipeline.has_cache() => {
                crash_marker::create(&cache.path, digest)
            }
            _ => Ok(None),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// Sets up only what compiling needs: no linker, no ticker.
pub(crate) fn wasmtime_engine(options: &EngineOptions) -> Result<wasmtime::Engine, EngineError> {
    wasmtime::Engine::new(&config(options)).map_err(|error| setup_error(&error))
}

fn setup_error(error: &wasmtime::Error) -> EngineError {
    EngineError::Setup(load::one_line(&format!("{error:#}")))
}

fn config(options: &EngineOptions) -> Config {
    let mut config = Config::new();
    let guest_stack = options.compiler.guest_stack();
    config
        .wasm_component_model(true)
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        .epoch_interruption(options.call_fuel.is_none())
        .consume_fuel(options.call_fuel.is_some())
        .cranelift_nan_canonicalization(options.call_fuel.is_some())
        .relaxed_simd_deterministic(options.call_fuel.is_some())
        // Only native debuggers and profilers would use it. With many plugins these tables take memory for nothing.
        .native_unwind_info(cfg!(windows))
        .max_wasm_stack(guest_stack)
        .async_stack_size(guest_stack + HOST_STACK)
        .parallel_compilation(options.parallel_compilation);
    // All of this is part of the hash that tells which engine may run the code.
    match options.compiler {
        Compiler::Cranelift => config.strategy(Strategy::Cranelift),
        Compiler::UnoptimizedCranelift => {
            config.strategy(Strategy::Cranelift).cranelift_opt_level(OptLevel::None)
        }
        #[cfg(feature = "winch")]
        Compiler::Winch => config.strategy(Strategy::Winch),
    };
    config
}

/// Returns everything that plugins may import: the contract, WASI 0.2 and its outgoing HTTP. Built once and shared by all plugins.
fn linker(
    wasmtime: &wasmtime::Engine,
    add_imports: fn(&mut Linker<GuestState>) -> wasmtime::Result<()>,
) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(wasmtime);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    sandbox::bound_http_messages(&mut linker)?;
    add_imports(&mut linker)?;
    Ok(linker)
}
