//! Leads a search: runs the stages, judges each run, reports each error once, shrinks it, and goes on.
//!
//! Plans are run in batches of a fixed size, and their results are merged in the order of the plans. The findings
//! therefore do not depend on the number of threads.

mod histories;
mod shrink_finding;

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_controller::stable_hash::{self, fnv1a};
use pilothouse_model::hash::HashSet;

use super::batches::Batches;
use super::points::Points;
use super::stages::{other_orders, plans_in_turn, probes};
use super::{Budget, Executor, FaultSelection, Strategy};
use crate::analysis::{RandomPrefixes, RunView};
use crate::finding::failing_keys::failing_keys;
use crate::finding::{Coverage, Finding, Report, Stop, story};
use crate::oracle::{Judgement, Oracles, ReferenceRuns, Violation};
use crate::plan::{ActorStep, HistoryPlan, Plan};
use crate::run::{End, EventKind};
use crate::{Run, Simulator, WorldError};

/// The number of plans that are run before their results are looked at.
const BATCH: usize = 32;
/// The same between two looks at the time and for an interruption, once a run has not come to rest: such a run can take seconds.
const BUSY_BATCH: usize = 2;
/// The number of batches that come before the histories. They are single faults of all steps.
const BATCHES_BEFORE_HISTORIES: usize = 2;
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

/// How many runs of the budget a run uses up that does not come to rest, unless timers alone keep it busy. It ends at the limits of the world, after
/// many times as many events as other runs.
pub const COST_OF_BUSY_RUN: u64 = 10;

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
        report: Report { unfinished: unfinished_of(&first), ..empty_report(options.seed, oracles) },
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
    let whole = driver.tasks.swap_remove(0);
    Ok(SearchOutcome { report: driver.report, reference: whole.reference })
}

/// Returns what did not work in a run without faults.
fn unfinished_of(run: &Run) -> Vec<String> {
    let failing = failing_keys(&RunView::new(run, &RandomPrefixes::default()));
    run.unfinished.iter().cloned().chain(failing).collect()
}

fn empty_report(seed: u64, oracles: &Oracles) -> Report {
    let mut coverage = Coverage::default();
    for name in oracles.names() {
        coverage.oracles.entry(name.to_owned()).or_default().disabled = oracles.disabled().get(name).cloned();
    }
    Report {
        seed,
        findings: Vec::new(),
        runs: 0,
        distinct_runs: 0,
        shrinking_runs: 0,
        strategies: Vec::new(),
        stopped: Stop::Exhausted,
        unfinished: Vec::new(),
        coverage,
        hash: stable_hash::EMPTY,
        draws: 0,
    }
}

/// What is kept of a run.
struct RunSummary {
    plan: Plan,
    hash: u64,
    is_busy: bool,
    judgements: Vec<(String, Judgement)>,
    coverage: Coverage,
    draws: u64,
}

impl RunSummary {
    fn of(run: &Run, oracles: &Oracles, reference: Option<&ReferenceRuns>, random: &RandomPrefixes) -> Self {
        let view = RunView::new(run, random);
        let judgements: Vec<_> = oracles
            .judge(&view, reference)
            .into_iter()
            .map(|(name, judgement)| (name.to_owned(), judgement))
            .collect();
        let coverage = Coverage::of(&view, &judgements);
        let has_busy_timeout = run.events.iter().any(|event| event.kind == EventKind::BusyTimeout);
        let is_busy = run.end == End::NotAtRest && !has_busy_timeout;
        Self { plan: run.plan.clone(), hash: run.hash, is_busy, judgements, coverage, draws: run.draws }
    }
}

/// What the actors do in a run, and how it ends without faults.
struct ActorTask {
    /// The steps that are not taken.
    left_out: Vec<ActorStep>,
    reference: ReferenceRuns,
}

impl ActorTask {
    fn new(first: &Run, second: &Run) -> Self {
        Self { left_out: first.plan.left_out.clone(), reference: ReferenceRuns::new(first, second) }
    }
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

