//! `cargo xtask instructions`: compares the instruction counts of the hot paths with those of `bench/instructions.json`, and those of a reconcile
//! with and without tracing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::callgrind::CountedProgram;
use super::{recording_instructions, tracing_instructions};

/// Options of `cargo xtask instructions`.
#[derive(Debug, Args)]
pub(crate) struct InstructionsArguments {
    /// Update bench/instructions.json instead of comparing.
    #[arg(long)]
    update: bool,
    /// Count only these.
    #[arg(long, value_enum, conflicts_with = "update")]
    only: Option<Counted>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Counted {
    /// The paths of objects and of watch events.
    HotPaths,
    /// A reconcile with and without tracing.
    Tracing,
    /// A reconcile with and without a recording.
    Recording,
}

/// The paths that `hot_path` runs, each with two numbers of repetitions.
const PATHS: [(&str, [u64; 2]); 4] = [
    ("parse", [1_000, 3_000]),
    ("list", [1_000, 3_000]),
    ("watch", [2_000, 6_000]),
    ("realistic-watch", [4_000, 20_000]),
];

/// Accepted ratio to the previous count. Counts vary slightly, because hash maps have random seeds.
const TOLERANCE: f64 = 1.05;

/// Counts the instructions and compares them with `bench/instructions.json`. With `--update`, writes the file instead.
///
/// # Errors
/// Errors if a path takes more instructions than before, beyond [`TOLERANCE`], or tracing or recording takes more than it may.
pub(crate) fn run(root: &Path, arguments: &InstructionsArguments) -> Result<()> {
    let is_selected = |counted| arguments.only.is_none_or(|only| only == counted);
    if is_selected(Counted::HotPaths) {
        hot_paths(root, arguments.update)?;
    }
    if is_selected(Counted::Tracing) {
        tracing_instructions::measure(root)?;
    }
    if is_selected(Counted::Recording) {
        recording_instructions::measure(root)?;
    }
    Ok(())
}

fn hot_paths(root: &Path, update: bool) -> Result<()> {
    let program = CountedProgram::build(root, "--bin", "hot_path")?;
    let mut counts = BTreeMap::new();
    for (path, repetitions) in PATHS {
        // The same process generates the text of the list and the realistic events; its instructions are subtracted.
        let fixture = match path {
            "list" => program.of_each("fixture", repetitions)?,
            "realistic-watch" => program.of_each("realistic-fixture", repetitions)?,
            _ => 0,
        };
        let each = program.of_each(path, repetitions)?.saturating_sub(fixture);
        println!("instructions: {path}: {each} for each object");
        counts.insert(path, each);
    }
    let file = root.join("bench/instructions.json");
    if update {
        let text = serde_json::to_string_pretty(&json!(counts)).context("write the counts")?;
        return fs::write(&file, text + "\n").with_context(|| format!("write {}", file.display()));
    }
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let known: BTreeMap<String, u64> =
        serde_json::from_str(&text).with_context(|| format!("read {}", file.display()))?;
    for (path, each) in counts {
        let Some(&before) = known.get(path) else { bail!("{} has no {path:?}", file.display()) };
        ensure!(
            each as f64 <= before as f64 * TOLERANCE,
            "{path} takes {each} instructions, {before} before: find out why, or accept it with `cargo xtask instructions --update`"
        );
    }
    Ok(())
}
