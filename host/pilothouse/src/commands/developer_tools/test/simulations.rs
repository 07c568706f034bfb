//! The simulations of a project: which ones `test` runs, and their results as those of scenarios.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::report::ScenarioResult;
use crate::CommandError;
use crate::cli::developer_tools::Test;
use crate::commands::developer_tools::simulation_files;
use crate::commands::developer_tools::staged_plugin::StagedPlugin;

/// The folder for the traces of findings, beside the plugin. Git and `dev --build` ignore it.
#[cfg(feature = "simulation")]
const TRACES: &str = ".pilothouse";

/// Makes the simulations of this process repeatable in others. Must be called before anything else has a hash map.
#[cfg(feature = "simulation")]
pub(super) fn prepare() {
    if let Err(error) = pilothouse_sim::world::fix_hash_order() {
        tracing::warn!("other processes may find other hashes: {error}");
    }
}

/// Does nothing: this build cannot simulate.
#[cfg(not(feature = "simulation"))]
pub(super) fn prepare() {}

/// Returns the files of the simulations that the flags select: those of the folder, unless single scenarios are named.
///
/// # Errors
/// Returns a usage error if the folder cannot be read.
pub(super) fn find(flags: &Test, folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    if flags.no_sim || !flags.scenario.is_empty() {
        return Ok(Vec::new());
    }
    let files = simulation_files::find(folder)?;
    if cfg!(feature = "simulation") || files.is_empty() {
        return Ok(files);
    }
    eprintln!(
        "note: simulations are left out, because this pilothouse was built without the Cargo feature `simulation`; use a build with the \
         default features"
    );
    Ok(Vec::new())
}

/// Checks the scenarios of simulations, before the plugin is built.
///
/// # Errors
/// Returns a usage error that names the file, its line and what to do.
#[cfg(feature = "simulation")]
pub(super) fn check(files: &[PathBuf]) -> Result<(), CommandError> {
    use crate::commands::developer_tools::sim::scenario_check;

    files.iter().try_for_each(|file| scenario_check::check(file))
}

/// Does nothing: [`find`] returns no file.
///
/// # Errors
/// Never.
#[cfg(not(feature = "simulation"))]
pub(super) fn check(_: &[PathBuf]) -> Result<(), CommandError> {
    Ok(())
}

/// Runs the simulations, and adds their results.
///
/// # Errors
/// Returns a usage error if one of them cannot be run, and a failure if it was interrupted.
#[cfg(feature = "simulation")]
pub(super) async fn run(
    flags: &Test,
    folder: &Path,
    plugin: &StagedPlugin,
    files: &[PathBuf],
    stop: &CancellationToken,
    results: &mut Vec<ScenarioResult>,
) -> Result<(), CommandError> {
    use crate::commands::developer_tools::sim::of_test::searches;

    if files.is_empty() {
        return Ok(());
    }
    let traces = if folder == Path::new(".") { PathBuf::from(TRACES) } else { folder.join(TRACES) };
    let cache_dir = flags.cache_dir.as_deref();
    for search in searches(&flags.plugin, &plugin.file(), files, &traces, flags.sim_seeds, cache_dir)? {
        let result = search.run(stop).await?;
        super::add(result_of(result), results, flags.output);
    }
    Ok(())
}

/// Does nothing: [`find`] returns no file.
///
/// # Errors
/// Never.
#[cfg(not(feature = "simulation"))]
pub(super) async fn run(
    _: &Test,
    _: &Path,
    _: &StagedPlugin,
    _: &[PathBuf],
    _: &CancellationToken,
    _: &mut Vec<ScenarioResult>,
) -> Result<(), CommandError> {
    Ok(())
}

#[cfg(feature = "simulation")]
fn result_of(search: crate::commands::developer_tools::sim::of_test::TestSearchResult) -> ScenarioResult {
    use super::report::{Failure, TestKind};

    let runs = match search.allowed_runs {
        Some(allowed) => format!("{} of {allowed}", search.runs),
        None => search.runs.to_string(),
    };
    let failure = (search.findings > 0).then(|| Failure {
        summary: format!("{} finding{}", search.findings, if search.findings == 1 { "" } else { "s" }),
        details: search.stories,
    });
    ScenarioResult {
        kind: TestKind::Simulation { runs },
        name: search.name,
        duration: search.duration,
        notes: search.situations,
        failure,
    }
}

#[cfg(all(test, feature = "simulation"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::commands::developer_tools::sim::of_test::TestSearchResult;
    use crate::commands::developer_tools::test::report;

    fn search(findings: usize, allowed_runs: Option<u64>) -> TestSearchResult {
        TestSearchResult {
            name: "recreation".to_owned(),
            duration: Duration::from_secs(1),
            runs: 57,
            allowed_runs,
            findings,
            situations: vec!["crashed before 2 and after 3 of 4 writes".to_owned()],
            stories: vec!["FOUND orphan".to_owned(); findings],
        }
    }

    #[test]
    fn a_finding_is_a_failure_and_an_early_end_is_shown() {
        let lines = report::text_of(&result_of(search(0, Some(200))));
        let expected = [
            "pass  simulation recreation (57 of 200 runs, 1.0 s)",
            "      crashed before 2 and after 3 of 4 writes",
        ];
        assert_eq!(lines, expected);
        let lines = report::text_of(&result_of(search(2, None)));
        let expected = [
            "FAIL  simulation recreation (57 runs, 1.0 s)",
            "      crashed before 2 and after 3 of 4 writes",
            "      2 findings",
            "      FOUND orphan",
            "      FOUND orphan",
        ];
        assert_eq!(lines, expected);
    }
}
