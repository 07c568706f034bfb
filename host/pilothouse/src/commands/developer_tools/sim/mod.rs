//! `pilothouse sim`: searches for errors of plugins in simulated worlds.

mod determinism;
mod export;
mod inputs;
mod junit;
pub(super) mod of_test;
mod progress;
mod projects;
mod replay;
mod report;
pub(super) mod scenario_check;
mod subject;
mod subject_files;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use pilothouse_sim::diff;
use pilothouse_sim::finding::Report;
use pilothouse_sim::plan::Plan;
use pilothouse_sim::search::points::Points;
use pilothouse_sim::search::{Executor, FaultSelection, SearchOptions, all_plans, search};
use pilothouse_sim::world::{World, fix_hash_order, fix_other_hash_order};
use pilothouse_sim::{WorldError, oracle, rules};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::cli::simulation::{Sim, SimOutput};
use crate::{CommandError, CommandResult, output, shutdown};
use inputs::PluginInput;
use progress::Progress;
pub(super) use progress::trace_name;
use subject::Subject;

/// What is printed if the simulator itself has an error.
const PANICKED: &str = "the simulation panicked, which is an error of Pilothouse; report it with the output";
/// The number of findings after which a search ends.
const MAX_FINDINGS: usize = 20;

pub(super) async fn run(mut flags: Sim) -> CommandResult {
    // Before anything else has a hash map. The process that repeats runs has another order: nothing may depend on it.
    let fixed = if flags.print_calls.is_some() { fix_other_hash_order() } else { fix_hash_order() };
    if let Err(error) = fixed {
        tracing::warn!("other processes may find other hashes: {error}");
    }
    if flags.rules {
        output::print_line(rules::markdown_table());
        output::print_line(oracle::markdown_table().trim_end());
        return Ok(());
    }
    if flags.recording.is_some() && flags.plugins.len() != 1 {
        return Err(CommandError::Usage("--recording: give exactly one plugin".to_owned()));
    }
    let stop = shutdown::on_signal()?;
    projects::find_scenarios(&mut flags)?;
    flags.scenario.iter().try_for_each(|file| scenario_check::check(file))?;
    // Holds the files of built projects until the end.
    let _built = Box::pin(projects::build(&mut flags, &stop)).await?;
    if let (Some(recording), [plugin]) = (&flags.recording, flags.plugin_files()) {
        let limits = inputs::limits_beside(plugin)?;
        let plugin = super::sim_recording::Plugin::new(plugin, limits, flags.cache_dir.clone())?;
        return super::sim_recording::run(recording, plugin).await;
    }
    on_own_thread(move || simulate(&flags, &stop)).await
}

/// Runs work on a thread of its own. Worlds have runtimes of their own, which cannot be started on a thread of this one.
async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CommandError> + Send + 'static,
) -> Result<T, CommandError> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("simulation".to_owned()).spawn(move || {
        let _ = sender.send(work());
    });
    // Nothing was found, so these are no failures (exit code 1).
    thread.map_err(|error| CommandError::Usage(format!("cannot start a thread: {error}; try again")))?;
    receiver.await.unwrap_or_else(|_| Err(CommandError::Usage(PANICKED.to_owned())))
}

fn simulate(flags: &Sim, stop: &CancellationToken) -> CommandResult {
    if let Some(trace) = &flags.replay {
        return replay::run(flags, trace);
    }
    let searches = each_scenario(flags);
    if let Some(position) = flags.print_calls {
        let problem = || CommandError::Usage(format!("--print-calls {position}: there is no such scenario"));
        let flags = searches.get(position).ok_or_else(problem)?;
        return determinism::print_calls(flags, scenario_of(flags));
    }
    if flags.hashes.is_some() && searches.len() > 1 {
        return Err(CommandError::Usage("--hashes: give at most one scenario".to_owned()));
    }
    let mut found = 0;
    for (position, flags) in searches.iter().enumerate() {
        found += if flags.check_determinism {
            determinism::check(flags, scenario_of(flags), position)?
        } else if flags.diff.is_empty() {
            search_and_print(flags, stop)?
        } else {
            compare_in(flags, scenario_of(flags), stop)?
        };
        if stop.is_cancelled() {
            break;
        }
    }
    outcome(found, stop.is_cancelled())
}

/// Returns the result of a command with this number of findings. A search that was interrupted has shown nothing.
fn outcome(found: usize, is_interrupted: bool) -> CommandResult {
    match found {
        0 if is_interrupted => Err(CommandError::Failure("interrupted".to_owned())),
        0 => Ok(()),
        1 => Err(CommandError::Failure("1 finding".to_owned())),
        found => Err(CommandError::Failure(format!("{found} findings"))),
    }
}

