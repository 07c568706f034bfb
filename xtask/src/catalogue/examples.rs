//! `cargo xtask catalogue --examples`: simulates the other plugins of examples/, in which nothing must be found.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::report::Report;
use super::simulate;
use crate::guests;

/// The plugins that do what no controller should.
const EXCLUDED: [&str; 4] = [
    // Deletes what others create.
    "delete-everything",
    // Attacks the host.
    "hostile",
    // Trap, loop and fail when an object asks for it.
    "conformance",
    "acceptance-",
];
/// The header of the printed table.
const HEADER: &str =
    "example                           simulated in            runs  seconds  memory MiB  result";

/// What an example is simulated in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Surroundings {
    Scenario(PathBuf),
    /// Objects that are generated, or taken from this folder.
    Generated(Option<PathBuf>),
}

impl Surroundings {
    fn name(&self) -> String {
        match self {
            Self::Scenario(file) => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Self::Generated(Some(_)) => "its manifests".to_owned(),
            Self::Generated(None) => "generated objects".to_owned(),
        }
    }
}

/// Builds the examples with these names, or all of them, simulates each, and prints a line for each simulation.
///
/// # Errors
/// Errors if an example does not build, a simulation cannot run, or something is found.
pub(super) fn run(root: &Path, host: &Path, names: &[String], seeds: Option<&str>) -> Result<()> {
    let known: Vec<_> = guests::names(root)?.into_iter().filter(|name| is_included(name)).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("unknown example {unknown:?}; those that are simulated are {}", known.join(", "));
    }
    let selected = if names.is_empty() { &known } else { names };
    let selected: Vec<_> = selected.iter().map(String::as_str).collect();
    let built = guests::build(root, &selected, || Ok(host.to_owned()))?;
    println!("{HEADER}");
    let mut problems = Vec::new();
    for guest in built {
        let folder = root.join("examples").join(&guest.name);
        for surroundings in surroundings_of(&folder)? {
            let mut arguments: Vec<&str> = seeds.iter().flat_map(|seeds| ["--seeds", seeds]).collect();
            let scenario = match &surroundings {
                Surroundings::Scenario(file) => Some(file.as_path()),
                Surroundings::Generated(objects) => {
                    if let Some(objects) = objects {
                        arguments.extend(["--objects", objects.to_str().context("the path is not UTF-8")?]);
                    }
                    None
                }
            };
            let report =
                simulate(host, &guest.wasm, scenario, &guest.wasm.with_extension("traces"), &arguments)?;
            println!("{}", line(&guest.name, &surroundings, &report));
            let found = report.findings.iter();
            problems.extend(found.map(|finding| {
                format!(
                    "{} in {}: {}: {}",
                    guest.name,
                    surroundings.name(),
                    finding.oracle,
                    finding.explanation
                )
            }));
        }
    }
    ensure!(problems.is_empty(), "correct examples were reported:\n  {}", problems.join("\n  "));
    Ok(())
}

fn is_included(name: &str) -> bool {
    !EXCLUDED.iter().any(|excluded| match excluded.ends_with('-') {
        true => name.starts_with(excluded),
        false => name == *excluded,
    })
}

/// Returns what an example is simulated in: each of its scenarios; without any, its manifests, or else generated objects.
fn surroundings_of(folder: &Path) -> Result<Vec<Surroundings>> {
    let simulations = folder.join("simulations");
    if simulations.is_dir() {
        let entries =
            fs::read_dir(&simulations).with_context(|| format!("read {}", simulations.display()))?;
        let files: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut files = files.with_context(|| format!("read {}", simulations.display()))?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
        return Ok(files.into_iter().map(Surroundings::Scenario).collect());
    }
    let manifests = folder.join("manifests");
    Ok(vec![Surroundings::Generated(manifests.is_dir().then_some(manifests))])
}

/// Returns the line of a simulation in the printed table.
fn line(name: &str, surroundings: &Surroundings, report: &Report) -> String {
    let memory = report.peak_mib.map_or_else(|| "-".to_owned(), |peak| peak.to_string());
    let result = match report.findings.first() {
        None => "nothing found".to_owned(),
        Some(finding) => format!("found: {}", finding.oracle),
    };
    let (place, runs, seconds) = (surroundings.name(), report.runs, report.seconds);
    format!("{name:<33} {place:<19} {runs:>8} {seconds:>8.1} {memory:>11}  {result}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_that_misbehave_on_purpose_are_excluded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let names = guests::names(&root).expect("the examples");
        let excluded: Vec<_> = names.iter().filter(|name| !is_included(name)).collect();
        assert!(excluded.iter().any(|name| *name == "hostile"), "{excluded:?}");
        assert!(excluded.iter().all(|name| EXCLUDED.iter().any(|excluded| name.starts_with(excluded))));
        let controllers: Vec<_> = names.iter().filter(|name| name.starts_with("sample-controller")).collect();
        assert!(
            controllers.len() >= 6 && controllers.iter().all(|name| is_included(name)),
            "{controllers:?}"
        );
    }

    #[test]
    fn an_example_is_simulated_in_its_scenarios_or_with_its_manifests() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let names = |example: &str| {
            let found = surroundings_of(&root.join(example)).expect("a folder");
            found.iter().map(Surroundings::name).collect::<Vec<_>>()
        };
        assert_eq!(names("sample-controller-js"), ["recreation.yaml"]);
        assert_eq!(names("ttl-cleaner"), ["its manifests"]);
        assert_eq!(names("probe"), ["generated objects"]);
    }

    #[test]
    fn a_line_has_the_columns_of_the_header() {
        let report = Report { seconds: 9.71, runs: 2000, findings: Vec::new(), peak_mib: Some(151) };
        let line = line("ttl-cleaner", &Surroundings::Generated(None), &report);
        assert_eq!(
            line,
            "ttl-cleaner                       generated objects       2000      9.7         151  nothing found"
        );
        assert_eq!(HEADER.find("result"), line.find("nothing"));
    }
}
