//! Runs a new version of a plugin in the shadow of the running one: it gets the same requests, none of its writes is sent, and they are
//! compared with those of the running version.
//!
//! ```text
//! running version: reconcile ─▶ ShadowRecorder ─▶ bounded channel ─▶ task: the same reconcile in an instance of the new version,
//!                                                                    with a ShadowHost ─▶ comparison ─▶ ShadowRecord
//! ```
//!
//! The running version never waits for its shadow: when the shadow is behind, whole reconciles are left out and counted.

mod report;
mod script;
mod shadow_host;
mod task;
mod watch_names;

pub use report::{ShadowDifference, ShadowStatus};
pub(crate) use report::{ShadowRecord, ShadowReport};
pub(crate) use task::{NewVersion, ShadowRecorder, start};
pub(crate) use watch_names::WatchNames;
