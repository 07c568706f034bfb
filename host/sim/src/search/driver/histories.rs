//! Compares the ends of the two ways of each history.

use super::{Driver, RunSummary, reference_plans};
use crate::analysis::RandomPrefixes;
use crate::oracle::Reference;
use crate::plan::Plan;
use crate::search::Strategy;
use crate::{Run, Simulator, WorldError};

/// The number of runs that must be left in the budget.
const MIN_RUNS: u64 = 100;

impl<S: Simulator + Send> Driver<'_, S> {
    /// Runs both ways of each history, unless the budget has no room for them. The shorter way is run with another seed only if the ends differ.
    pub(super) fn run_histories(&mut self) -> Result<(), WorldError> {
        for index in 0..self.options.histories {
            let left = self.options.budget.remaining_runs(self.used_runs);
            if left < MIN_RUNS || self.has_ended() {
                break;
            }
            let plan = Plan::of_history(self.options.seed, index, false);
            let [first, second] = reference_plans(self.options.seed, &plan);
            let runs = self.executor.run_all(&[first, plan], &|run| run)?;
            let [shorter, run] = <[Run; 2]>::try_from(runs).expect("as many runs as plans");
            let mut summary = self.summarize_history(&run, [&shorter, &shorter]);
            self.accept(
                Strategy::Reference,
                RunSummary::of(&shorter, self.oracles, None, &RandomPrefixes::default()),
            )?;
            if summary.judgements.iter().any(|(_, judgement)| !judgement.violations.is_empty()) {
                let other = self.executor.run(&second)?;
                summary = self.summarize_history(&run, [&shorter, &other]);
                self.accept(
                    Strategy::Reference,
                    RunSummary::of(&other, self.oracles, None, &RandomPrefixes::default()),
                )?;
            }
            self.accept(Strategy::Reference, summary)?;
        }
        Ok(())
    }

    fn summarize_history(&self, run: &Run, shorter: [&Run; 2]) -> RunSummary {
        let reference = Reference::new(shorter[0], shorter[1]).with_cleanups_of(&self.tasks[0].reference);
        RunSummary::of(run, self.oracles, Some(&reference), reference.random())
    }
}
