//! Simulates Kubernetes around a plugin, to find out whether it survives what Kubernetes does to controllers.
//!
//! A [`Plan`] is a seed and a list of deviations from the default schedule. [`Simulator::run`] executes one plan in a
//! world of its own and returns a [`Run`]: all that happened, in order, and the objects at the end. The same plan
//! always gives the same run.

pub mod actor;
pub mod analysis;
pub mod call_log;
pub mod diff;
#[cfg(test)]
mod documentation;
pub mod export;
pub mod finding;
pub mod gaps;
pub mod http;
pub mod oracle;
pub mod plan;
pub mod rules;
pub mod run;
pub mod scenario;
pub mod search;
pub mod shrink;
#[cfg(test)]
mod testing;
pub mod world;

pub use plan::Plan;
pub use run::Run;

/// The virtual time at which every run starts, in RFC 3339. The world's clock begins here, and so does `now` in scenarios.
pub const START_TIME: &str = "2026-01-01T00:00:00Z";

/// Executes plans. The implementation in `world` runs the real host on the embedded API server; tests have scripted
/// ones.
pub trait Simulator {
    /// Runs the plan to its end.
    ///
    /// # Errors
    /// Returns an error if the world cannot be built, for example because the plugin does not load. What the plugin
    /// does wrong during the run is part of the [`Run`].
    fn run(&mut self, plan: &Plan) -> Result<Run, WorldError>;
}

/// Why no run was possible. The text says what failed, on what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldError(pub String);

impl std::fmt::Display for WorldError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for WorldError {}
