//! The runs without faults with which other runs are compared.

use super::super::Strategy;
use super::super::points::Points;
use super::{Driver, RunSummary};
use crate::analysis::RandomPrefixes;
use crate::oracle::ReferenceRuns;
use crate::plan::{ActorStep, HistoryPlan, Plan};
use crate::{Run, Simulator, WorldError};

/// The number of runs that must be left in the budget if shorter tasks are searched.
const MIN_RUNS_FOR_SHORTER_TASKS: u64 = 200;
/// What the master seed is combined with (exclusive or) in the two runs of the reference.
pub const REFERENCE_SEEDS: [u64; 2] = [0, 0x0123_4567_89ab_cdef];

/// Returns the two runs with which a run of `plan` is compared: the default schedule, of the steps that the plan does not leave out; or the shorter
/// way of the plan's history.
#[must_use]
pub fn reference_plans(master_seed: u64, plan: &Plan) -> [Plan; 2] {
    REFERENCE_SEEDS.map(|seed| Plan {
        seed: master_seed ^ seed,
        deviations: Vec::new(),
        left_out: plan.left_out.clone(),
        history: plan.history.map(|history| HistoryPlan { is_shorter: true, ..history }),
    })
}

/// What the actors do in a run, and how it ends without faults.
pub(super) struct ActorTask {
    /// The steps that are not taken.
    pub(super) left_out: Vec<ActorStep>,
    pub(super) reference: ReferenceRuns,
}

impl ActorTask {
    pub(super) fn new(first: &Run, second: &Run) -> Self {
        Self { left_out: first.plan.left_out.clone(), reference: ReferenceRuns::new(first, second) }
    }
}

impl<S: Simulator + Send> Driver<'_, S> {
    /// Runs the default schedules of the shorter tasks, unless the budget has no room for their searches. Returns their points.
    pub(super) fn run_references_of_shorter_tasks(&mut self) -> Result<Vec<Points>, WorldError> {
        let mut all_points = Vec::new();
        for left_out in &self.options.shorter_tasks {
            if self.options.budget.remaining_runs(self.used_runs) < MIN_RUNS_FOR_SHORTER_TASKS {
                break;
            }
            let plan = Plan { left_out: left_out.clone(), ..Plan::default() };
            let [first, second] = reference_plans(self.options.seed, &plan);
            let (first, second) = (self.executor.run(&first)?, self.executor.run(&second)?);
            all_points.push(Points::of(&first));
            self.tasks.push(ActorTask::new(&first, &second));
            self.accept_references([first, second])?;
        }
        Ok(all_points)
    }

    /// Judges the default schedules of a task.
    pub(super) fn accept_references(&mut self, runs: [Run; 2]) -> Result<(), WorldError> {
        for run in runs {
            let summary = RunSummary::of(&run, self.oracles, None, &RandomPrefixes::default());
            self.accept(Strategy::Reference, summary)?;
        }
        Ok(())
    }

    /// Returns the reference of the task that leaves out these steps. Other selections of steps belong to the whole task.
    pub(super) fn reference_of(&self, left_out: &[ActorStep]) -> &ReferenceRuns {
        let task = self.tasks.iter().find(|task| task.left_out == left_out);
        &task.unwrap_or(&self.tasks[0]).reference
    }
}
