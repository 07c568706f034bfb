//! Runs plugins: loads them from WebAssembly files, runs them in a sandbox, and provides the functions that they import.
//!
//! ```text
//! Engine::load(bytes) → CompiledPlugin → CompiledPlugin::describe(host)   once per version, on a new instance
//!                                      → InstancePool → Instance::reconcile, Instance::observe, Instance::index_values
//! ```
//!
//! The [`Host`] trait is everything that a guest can see and do, and [`InstanceLimits`] is how much it may use. The results of a guest are data
//! ([`Outcome`], [`Failure`]), and so are its crashes ([`Fault`]): whatever a guest does, this crate does not panic.
//!
//! This crate opens no connections, knows nothing of watches and queues, and exposes no type of wasmtime. The descriptor that `describe`
//! returns is opaque text here.

mod abi;
mod api_error;
mod artifact;
mod bindings;
pub mod blocking;
mod call;
mod call_recorder;
mod compile;
mod compiled_plugin;
mod contract;
mod crash_marker;
mod engine;
mod fault;
mod functions;
mod host;
mod host_memory;
mod http;
mod instance;
mod limits;
mod load;
mod misuse;
mod pool;
mod sandbox;
mod stub_host;
mod ticker;

pub use abi::{AbiFormat, abi_text};
pub use api_error::{ApiError, Cause, Rule};
pub use artifact::{KeepError, KeptCode, check_cache_directory};
pub use call::{Call, DescribeError, Failure, HostContext, Observation, Outcome, Reason, Request};
pub use call_recorder::{
    CallRecorder, GuestCall, GuestCallRecorder, GuestResult, HostAnswer, HostCall, HostRequest,
};
pub use compile::{
    CHECK_ARGUMENT, COMPILER_MEMORY_PREFIX, CacheDirectory, CompilePermit, CompileStats, CompilerProcess,
    LoadPermit, WriteError, check_plugin, write_compiled,
};
pub use compiled_plugin::{CompiledPlugin, Exports, Form, MappedCode};
pub use crash_marker::{CrashMarker, PreviousCrash};
pub use engine::{Compiler, Engine, EngineError, EngineOptions};
pub use fault::{Fault, FaultKind};
pub use host::{
    CacheFilter, CachePage, DeleteOptions, Host, IndexCursor, IndexPage, ListOptions, LivePage, LogLevel,
    LogLine, LogSource, MetricKind, MetricSample, ObjectType, Patch, PatchType, PluginEvent, Propagation,
};
pub use host_memory::{HostMemory, HostMemoryCharge, HostMemoryExceeded, HostMemoryKind};
pub use http::{HttpBody, HttpError, HttpStep, HttpTimeouts};
pub use instance::{Instance, MAX_INDEX_VALUE, MAX_INDEX_VALUES};
pub use limits::{InstanceLimits, MAX_MILLISECONDS};
pub use load::{LoadError, most_similar};
pub use misuse::Misuse;
pub use pool::{InstancePool, PoolStats, PooledInstance};
pub use stub_host::StubHost;
