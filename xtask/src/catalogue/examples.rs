//! `cargo xtask catalogue --examples`: simulates the other plugins of examples/, in which nothing must be found.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::report::Report;
use super::simulate;
use crate::guests::{self, Guest};

/// The plugins that do what no controller should: one deletes what others create, the other attacks the host.
const EXCLUDED: [&str; 2] = ["delete-everything", "hostile"];
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
        for surroundings in surroundings_of(&folder, &guest)? {
            let mut arguments: Vec<&str> = seeds.iter().flat_map(|seeds| ["--seeds", *seeds]).collect();
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
    !EXCLUDED.contains(&name)
}

/// Copies the manifests of an example, if it has any, to a folder beside its plugin. One that is named like the plugin is its sidecar, and is
/// copied to where `pilothouse sim` finds it. Returns the folder.
fn copy_manifests(example: &Path, guest: &Guest) -> Result<Option<PathBuf>> {
    let manifests = example.join("manifests");
    if !manifests.is_dir() {
        return Ok(None);
    }
    let objects = guest.wasm.with_extension("objects");
    fs::create_dir_all(&objects).with_context(|| format!("create {}", objects.display()))?;
    for file in files_in(&manifests)? {
        let target = match file.file_stem().is_some_and(|stem| *stem == *guest.name) {
            true => guest.wasm.with_extension("yaml"),
            false => objects.join(file.file_name().unwrap_or_default()),
        };
        fs::copy(&file, &target)
            .with_context(|| format!("copy {} to {}", file.display(), target.display()))?;
    }
    Ok(Some(objects))
}

/// Returns the .yaml files in a folder, sorted.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let files: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = files.with_context(|| format!("read {}", folder.display()))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}

/// Returns what an example is simulated in: each of its scenarios; without any, its manifests, or else generated objects.
fn surroundings_of(example: &Path, guest: &Guest) -> Result<Vec<Surroundings>> {
    let simulations = example.join("simulations");
    if simulations.is_dir() {
        return Ok(files_in(&simulations)?.into_iter().map(Surroundings::Scenario).collect());
    }
    Ok(vec![Surroundings::Generated(copy_manifests(example, guest)?)])
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
    fn all_examples_but_those_that_misbehave_on_purpose_are_simulated() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let names = guests::names(&root).expect("the examples");
        let excluded: Vec<_> = names.iter().filter(|name| !is_included(name)).collect();
        assert_eq!(excluded, EXCLUDED.iter().collect::<Vec<_>>());
    }

    #[test]
    fn an_example_is_simulated_in_its_scenarios_or_with_its_manifests() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let output = tempfile::tempdir().expect("a folder");
        let names = |example: &str| {
            let wasm = output.path().join(example).with_extension("wasm");
            let guest = Guest { name: example.to_owned(), wasm };
            let found = surroundings_of(&root.join(example), &guest).expect("a folder");
            found.iter().map(Surroundings::name).collect::<Vec<_>>()
        };
        assert_eq!(names("sample-controller-js"), ["recreation.yaml"]);
        assert_eq!(names("label-propagator"), ["its manifests"]);
        assert_eq!(names("probe"), ["generated objects"]);
        let objects = files_in(&output.path().join("label-propagator.objects")).expect("objects");
        assert!(objects.iter().any(|file| file.ends_with("shop.yaml")), "{objects:?}");
        assert!(!objects.iter().any(|file| file.ends_with("label-propagator.yaml")), "{objects:?}");
        assert!(output.path().join("label-propagator.yaml").is_file(), "the sidecar");
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
