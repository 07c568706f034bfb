//! `pilothouse sim`: searches for errors of plugins in simulated worlds.

mod inputs;
mod observer;
mod replay;
mod report;
mod subject;

use std::num::NonZero;
use std::path::Path;

use pilothouse_sim::diff;
use pilothouse_sim::finding::divergence;
use pilothouse_sim::plan::Plan;
use pilothouse_sim::search::points::Points;
use pilothouse_sim::search::{Budget, Executor, FaultSelection, SearchOptions, all_plans, search};
use pilothouse_sim::world::{World, fix_hash_order};
use pilothouse_sim::{Simulator, WorldError, oracle, rules};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::cli::CompilerMode;
use crate::cli::simulation::{Sim, SimOutput};
use crate::commands::host::engine as host_engine;
use crate::{CommandError, CommandResult, output, shutdown};
use inputs::PluginInput;
use observer::Progress;
use subject::Subject;

/// The number of findings after which a search ends.
const MAX_FINDINGS: usize = 20;

pub(super) async fn run(flags: Sim) -> CommandResult {
    // Before anything else has a hash map.
    if let Err(error) = fix_hash_order() {
        tracing::warn!("other processes may find other hashes: {error}");
    }
    if flags.rules {
        output::print_line(rules::markdown_table());
        output::print_line(oracle::markdown_table().trim_end());
        return Ok(());
    }
    if let (Some(recording), [plugin]) = (&flags.recording, flags.plugins.as_slice()) {
        let engine = host_engine(None, CompilerMode::Quick)?;
        return super::sim_recording::run(recording, plugin, &engine).await;
    }
    if flags.recording.is_some() {
        return Err(CommandError::Usage("--recording: give exactly one plugin".to_owned()));
    }
    let stop = shutdown::on_signal()?;
    let (sender, receiver) = oneshot::channel();
    // Worlds have runtimes of their own, which cannot be started on a thread of this one.
    let thread = std::thread::Builder::new().name("simulation".to_owned()).spawn(move || {
        let _ = sender.send(simulate(&flags, &stop));
    });
    thread.map_err(|error| CommandError::Failure(format!("cannot start a thread: {error}")))?;
    receiver.await.unwrap_or_else(|_| Err(CommandError::Failure("the simulation panicked".to_owned())))
}

fn simulate(flags: &Sim, stop: &CancellationToken) -> CommandResult {
    if let Some(trace) = &flags.replay {
        return replay::run(flags, trace);
    }
    let scenarios: Vec<Option<&Path>> = match flags.scenario.as_slice() {
        [] => vec![None],
        files => files.iter().map(|file| Some(file.as_path())).collect(),
    };
    let mut found = 0;
    for scenario in scenarios {
        found += if flags.check_determinism {
            check_determinism(flags, scenario)?
        } else if flags.diff.is_empty() {
            search_in(flags, scenario, stop)?
        } else {
            compare_in(flags, scenario, stop)?
        };
        if stop.is_cancelled() {
            break;
        }
    }
    match found {
        0 => Ok(()),
        1 => Err(CommandError::Failure("1 finding".to_owned())),
        found => Err(CommandError::Failure(format!("{found} findings"))),
    }
}

/// Searches in one scenario, or with generated objects. Returns the number of findings.
fn search_in(flags: &Sim, scenario: Option<&Path>, stop: &CancellationToken) -> Result<usize, CommandError> {
    let subject = Subject::new(flags, scenario, &PluginInput::files_of(flags))?;
    let oracles = subject.oracles()?;
    let executor = executor_of(flags, &subject)?;
    let mut progress = Progress::new(flags, &subject, stop);
    let options = SearchOptions {
        seed: flags.seed,
        strategies: flags.strategy.clone(),
        faults: faults_of(flags, &subject),
        budget: budget_of(flags),
        shrinks: !flags.no_shrink,
        max_findings: MAX_FINDINGS,
    };
    let searched = search(&options, &oracles, &executor, &mut progress).map_err(|error| unusable(&error))?;
    progress.finish();
    report::print(flags, &subject, &searched.report, progress.seconds());
    Ok(searched.report.findings.len())
}

/// Compares two versions. Returns the number of differences.
fn compare_in(flags: &Sim, scenario: Option<&Path>, stop: &CancellationToken) -> Result<usize, CommandError> {
    let subjects: Vec<_> = flags
        .diff
        .iter()
        .map(|file| Subject::new(flags, scenario, std::slice::from_ref(file)))
        .collect::<Result<_, _>>()?;
    let [old, new] = subjects.as_slice() else {
        return Err(CommandError::Usage("--diff: give the old and the new file".to_owned()));
    };
    let (old_executor, new_executor) = (executor_of(flags, old)?, executor_of(flags, new)?);
    let reference = Plan { seed: flags.seed, deviations: Vec::new() };
    let points = Points::of(&old_executor.run(&reference).map_err(|error| unusable(&error))?);
    let faults = faults_of(flags, old);
    let plans = all_plans(flags.seed, &flags.strategy, &points, &faults);
    let progress = Progress::new(flags, old, stop);
    let budget = budget_of(flags);
    let goes_on = |runs: u64| !stop.is_cancelled() && !budget.is_used_up(runs, progress.time());
    let limit = usize::try_from(budget.remaining_runs(0)).unwrap_or(usize::MAX);
    let compared = diff::compare(&old_executor, &new_executor, plans.take(limit), goes_on);
    let report = compared.map_err(|error| unusable(&error))?;
    if flags.output == SimOutput::Json {
        output::print_line(report::json(&report));
    } else {
        for line in report.lines() {
            output::print_line(line);
        }
    }
    Ok(report.differences.len())
}

/// Makes the default run twice. Returns 1 if the runs differ.
fn check_determinism(flags: &Sim, scenario: Option<&Path>) -> Result<usize, CommandError> {
    let files = PluginInput::files_of(flags);
    let plan = Plan { seed: flags.seed, deviations: Vec::new() };
    let make = || -> Result<_, CommandError> {
        let subject = Subject::new(flags, scenario, &files)?;
        subject.world()?.run(&plan).map_err(|error| unusable(&error))
    };
    let (first, second) = (make()?, make()?);
    let Some(difference) = divergence::between(&first, &second) else {
        output::print_line(format_args!(
            "deterministic: seed {:#x} gave the hash {:016x} twice, after {} events",
            flags.seed,
            first.hash,
            first.events.len()
        ));
        return Ok(0);
    };
    output::print_line(format_args!("NOT DETERMINISTIC: event {} differs", difference.index + 1));
    output::print_line(format_args!("  first run:  {}", difference.expected));
    output::print_line(format_args!("  second run: {}", difference.found));
    Ok(1)
}

fn budget_of(flags: &Sim) -> Budget {
    flags.time.map_or(Budget::Runs(flags.seeds), Budget::Time)
}

fn faults_of(flags: &Sim, subject: &Subject) -> FaultSelection {
    FaultSelection::of(flags.fault_classes()).within(subject.fault_bounds())
}

/// Creates a world for each thread.
fn executor_of(flags: &Sim, subject: &Subject) -> Result<Executor<World>, CommandError> {
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = flags.threads.map_or_else(cores, usize::from);
    let worlds = (0..threads).map(|_| subject.world()).collect::<Result<_, _>>()?;
    Ok(Executor::new(worlds))
}

/// Returns the error of a world that cannot be built.
fn unusable(error: &WorldError) -> CommandError {
    CommandError::Usage(error.to_string())
}
