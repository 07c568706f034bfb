//! The simulations of `pilothouse test`: a small search in each scenario of the project.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_sim::finding::Stop;
use tokio_util::sync::CancellationToken;

use super::{each_scenario, on_own_thread, search_once};
use crate::CommandError;
use crate::cli::simulation::Sim;

/// The number of runs in each scenario, unless the user gives one.
const RUNS: u64 = 200;
/// How long a search takes at most, unless the user gives a number of runs.
const MAX_TIME: &str = "10s";
/// The number of findings after which a search ends: the first ones are enough to fail.
const MAX_FINDINGS: usize = 3;

/// A search in one scenario that is to be made.
pub(in crate::commands::developer_tools) struct TestSearch(Sim);

/// The result of a search.
pub(in crate::commands::developer_tools) struct TestSearchResult {
    /// The scenario's name.
    pub(in crate::commands::developer_tools) name: String,
    pub(in crate::commands::developer_tools) duration: Duration,
    /// How many runs were made.
    pub(in crate::commands::developer_tools) runs: u64,
    /// How many runs were allowed, if the time was used up before.
    pub(in crate::commands::developer_tools) allowed_runs: Option<u64>,
    /// The number of findings.
    pub(in crate::commands::developer_tools) findings: usize,
    /// Which situations the runs have created.
    pub(in crate::commands::developer_tools) situations: Vec<String>,
    /// The lines about all findings.
    pub(in crate::commands::developer_tools) stories: Vec<String>,
}

/// Returns a search for each scenario. `plugin` is what the user has named, `file` its .wasm file. Traces are saved in `traces`,
/// compiled plugins in `cache_dir`.
///
/// # Errors
/// Returns a usage error if a path cannot be an argument of `sim`.
pub(in crate::commands::developer_tools) fn searches(
    plugin: &Path,
    file: &Path,
    scenarios: &[PathBuf],
    traces: &Path,
    runs: Option<u64>,
    cache_dir: Option<&Path>,
) -> Result<Vec<TestSearch>, CommandError> {
    let mut flags = Sim::of_arguments(arguments(scenarios, traces, runs)).map_err(CommandError::Usage)?;
    flags.plugins = vec![plugin.to_owned()];
    flags.derived.files = vec![file.to_owned()];
    flags.derived.max_findings = Some(MAX_FINDINGS);
    flags.cache_dir = cache_dir.map(Path::to_owned);
    Ok(each_scenario(&flags).into_iter().map(TestSearch).collect())
}

/// Returns the arguments of the searches, except for the plugin. The format makes the search print no findings itself.
fn arguments(scenarios: &[PathBuf], traces: &Path, runs: Option<u64>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        vec!["--output".into(), "json".into(), "--traces".into(), traces.into(), "--seeds".into()];
    arguments.push(runs.unwrap_or(RUNS).to_string().into());
    if runs.is_none() {
        arguments.push("--time".into());
        arguments.push(MAX_TIME.into());
    }
    for scenario in scenarios {
        arguments.push("--scenario".into());
        arguments.push(scenario.into());
    }
    arguments
}

impl TestSearch {
    /// Searches.
    ///
    /// # Errors
    /// Returns a usage error if the scenario is invalid or the plugin cannot be simulated, and a failure if `stop` is cancelled.
    pub(in crate::commands::developer_tools) async fn run(
        self,
        stop: &CancellationToken,
    ) -> Result<TestSearchResult, CommandError> {
        let (flags, token) = (self.0, stop.clone());
        let seeds = flags.seeds;
        let search = move || {
            let result = search_once(&flags, &token)?;
            Ok((result.subject.name(), result.report, result.stories, result.seconds))
        };
        let (name, report, stories, seconds) = on_own_thread(search).await?;
        if stop.is_cancelled() {
            return Err(CommandError::Failure("interrupted".to_owned()));
        }
        let has_used_time_up = report.stopped == Stop::Budget;
        Ok(TestSearchResult {
            name,
            duration: Duration::from_secs_f64(seconds),
            runs: report.runs,
            allowed_runs: seeds.filter(|seeds| has_used_time_up && report.runs < *seeds),
            findings: report.findings.len(),
            situations: report.notes().chain(report.coverage.summary()).collect(),
            stories,
        })
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sim::search::Budget;

    use super::*;

    fn searches_with(runs: Option<u64>, scenarios: &[&str]) -> Vec<TestSearch> {
        let scenarios: Vec<_> = scenarios.iter().map(PathBuf::from).collect();
        let (plugin, file) = (Path::new("greeter"), Path::new("built/greeter.wasm"));
        searches(plugin, file, &scenarios, Path::new("greeter/.pilothouse"), runs, Some(Path::new("c")))
            .expect("searches")
    }

    #[test]
    fn a_search_is_small_unless_the_user_gives_a_number_of_runs() {
        let budget = |runs| searches_with(runs, &["a.yaml"])[0].0.budget();
        assert_eq!(budget(None), Budget::Both(200, Duration::from_secs(10)));
        assert_eq!(budget(Some(5_000)), Budget::Runs(5_000));
    }

    #[test]
    fn each_scenario_is_searched_alone_with_the_file_that_was_built() {
        let searches = searches_with(None, &["s/a.yaml", "s/b.yaml"]);
        assert_eq!(searches.len(), 2);
        for (TestSearch(flags), name) in searches.iter().zip(["a", "b"]) {
            assert_eq!(flags.scenario, [PathBuf::from(format!("s/{name}.yaml"))]);
            assert_eq!(flags.plugin_files(), [PathBuf::from("built/greeter.wasm")]);
            assert_eq!(flags.derived.trace_prefix, format!("{name}-"));
            assert_eq!(flags.cache_dir, Some(PathBuf::from("c")));
        }
    }
}
