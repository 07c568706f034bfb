//! What a search is told, what it reports on the way, and what it returns.

use std::time::Duration;

use super::super::{Budget, FaultSelection, Strategy};
use crate::Run;
use crate::finding::{Finding, Report};
use crate::oracle::ReferenceRuns;
use crate::plan::{ActorStep, Plan};

/// How to search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// The master seed.
    pub seed: u64,
    /// The strategies. The reference is always run.
    pub strategies: Vec<Strategy>,
    /// The faults.
    pub faults: FaultSelection,
    /// How long.
    pub budget: Budget,
    /// Whether findings are shrunk.
    pub shrinks: bool,
    /// The number of findings after which the search ends.
    pub max_findings: usize,
    /// Shorter tasks of the actors that are searched, too, each as the steps that it leaves out.
    pub shorter_tasks: Vec<Vec<ActorStep>>,
    /// The number of histories of the world whose ends are compared.
    pub histories: usize,
}

/// Receives the progress of a search, and may end it.
pub trait SearchProgress {
    /// Returns the time since the search began, from an injected clock.
    fn elapsed(&self) -> Duration;

    /// Whether the search should end now, for example because the user has interrupted it.
    fn is_interrupted(&self) -> bool;

    /// Called for each run, in the order of the search, without those for shrinking. `hash` is the hash of the run of `plan`. By default, does
    /// nothing.
    fn ran(&mut self, plan: &Plan, hash: u64) {
        let _ = (plan, hash);
    }

    /// Called after each batch with the number of runs so far.
    fn batch_ended(&mut self, strategy: Strategy, runs: u64);

    /// Called for each finding. `run` is the run of its plan.
    fn found(&mut self, finding: &Finding, run: &Run);
}

/// The result of a search.
#[derive(Debug)]
pub struct SearchOutcome {
    /// What was found.
    pub report: Report,
    /// The reference, for a comparison with other plugins.
    pub reference: ReferenceRuns,
}

/// A receiver of the progress that drops it.
#[cfg(test)]
pub(super) struct Silent;

#[cfg(test)]
impl SearchProgress for Silent {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn is_interrupted(&self) -> bool {
        false
    }

    fn batch_ended(&mut self, _: Strategy, _: u64) {}

    fn found(&mut self, _: &Finding, _: &Run) {}
}
