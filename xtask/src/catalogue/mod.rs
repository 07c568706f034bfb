//! `cargo xtask catalogue`: simulates both twins of every bug in examples/catalogue, and prints which were found.

pub(crate) mod exported;
mod guests;
mod readme;
pub(crate) mod report;
mod table;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::{cargo, host};
use report::Report;
use table::{Case, Catalogue, Twin};
use verdict::Verdict;

/// The folder of the catalogue, in the repository.
pub(crate) const FOLDER: &str = "examples/catalogue";

/// The options of the command.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Names of the cases; all by default.
    names: Vec<String>,
    /// Use this `pilothouse` instead of building one in release mode.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    /// Simulate with generated objects in place of the scenarios: at least half of the wrong twins must be found, and no right one reported.
    #[arg(long)]
    without_scenarios: bool,
    /// Simulate nothing, and only write the table of examples/catalogue/README.md.
    #[arg(long, conflicts_with_all = ["names", "host", "without_scenarios"])]
    readme: bool,
}

/// Builds the plugins of the cases, simulates each, and prints a line for each.
///
/// # Errors
/// Errors if something does not build or run, a wrong twin is not found, a right one is reported, or a known gap is closed.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let catalogue = Catalogue::read(root)?;
    if arguments.readme {
        return readme::update(root, &catalogue);
    }
    let cases = selected(&catalogue, &arguments.names)?;
    let binary = arguments.host.clone().map_or_else(|| build_host(root), Ok)?;
    let plugins = guests::build(root, &cases)?;
    println!("{}", verdict::HEADER);
    if arguments.without_scenarios {
        return without_scenarios(&binary, &plugins, &cases);
    }
    let mut problems = Vec::new();
    for case in cases {
        for twin in [Twin::Wrong, Twin::Right] {
            let plugin = plugins.join(case.plugin(twin));
            let scenario = root.join(FOLDER).join(&case.scenario);
            let report = simulate(&binary, &plugin, Some(&scenario), &plugin.with_extension("traces"), &[])?;
            let verdict = Verdict::of(case, twin, &report, catalogue.gap(case, twin));
            println!("{}", verdict::line(case, twin, &report, &verdict));
            if let Verdict::Problem(problem) = verdict {
                problems.push(format!("{}: {problem}", case.plugin(twin)));
            }
        }
    }
    ensure!(problems.is_empty(), "catalogue:\n  {}", problems.join("\n  "));
    Ok(())
}

/// Simulates each plugin of the cases with generated objects, and prints a line for each.
///
/// # Errors
/// Errors if the simulation cannot run, fewer than half of the wrong twins are found, or a right one is reported.
fn without_scenarios(host: &Path, plugins: &Path, cases: &[&Case]) -> Result<()> {
    let (mut found, mut problems) = (0, Vec::new());
    for case in cases {
        for twin in [Twin::Wrong, Twin::Right] {
            let plugin = plugins.join(case.plugin(twin));
            let report = simulate(host, &plugin, None, &plugin.with_extension("traces"), &[])?;
            println!("{}", verdict::line(case, twin, &report, &Verdict::Correct));
            match (twin, report.findings.first()) {
                (Twin::Wrong, first) => found += usize::from(first.is_some()),
                (Twin::Right, None) => {}
                (Twin::Right, Some(finding)) => {
                    problems.push(format!(
                        "{}: {}: {}",
                        case.plugin(twin),
                        finding.oracle,
                        finding.explanation
                    ));
                }
            }
        }
    }
    println!("found {found} of {} wrong twins", cases.len());
    ensure!(problems.is_empty(), "right twins were reported:\n  {}", problems.join("\n  "));
    ensure!(found * 2 >= cases.len(), "fewer than half of the wrong twins were found");
    Ok(())
}

/// Returns a line for each mistake in the catalogue: a missing file, a gap of an unknown case, a table in the README that is not up to date.
///
/// # Errors
/// Errors if a file cannot be read.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let catalogue = Catalogue::read(root)?;
    let mut found = catalogue.problems(&|path| root.join(FOLDER).join(path).is_file());
    found.extend(readme::problem(root, &catalogue)?);
    Ok(found)
}

/// Returns the cases with these names, or all of them.
fn selected<'c>(catalogue: &'c Catalogue, names: &[String]) -> Result<Vec<&'c Case>> {
    if names.is_empty() {
        return Ok(catalogue.cases.iter().collect());
    }
    let mut found = Vec::new();
    for name in names {
        match catalogue.cases.iter().find(|case| case.name == *name) {
            Some(case) => found.push(case),
            None => {
                let known: Vec<_> = catalogue.cases.iter().map(|case| case.name.as_str()).collect();
                bail!("unknown case {name:?}; the cases are {}", known.join(", "));
            }
        }
    }
    Ok(found)
}

/// Builds `pilothouse` in release mode.
///
/// # Errors
/// Errors if it does not build.
pub(crate) fn build_host(root: &Path) -> Result<PathBuf> {
    host::require_make()?;
    println!("host: building pilothouse in release mode (takes several minutes the first time)");
    let arguments = ["build", "--locked", "--release", "--package", "pilothouse", "--bin", "pilothouse"];
    let messages = host::run_cargo_json(cargo::cargo().current_dir(root).args(arguments))?;
    host::find_executable(&messages, "pilothouse")
}

/// Runs `pilothouse sim` with further arguments, and saves the traces of its findings in `traces`. Without a scenario, objects are generated.
///
/// # Errors
/// Errors if the simulation cannot run.
pub(crate) fn simulate(
    host: &Path,
    plugin: &Path,
    scenario: Option<&Path>,
    traces: &Path,
    arguments: &[&str],
) -> Result<Report> {
    fs::create_dir_all(traces).with_context(|| format!("create {}", traces.display()))?;
    let mut command = Command::new(host);
    command.arg("sim").arg(plugin).arg("--traces").arg(traces).args(["-o", "json"]).args(arguments);
    if let Some(scenario) = scenario {
        command.arg("--scenario").arg(scenario);
    }
    let output = command.output().with_context(|| format!("start {}", host.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let (plugin, status) = (plugin.display(), output.status);
    // 0: nothing was found. 1: something was found. 2: the simulation could not run.
    ensure!(matches!(status.code(), Some(0 | 1)), "`pilothouse sim {plugin}` ended with {status}:\n{errors}");
    let text = String::from_utf8(output.stdout).context("the output of `pilothouse sim` is not UTF-8")?;
    let report = Report::parse(&text).with_context(|| {
        format!("the output of `pilothouse sim {plugin}`, which ended with {status}:\n{errors}")
    })?;
    let count = report.findings.len();
    ensure!(
        (count > 0) == (status.code() == Some(1)),
        "`pilothouse sim {plugin}` has {count} findings, but ended with {status}"
    );
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_an_unknown_case_lists_the_cases() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let catalogue = Catalogue::read(&root).expect("the catalogue");
        assert_eq!(selected(&catalogue, &[]).expect("all").len(), catalogue.cases.len());
        assert_eq!(selected(&catalogue, &["fresh-time".to_owned()]).expect("one").len(), 1);
        let error = selected(&catalogue, &["fresh".to_owned()]).expect_err("unknown").to_string();
        assert!(error.contains("unknown case \"fresh\"") && error.contains("fresh-time"), "{error}");
    }
}