/// Returns the flags for each scenario alone, so that the names and replay commands of its traces are its own.
fn each_scenario(flags: &Sim) -> Vec<Sim> {
    if flags.scenario.len() < 2 {
        return vec![flags.clone()];
    }
    let alone = |scenario: &PathBuf| {
        let mut flags = flags.clone();
        flags.scenario = vec![scenario.clone()];
        flags.derived.trace_prefix = trace_prefix(scenario);
        flags
    };
    flags.scenario.iter().map(alone).collect()
}

/// Returns what the names of a scenario's traces begin with if several scenarios are searched.
pub(super) fn trace_prefix(scenario: &Path) -> String {
    format!("{}-", scenario.file_stem().unwrap_or_default().to_string_lossy())
}

/// Returns the scenario if there is one; otherwise objects are generated.
fn scenario_of(flags: &Sim) -> Option<&Path> {
    flags.scenario.first().map(PathBuf::as_path)
}

/// The result of a search.
struct SearchResult {
    subject: Subject,
    report: Report,
    /// The lines about all findings.
    stories: Vec<String>,
    seconds: f64,
    /// When each finding was shrunk and saved, in seconds since the start.
    finding_seconds: Vec<f64>,
}

/// Searches in one scenario, or with generated objects, and prints the result. Returns the number of findings.
fn search_and_print(flags: &Sim, stop: &CancellationToken) -> Result<usize, CommandError> {
    let result = search_once(flags, stop)?;
    report::print(flags, &result);
    Ok(result.report.findings.len())
}

/// Searches in one scenario, or with generated objects. Must not be called on a thread of an async runtime.
fn search_once(flags: &Sim, stop: &CancellationToken) -> Result<SearchResult, CommandError> {
    let subject = Subject::new(flags, scenario_of(flags), &PluginInput::files_of(flags))?;
    let oracles = subject.oracles()?;
    let executor = executor_of(flags, &subject)?;
    let mut progress = Progress::new(flags, &subject, stop);
    if let Some(file) = &flags.hashes {
        progress.write_hashes_to(file)?;
    }
    let options = SearchOptions {
        seed: flags.seed,
        strategies: flags.strategy.clone(),
        faults: faults_of(flags, &subject),
        budget: flags.budget(),
        shrinks: !flags.no_shrink,
        max_findings: flags.derived.max_findings.unwrap_or(MAX_FINDINGS),
        shorter_tasks: subject.shorter_tasks(),
        histories: subject.histories(),
    };
    let searched = search(&options, &oracles, &executor, &mut progress).map_err(|error| unusable(&error))?;
    progress.finish()?;
    let seconds = progress.seconds();
    let (stories, finding_seconds) = progress.into_findings();
    Ok(SearchResult { subject, report: searched.report, stories, seconds, finding_seconds })
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
    let reference = Plan::new(flags.seed, Vec::new());
    let points = Points::of(&old_executor.run(&reference).map_err(|error| unusable(&error))?);
    let faults = faults_of(flags, old);
    let plans = all_plans(flags.seed, &flags.strategy, &points, &faults);
    let progress = Progress::new(flags, old, stop);
    let budget = flags.budget();
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

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn flags(arguments: &[&str]) -> Sim {
        Sim::of_arguments(arguments.iter().map(OsString::from)).expect("valid arguments")
    }

    #[test]
    fn each_of_several_scenarios_has_traces_of_its_own() {
        let searches = each_scenario(&flags(&["a.wasm", "--scenario", "s/x.yaml", "--scenario", "y.yaml"]));
        let found: Vec<_> = searches
            .iter()
            .map(|flags| (flags.scenario.clone(), trace_name(&flags.derived.trace_prefix, 1)))
            .collect();
        let expected = [("s/x.yaml", "x-finding-1.trace"), ("y.yaml", "y-finding-1.trace")];
        assert_eq!(found, expected.map(|(file, trace)| (vec![PathBuf::from(file)], trace.to_owned())));
    }

    #[test]
    fn one_scenario_or_none_has_traces_without_a_prefix() {
        for arguments in [&["a.wasm"][..], &["a.wasm", "--scenario", "x.yaml"]] {
            let searches = each_scenario(&flags(arguments));
            assert_eq!(searches.len(), 1);
            assert_eq!(searches[0].derived.trace_prefix, "");
            assert_eq!(searches[0].scenario, flags(arguments).scenario);
        }
    }

    #[tokio::test]
    async fn a_panic_of_the_simulator_is_no_finding() {
        let result: Result<(), _> = on_own_thread(|| panic!("an error of the simulator")).await;
        assert!(matches!(result, Err(CommandError::Usage(text)) if text.contains("panicked")));
    }

    #[test]
    fn a_search_that_was_interrupted_is_no_success() {
        let text = |found, is_interrupted| match outcome(found, is_interrupted) {
            Err(CommandError::Failure(text)) => text,
            _ => String::new(),
        };
        assert_eq!([text(0, false), text(0, true), text(2, true)], ["", "interrupted", "2 findings"]);
    }
}
