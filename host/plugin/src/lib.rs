//! The wasm side of Pilothouse: loads plugins, runs them in a sandbox, and gives them the host's functions.
//!
//! ```text
//! Engine::load(bytes) → Code → Code::describe(host)             once per version, on an instance of its own
//!                            → InstancePool → Instance::reconcile, Instance::observe, Instance::index_values
//! ```
//!
//! What a guest may see and do is the [`Host`] trait; what it may use is [`Limits`]. What it answers is data ([`Outcome`],
//! [`Failure`]), and so is its breakdown ([`Fault`]): nothing that a guest does is an error of this crate, and nothing makes it panic.
//!
//! This crate opens no connection and knows nothing of watches or queues, and no wasmtime type leaves it. The descriptor that `describe` returns is opaque
//! text here.

mod api_error;
mod artifact;
mod bindings;
mod call;
mod code;
mod compile;
mod engine;
mod fault;
mod functions;
mod host;
mod host_memory;
mod http;
mod instance;
mod limits;
mod load;
mod mark;
mod misuse;
mod pool;
mod sandbox;
mod stand_in;
mod ticker;

pub use api_error::{ApiError, Cause, Rule};
pub use call::{Call, DescribeError, Failure, Observation, Outcome, Reason, Request};
pub use code::{Code, Exports, Form};
pub use compile::{
    COMPILER_MEMORY, CacheDirectory, CompileStats, CompilerProcess, Place, Turn, WriteError, write_compiled,
};
pub use engine::{Compiler, Engine, EngineError, EngineOptions};
pub use fault::{Fault, FaultKind};
pub use host::{
    CacheFilter, CachePage, DeleteOptions, Host, ListOptions, LivePage, LogLevel, LogLine, LogSource,
    MetricKind, MetricSample, ObjectType, Patch, PatchType, PluginEvent, Propagation,
};
pub use host_memory::{HostMemory, HostMemoryCharge, HostMemoryExceeded, HostMemoryKind};
pub use http::{HttpBody, HttpError, HttpStep, HttpTimeouts};
pub use instance::Instance;
pub use limits::{Limits, MAX_MILLISECONDS};
pub use load::LoadError;
pub use mark::{LoadMark, Marked};
pub use misuse::Misuse;
pub use pool::{InstancePool, PoolStats, PooledInstance};
pub use stand_in::StandIn;
