//! The lifecycle of a plugin: its states and transitions, when it backs off, and how changes are reported.
//!
//! [`StateMachine`](state_machine), the [`FaultCounter`](fault_counter) and [`backoff`] are pure. [`Lifecycle`]
//! holds the state machine of one plugin and reports its transitions by metrics and Events. [`RecentErrors`]
//! distinguishes a plugin that works from one whose calls all fail, and [`CompileStatus`] shows a
//! compilation.

pub(crate) mod backoff;
mod compile_status;
mod fault_counter;
mod health;
mod history;
mod metrics;
mod recent_errors;
mod reporting;
mod state_machine;
mod status;
pub(crate) mod task_panics;
mod waiting_for;
pub(crate) use compile_status::CompileStatus;
pub(crate) use fault_counter::{Activity, DynHash};
pub(crate) use health::{CallPermit, Health};
pub use history::StateChange;
pub(crate) use metrics::{LifecycleMetrics, StateMetrics};
pub(crate) use recent_errors::RecentErrors;
pub(crate) use reporting::{Lifecycle, not_provided, provided};
pub(crate) use state_machine::Input;
pub use status::{HostMemoryStatus, LastError, PluginOrigin, PluginState, PluginStatus};
pub(crate) use waiting_for::WaitingFor;
