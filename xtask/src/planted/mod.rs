//! `cargo xtask planted`: inserts known bugs into a copy of the host, one at a time, and checks that `pilothouse sim` finds them with correct
//! plugins. With the unchanged host, the same searches must find nothing.

mod outcome;
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::catalogue::report::Report;
use crate::catalogue::{FOLDER, simulate};
use crate::guests::build_rust_examples;
use crate::{cargo, checkout, host};
use outcome::DetectionOutcome;
use table::{Bug, Bugs};

/// Where everything is built, from the root of the repository.
const OUTPUT: &str = "target/planted";
/// The package of the plugins, in the workspace of the examples.
const PACKAGE: &str = "catalogue";
/// How long each search may take.
const BUDGET: &str = "60s";

/// The options of the command.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Names of the bugs; all by default.
    names: Vec<String>,
    /// Build the host in release mode. That takes several minutes for each bug, but the searches make more runs.
    #[arg(long)]
    release: bool,
}

/// What is simulated for a bug: a plugin and a scenario.
type Subject<'b> = (&'b str, &'b str);

/// Builds the plugins, simulates them with the unchanged host and with each bug, and prints a line for each search.
///
/// # Errors
/// Errors if something does not build or run, a bug is not found, or the unchanged host is reported.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let bugs = Bugs::read(root)?;
    let bugs = selected(&bugs, &arguments.names)?;
    let output = root.join(OUTPUT);
    let plugins = build_plugins(root, &output, &bugs)?;
    let hosts = Hosts { root, checkout: output.join("checkout"), release: arguments.release };
    checkout::copy_to(root, &hosts.checkout)?;
    let search = |host: &Path, name: &str, (plugin, scenario): Subject<'_>| {
        let traces = output.join("traces").join(name);
        let scenario = root.join(FOLDER).join(scenario);
        let plugin = plugins.join(plugin).with_extension("wasm");
        simulate(host, &plugin, Some(&scenario), &traces, &["--time", BUDGET])
    };
    println!("planted: building the unchanged host (takes several minutes the first time)");
    let unchanged = hosts.build()?;
    println!("{}", outcome::HEADER);
    let mut problems = Vec::new();
    let mut judge = |name: &str, report: &Report, outcome: DetectionOutcome| {
        println!("{}", outcome::line(name, report, &outcome));
        if let DetectionOutcome::Problem(problem) = outcome {
            problems.push(format!("{name}: {problem}"));
        }
    };
    for subject in bugs.iter().map(|bug| bug.subject()).collect::<BTreeSet<_>>() {
        let report = search(&unchanged, "unchanged", subject)?;
        judge(&format!("unchanged: {}", subject.0), &report, DetectionOutcome::of_unchanged(&report));
    }
    for bug in bugs {
        let report = hosts.with_bug(bug, |host| search(host, &bug.name, bug.subject()))?;
        judge(&bug.name, &report, DetectionOutcome::of_bug(bug, &report));
    }
    ensure!(problems.is_empty(), "planted:\n  {}", problems.join("\n  "));
    Ok(())
}

/// Returns the bugs with these names, or all of them.
fn selected<'b>(bugs: &'b Bugs, names: &[String]) -> Result<Vec<&'b Bug>> {
    if let Some(unknown) = names.iter().find(|name| bugs.bugs.iter().all(|bug| bug.name != **name)) {
        let known: Vec<_> = bugs.bugs.iter().map(|bug| bug.name.as_str()).collect();
        bail!("unknown bug {unknown:?}; the bugs are {}", known.join(", "));
    }
    Ok(bugs.bugs.iter().filter(|bug| names.is_empty() || names.contains(&bug.name)).collect())
}

/// Builds the plugins of the bugs into one folder, with their sidecars. Returns the folder.
fn build_plugins(root: &Path, output: &Path, bugs: &[&Bug]) -> Result<PathBuf> {
    let folder = output.join("plugins");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let names: BTreeSet<&str> = bugs.iter().map(|bug| bug.plugin.as_str()).collect();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let copy = |source: &Path, target: &Path| {
        let copied = fs::copy(source, target);
        copied.with_context(|| format!("copy {} to {}", source.display(), target.display()))
    };
    for guest in build_rust_examples(root, PACKAGE, &names)? {
        copy(&guest.wasm, &folder.join(format!("{}.wasm", guest.name)))?;
    }
    for bug in bugs {
        if let Some(sidecar) = &bug.sidecar {
            copy(&root.join(FOLDER).join(sidecar), &folder.join(&bug.plugin).with_extension("yaml"))?;
        }
    }
    Ok(folder)
}

/// Builds hosts from a copy of the working tree. All of them share a target directory.
struct Hosts<'r> {
    root: &'r Path,
    checkout: PathBuf,
    release: bool,
}

impl Hosts<'_> {
    /// Calls `search` with a host that has the bug. The copy has no bug afterwards.
    fn with_bug<T>(&self, bug: &Bug, search: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let path = self.checkout.join(&bug.file);
        let source = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let changed = bug.insert(&source)?;
        fs::write(&path, changed).with_context(|| format!("write {}", path.display()))?;
        let searched =
            self.build().with_context(|| format!("the bug {}", bug.name)).and_then(|host| search(&host));
        fs::write(&path, source).with_context(|| format!("restore {}", path.display()))?;
        searched
    }

    /// Builds the host of the copy. Returns its program, which the next build replaces.
    fn build(&self) -> Result<PathBuf> {
        host::require_make()?;
        let mut command = cargo::cargo();
        command
            .current_dir(&self.checkout)
            .args(["build", "--quiet", "--locked", "--package", "pilothouse", "--bin", "pilothouse"])
            .args(self.release.then_some("--release"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            // Without any optimisation, a search makes few runs in its time.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        if std::env::var_os("CARGO_TARGET_DIR").is_none() {
            command.env("CARGO_TARGET_DIR", self.root.join(OUTPUT).join("target"));
        }
        host::find_executable(&host::run_cargo_json(&mut command)?, "pilothouse")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_an_unknown_bug_lists_the_bugs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let bugs = Bugs::read(&root).expect("the bugs");
        assert_eq!(selected(&bugs, &[]).expect("all").len(), bugs.bugs.len());
        assert_eq!(selected(&bugs, &["stale-index".to_owned()]).expect("one").len(), 1);
        let error = selected(&bugs, &["stale".to_owned()]).expect_err("unknown").to_string();
        assert!(error.contains("unknown bug \"stale\"") && error.contains("stale-index"), "{error}");
    }
}
