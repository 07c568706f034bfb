//! Leads a search: runs the stages, judges each run, reports each error once, shrinks it, and goes on.
//!
//! Plans are run in batches of a fixed size, and their results are merged in the order of the plans. The findings
//! therefore do not depend on the number of threads.

mod findings;
mod histories;
mod options;
mod references;
mod run_summary;
mod shrink_finding;

use std::collections::BTreeSet;

use pilothouse_model::hash::HashSet;

use super::batches::Batches;
use super::points::Points;
use super::stages::{other_orders, plans_in_turn, probes};
use super::{Executor, Strategy};
use crate::finding::{Report, Stop};
use crate::oracle::Oracles;
use crate::plan::Plan;
use crate::{Run, Simulator, WorldError};
use findings::{Identity, empty_report};
pub use options::{SearchOptions, SearchOutcome, SearchProgress};
use references::ActorTask;
pub use references::{REFERENCE_SEEDS, reference_plans};
pub use run_summary::COST_OF_BUSY_RUN;
use run_summary::RunSummary;

/// The number of plans that are run before their results are looked at.
const BATCH: usize = 32;
/// The same between two looks at the time and for an interruption, once a run has not come to rest: such a run can take seconds.
const BUSY_BATCH: usize = 2;
/// The number of batches that come before the histories. They are single faults of all steps.
const BATCHES_BEFORE_HISTORIES: usize = 2;

/// Searches for errors.
///
/// # Errors
/// Returns an error if a world cannot be built.
pub fn search<S: Simulator + Send>(
    options: &SearchOptions,
    oracles: &Oracles,
    executor: &Executor<S>,
    progress: &mut dyn SearchProgress,
) -> Result<SearchOutcome, WorldError> {
    let plans = reference_plans(options.seed, &Plan::default());
    let runs = executor.run_all(&plans, &|run| run)?;
    let [first, second] = <[Run; 2]>::try_from(runs).expect("as many runs as plans");
    let points = Points::of(&first);
    let mut driver = Driver {
        options,
        oracles,
        executor,
        progress,
        tasks: vec![ActorTask::new(&first, &second)],
        report: empty_report(options.seed, oracles, &first),
        used_runs: 0,
        has_busy_runs: false,
        seen: HashSet::default(),
        reported: BTreeSet::new(),
    };
    driver.accept_references([first, second])?;
    // They come last: a story about a crash or a late watch says more than one about a resync that shows the same error.
    let probes = probes(options.seed, &points);
    let left = options.budget.remaining_runs(driver.used_runs);
    let reserved = left.min(probes.len() as u64);
    driver.used_runs += reserved;
    driver.run_stages(&points)?;
    driver.used_runs -= reserved;
    driver.run_probes(&probes[..usize::try_from(reserved).unwrap_or(0)])?;
    let references = driver.tasks.iter().map(|task| &task.reference);
    driver.report.not_compared = references.flat_map(|reference| oracles.not_compared(reference)).collect();
    let whole = driver.tasks.swap_remove(0);
    Ok(SearchOutcome { report: driver.report, reference: whole.reference })
}

struct Driver<'a, S> {
    options: &'a SearchOptions,
    oracles: &'a Oracles,
    executor: &'a Executor<S>,
    progress: &'a mut dyn SearchProgress,
    /// What is searched: all steps first, then the shorter tasks.
    tasks: Vec<ActorTask>,
    report: Report,
    /// How many runs of the budget are used up.
    used_runs: u64,
    /// Whether a run did not come to rest.
    has_busy_runs: bool,
    seen: HashSet<u64>,
    /// Oracles, resources and objects that were reported.
    reported: BTreeSet<Identity>,
}

impl<S: Simulator + Send> Driver<'_, S> {
    fn run_stages(&mut self, points: &Points) -> Result<(), WorldError> {
        let orders = other_orders(self.options.seed, points, &self.options.faults);
        if self.options.strategies.contains(&Strategy::Plans) {
            let limit = usize::try_from(self.options.budget.remaining_runs(self.used_runs) / 4);
            let orders = &orders[..orders.len().min(limit.unwrap_or(usize::MAX))];
            for run in self.executor.run_all(orders, &|run| run)? {
                self.tasks[0].reference.add_order(&run);
                let summary = self.summarize(&run);
                self.accept(Strategy::Plans, summary)?;
            }
        }
        let shorter = self.run_references_of_shorter_tasks()?;
        let options = self.options;
        let all_points = std::iter::once(points).chain(&shorter);
        let plans = all_points.zip(self.tasks.iter().map(|task| task.left_out.clone()));
        let plans = plans.map(|(points, left_out)| {
            plans_in_turn(options.seed, &options.strategies, points, &options.faults)
                .map(move |(strategy, plan)| (strategy, Plan { left_out: left_out.clone(), ..plan }))
        });
        let mut batches = Batches::new(plans.collect());
        let mut histories_at = Some(BATCHES_BEFORE_HISTORIES);
        for batches_taken in 0.. {
            if histories_at.take_if(|at| batches_taken == *at).is_some() {
                self.run_histories()?;
            }
            if self.has_ended() {
                break;
            }
            let left = usize::try_from(options.budget.remaining_runs(self.used_runs)).unwrap_or(BATCH);
            let batch = batches.next_batch(BATCH.min(left));
            if batch.is_empty() {
                break;
            }
            self.run_batch(batch)?;
        }
        if histories_at.is_some() { self.run_histories() } else { Ok(()) }
    }

    /// Judges what the plugin does at rest and without reasons. Runs the plans even if the time is up, unless runs take long.
    fn run_probes(&mut self, plans: &[Plan]) -> Result<(), WorldError> {
        if self.progress.is_interrupted() || self.report.findings.len() >= self.options.max_findings {
            return Ok(());
        }
        self.run_batch(plans.iter().map(|plan| (Strategy::Reference, plan.clone())).collect())
    }

    /// Whether the whole search has to end, and notes why.
    fn has_ended(&mut self) -> bool {
        let stop = if self.progress.is_interrupted() {
            Stop::Interrupted
        } else if self.report.findings.len() >= self.options.max_findings {
            Stop::Findings
        } else if self.options.budget.is_used_up(self.used_runs, self.progress.elapsed()) {
            Stop::Budget
        } else {
            return false;
        };
        self.report.stopped = stop;
        true
    }

    /// Runs plans of one task.
    fn run_batch(&mut self, plans: Vec<(Strategy, Plan)>) -> Result<(), WorldError> {
        let (strategies, plans): (Vec<_>, Vec<_>) = plans.into_iter().unzip();
        let left_out = plans.first().map_or(Vec::new(), |plan: &Plan| plan.left_out.clone());
        let size = if self.has_busy_runs { BUSY_BATCH } else { BATCH };
        for (part, strategies) in plans.chunks(size).zip(strategies.chunks(size)) {
            let (oracles, reference) = (self.oracles, self.reference_of(&left_out));
            let summarize = |run: Run| RunSummary::of(&run, oracles, Some(reference), reference.random());
            for (strategy, summary) in strategies.iter().zip(self.executor.run_all(part, &summarize)?) {
                self.accept(*strategy, summary)?;
            }
            if self.progress.is_interrupted() || self.options.budget.is_time_up(self.progress.elapsed()) {
                break;
            }
        }
        if let Some(strategy) = strategies.last() {
            self.progress.batch_ended(*strategy, self.report.runs);
        }
        Ok(())
    }

    fn summarize(&self, run: &Run) -> RunSummary {
        let reference = self.reference_of(&run.plan.left_out);
        RunSummary::of(run, self.oracles, Some(reference), reference.random())
    }
}
