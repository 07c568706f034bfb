//! `cargo xtask determinism`: makes the same search with a debug and with a release build of the host, and with one and two threads, and
//! compares the hashes of all runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::catalogue::{build_host, simulate};
use crate::guests::build_rust;
use crate::host;

/// The plugin that is simulated by default.
const PLUGIN: &str = "sample-controller";

/// The options of the command.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of runs.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    seeds: u64,
    /// The plugin; by default, the sample controller is built.
    #[arg(long, value_name = "FILE.wasm")]
    plugin: Option<PathBuf>,
    /// Search in this scenario. Without one, objects are generated.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Use this `pilothouse` instead of building one in debug mode.
    #[arg(long, value_name = "FILE")]
    debug_host: Option<PathBuf>,
    /// Use this `pilothouse` instead of building one in release mode.
    #[arg(long, value_name = "FILE")]
    release_host: Option<PathBuf>,
}

/// A search whose runs are compared.
struct Variant<'a> {
    name: &'static str,
    host: &'a Path,
    threads: &'static str,
}

/// Builds what is missing, makes the searches, and prints for each how many runs are the same.
///
/// # Errors
/// Errors if something does not build or run, or if a run differs.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let output = root.join("target/determinism");
    fs::create_dir_all(&output).with_context(|| format!("create {}", output.display()))?;
    let plugin = arguments.plugin.clone().map_or_else(|| build_plugin(root, &output), Ok)?;
    let debug = arguments.debug_host.clone().map_or_else(|| host::build(root), Ok)?;
    let release = arguments.release_host.clone().map_or_else(|| build_host(root), Ok)?;
    let variants = [
        Variant { name: "release, 1 thread", host: &release, threads: "1" },
        Variant { name: "release, 2 threads", host: &release, threads: "2" },
        Variant { name: "debug, 1 thread", host: &debug, threads: "1" },
        Variant { name: "debug, 2 threads", host: &debug, threads: "2" },
    ];
    let mut first: Option<(&str, String)> = None;
    let mut problems = Vec::new();
    for variant in variants {
        let hashes = variant.hashes(&plugin, arguments, &output)?;
        let count = hashes.lines().count();
        match &first {
            None => {
                println!("{}: {count} runs", variant.name);
                first = Some((variant.name, hashes));
            }
            Some((_, expected)) if *expected == hashes => {
                println!("{}: {count} runs, all the same", variant.name);
            }
            Some((name, expected)) => {
                println!("{}: {count} runs, {} differ", variant.name, differing(expected, &hashes));
                problems.push(format!(
                    "{} and {name}: {}",
                    variant.name,
                    first_difference(expected, &hashes)
                ));
            }
        }
    }
    ensure!(
        problems.is_empty(),
        "the runs depend on the build or the number of threads:\n  {}",
        problems.join("\n  ")
    );
    Ok(())
}

/// Builds the default plugin. Returns its file, which is called as the plugin, and not as cargo calls the crate.
fn build_plugin(root: &Path, output: &Path) -> Result<PathBuf> {
    let built = build_rust(root, &root.join("examples"), &[PLUGIN.to_owned()], &[])?;
    let wasm = built.into_iter().next().context("cargo built no plugin")?.wasm;
    let plugin = output.join(PLUGIN).with_extension("wasm");
    fs::copy(&wasm, &plugin).with_context(|| format!("copy {} to {}", wasm.display(), plugin.display()))?;
    Ok(plugin)
}

impl Variant<'_> {
    /// Makes the search. Returns a line with hash and plan for each run.
    fn hashes(&self, plugin: &Path, arguments: &Arguments, output: &Path) -> Result<String> {
        let file = output.join("hashes");
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
        };
        let (seeds, hashes) = (arguments.seeds.to_string(), text(&file)?);
        let further = ["--seeds", &seeds, "--threads", self.threads, "--hashes", &hashes];
        simulate(self.host, plugin, arguments.scenario.as_deref(), output, &further)?;
        fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))
    }
}

/// Returns how many runs differ, with those that only one side has.
fn differing(expected: &str, found: &str) -> usize {
    let (expected, found): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let both = expected.iter().zip(&found).filter(|(expected, found)| expected != found).count();
    both + expected.len().abs_diff(found.len())
}

/// Describes the first run that differs, by its number and the lines of both sides.
fn first_difference(expected: &str, found: &str) -> String {
    let common =
        expected.lines().zip(found.lines()).take_while(|(expected, found)| expected == found).count();
    let line = |text: &str| text.lines().nth(common).unwrap_or("no such run").to_owned();
    format!("run {} is {:?} instead of {:?}", common + 1, line(found), line(expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_that_differs_is_described() {
        assert_eq!(differing("a\nb\n", "a\nb\n"), 0);
        assert_eq!(differing("a\nb\nc\n", "a\nx\n"), 2);
        assert_eq!(first_difference("a\nb\nc\n", "a\nx\n"), r#"run 2 is "x" instead of "b""#);
        assert_eq!(first_difference("a\nb\n", "a\n"), r#"run 2 is "no such run" instead of "b""#);
    }
}
