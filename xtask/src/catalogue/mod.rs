//! `cargo xtask catalogue`: simulates both twins of every bug in examples/catalogue, and prints which were found.

mod examples;
pub(crate) mod exported;
mod guests;
mod limits;
mod outcome;
mod readme;
pub(crate) mod report;
mod simulate;
mod table;
mod variants;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};

use crate::{cargo, host};
use limits::Measures;
use outcome::CaseOutcome;
use report::Report;
pub(crate) use simulate::simulate;
use table::{Case, Catalogue, Twin};

/// The folder of the catalogue, in the repository.
pub(crate) const FOLDER: &str = "examples/catalogue";

/// The options of the command.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Names of the cases, or of the examples; all by default.
    names: Vec<String>,
    /// Use this `pilothouse` instead of building one in release mode.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    /// Use the plugins in this folder instead of building them.
    #[arg(long, value_name = "DIR", conflicts_with = "examples")]
    plugins: Option<PathBuf>,
    /// Simulate with generated objects in place of the scenarios: at least half of the wrong twins must be found, and no right one reported.
    #[arg(long)]
    without_scenarios: bool,
    /// Number of runs of each simulation, in place of the default.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Simulate the wrong twins with N master seeds each, and print with which share of them each was found; at least 95 % are needed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "without_scenarios")]
    master_seeds: Option<u64>,
    /// Simulate the cases that the host's guarantees hide with the guarantees on: nothing must be found, except with lost answers or after a
    /// restart into the past.
    #[arg(long, value_enum, value_name = "MODE", conflicts_with_all = ["without_scenarios", "master_seeds"])]
    guarantees: Option<Guarantees>,
    /// Simulate the other plugins of examples/ instead: nothing must be found.
    #[arg(long, conflicts_with_all = ["without_scenarios", "master_seeds", "guarantees"])]
    examples: bool,
    /// Also fail if the median of the wrong twins takes more than 1 s, or has more than 8 steps. Only meaningful if nothing else runs.
    #[arg(long, conflicts_with_all = ["without_scenarios", "master_seeds", "guarantees", "examples"])]
    limits: bool,
    /// Simulate nothing, and only write the table of examples/catalogue/README.md.
    #[arg(long, conflicts_with_all = ["names", "host", "plugins", "without_scenarios", "seeds", "master_seeds", "guarantees", "examples", "limits"])]
    readme: bool,
}

/// The value of `--guarantees`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Guarantees {
    On,
}

/// What the simulations of one command have in common.
struct Setting<'a> {
    root: &'a Path,
    /// The `pilothouse` binary.
    host: PathBuf,
    /// The folder with the plugins.
    plugins: PathBuf,
    /// The number of runs, as text.
    seeds: Option<String>,
}

impl Setting<'_> {
    /// Returns the scenario of a case.
    fn scenario(&self, case: &Case) -> PathBuf {
        self.root.join(FOLDER).join(&case.scenario)
    }

    /// Simulates a twin in a scenario, or with generated objects.
    ///
    /// # Errors
    /// Errors if the simulation cannot run.
    fn simulate(
        &self,
        case: &Case,
        twin: Twin,
        scenario: Option<&Path>,
        arguments: &[&str],
    ) -> Result<Report> {
        let plugin = self.plugins.join(case.plugin(twin));
        let seeds = self.seeds.iter().flat_map(|seeds| ["--seeds", seeds.as_str()]);
        let arguments: Vec<&str> = seeds.chain(arguments.iter().copied()).collect();
        simulate(&self.host, &plugin, scenario, &plugin.with_extension("traces"), &arguments)
    }
}

/// Builds the plugins of the cases, simulates each, and prints a line for each.
///
/// # Errors
/// Errors if something does not build or run, a wrong twin is not found or exceeds a limit, a right one is reported, or a known gap is closed.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let catalogue = Catalogue::read(root)?;
    if arguments.readme {
        return readme::update(root, &catalogue);
    }
    let seeds = arguments.seeds.map(|seeds| seeds.to_string());
    if arguments.examples {
        let host = arguments.host.clone().map_or_else(|| build_host(root), Ok)?;
        return examples::run(root, &host, &arguments.names, seeds.as_deref());
    }
    let mut cases = selected(&catalogue, &arguments.names)?;
    if arguments.guarantees.is_some() {
        cases.retain(|case| case.guarantees == "none");
        ensure!(!cases.is_empty(), "--guarantees on: none of these cases is hidden by the host's guarantees");
    }
    let host = arguments.host.clone().map_or_else(|| build_host(root), Ok)?;
    let plugins = arguments.plugins.clone().map_or_else(|| guests::build(root, &cases), Ok)?;
    let setting = Setting { root, host, plugins, seeds };
    if let Some(seeds) = arguments.master_seeds {
        return variants::with_master_seeds(&setting, &cases, seeds);
    }
    println!("{}", outcome::HEADER);
    if arguments.guarantees.is_some() {
        return variants::with_guarantees(&setting, &cases);
    }
    if arguments.without_scenarios {
        return variants::without_scenarios(&setting, &cases);
    }
    let mut problems = Vec::new();
    let mut measures = Measures::default();
    for case in cases {
        for twin in [Twin::Wrong, Twin::Right] {
            let report = setting.simulate(case, twin, Some(&setting.scenario(case)), &[])?;
            let outcome = CaseOutcome::of(case, twin, &report, catalogue.gap(case, twin));
            println!("{}", outcome::line(case, twin, &report, &outcome));
            if let CaseOutcome::Problem(problem) = outcome {
                problems.push(format!("{}: {problem}", case.plugin(twin)));
            }
            if let (Twin::Wrong, Some(finding)) = (twin, report.findings.first()) {
                problems.extend(measures.add(case.plugin(twin), finding));
            }
        }
    }
    println!("{}", measures.line());
    if arguments.limits {
        problems.extend(measures.problems());
    }
    ensure!(problems.is_empty(), "catalogue:\n  {}", problems.join("\n  "));
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
