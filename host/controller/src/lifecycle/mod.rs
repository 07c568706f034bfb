//! The life of a plugin: which states it goes through and why, when it backs off, and who is told.
//!
//! [`Life`] is the machine, [`Record`](health) counts faults, [`backoff`] says how long to wait: all pure. [`Lifecycle`]
//! holds the machine of one plugin and tells of its changes by metrics and Events.

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
