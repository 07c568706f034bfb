//! The lifecycle of a plugin: its states and transitions, when it backs off, and how changes are reported.
//!
//! [`StateMachine`](state_machine), the [`FaultCounter`](health) and [`backoff`] are pure. [`Lifecycle`]
//! holds the state machine of one plugin and reports its transitions by metrics and Events.

pub(crate) mod backoff;
mod health;
mod life;
mod metrics;
mod notice;
mod record;
pub(crate) mod task_panics;
mod words;

pub(crate) use health::Health;
pub(crate) use life::Input;
pub(crate) use metrics::{LifecycleMetrics, StateMetrics};
pub(crate) use notice::Lifecycle;
pub(crate) use record::{Activity, DynHash};
pub use words::{HostMemoryStatus, PluginState, PluginStatus};