    /// Runs the default schedules of the shorter tasks, unless the budget has no room for their searches. Returns their points.
    fn run_references_of_shorter_tasks(&mut self) -> Result<Vec<Points>, WorldError> {
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
    fn accept_references(&mut self, runs: [Run; 2]) -> Result<(), WorldError> {
        for run in runs {
            let summary = RunSummary::of(&run, self.oracles, None, &RandomPrefixes::default());
            self.accept(Strategy::Reference, summary)?;
        }
        Ok(())
    }

    /// Returns the reference of the task that leaves out these steps. Other selections of steps belong to the whole task.
    fn reference_of(&self, left_out: &[ActorStep]) -> &ReferenceRuns {
        let task = self.tasks.iter().find(|task| task.left_out == left_out);
        &task.unwrap_or(&self.tasks[0]).reference
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

    /// Counts a run and reports its errors that are new.
    fn accept(&mut self, strategy: Strategy, summary: RunSummary) -> Result<(), WorldError> {
        self.report.runs += 1;
        self.has_busy_runs |= summary.is_busy;
        self.used_runs += if summary.is_busy { COST_OF_BUSY_RUN } else { 1 };
        self.progress.ran(&summary.plan, summary.hash);
        match self.report.strategies.iter_mut().find(|(known, _)| *known == strategy) {
            Some((_, runs)) => *runs += 1,
            None => self.report.strategies.push((strategy, 1)),
        }
        self.report.hash = fnv1a(self.report.hash, &summary.hash.to_le_bytes());
        self.report.draws += summary.draws;
        self.report.coverage.merge(summary.coverage);
        if !self.seen.insert(summary.hash) {
            return Ok(());
        }
        self.report.distinct_runs += 1;
        let mut violations: Vec<_> =
            summary.judgements.into_iter().flat_map(|(_, judgement)| judgement.violations).collect();
        // What happened first is reported first: what comes after it may be its consequence.
        violations.sort_by_key(|violation| violation.event.unwrap_or(usize::MAX));
        for violation in violations {
            if self.report.findings.len() >= self.options.max_findings {
                break;
            }
            if self.reported.insert(identity(&violation)) {
                self.report_finding(strategy, &summary.plan, violation)?;
            }
        }
        Ok(())
    }

    fn report_finding(
        &mut self,
        strategy: Strategy,
        plan: &Plan,
        violation: Violation,
    ) -> Result<(), WorldError> {
        let original = self.executor.run(plan)?;
        let is_reference = plan.deviations.is_empty() && strategy == Strategy::Reference;
        let steps_before = self.story_of(&original, &violation, is_reference).len();
        let mut smallest = (plan.clone(), original, violation);
        // The ways of a history have no step too many.
        if self.options.shrinks && plan.history.is_none() {
            if !plan.deviations.is_empty() {
                let (plan, run, violation) = smallest;
                smallest = self.with_fewer_deviations(&plan, run, violation)?;
            }
            smallest = self.without_steps(smallest)?;
            self.reported.insert(identity(&smallest.2));
        }
        let (plan, run, violation) = smallest;
        let finding = Finding {
            number: self.report.findings.len() + 1,
            strategy,
            runs: self.report.runs,
            steps_before,
            steps: self.story_of(&run, &violation, is_reference),
            rules: plan.deviations.iter().map(|deviation| deviation.fault.rule()).collect(),
            plan,
            violation,
            hash: run.hash,
            draws: run.draws,
        };
        self.progress.found(&finding, &run);
        self.report.findings.push(finding);
        Ok(())
    }

    fn story_of(&self, run: &Run, violation: &Violation, is_reference: bool) -> Vec<story::Step> {
        let none = RandomPrefixes::default();
        let random = if is_reference { &none } else { self.reference_of(&run.plan.left_out).random() };
        story::steps_of(&RunView::new(run, random), violation)
    }
}

/// What is reported once.
type Identity = (String, String, String, bool);

fn identity(violation: &Violation) -> Identity {
    (violation.oracle.clone(), violation.resource.clone(), violation.object.clone(), violation.is_unevaluated)
}
