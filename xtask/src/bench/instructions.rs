//! `cargo xtask instructions`: counts the instructions of the hot paths with valgrind. Unlike times, the counts do not depend on the
//! load of the machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::tracing_instructions;
use crate::{cargo, host};

/// The paths that `hot_path` runs, each with two numbers of repetitions. The difference of the counts excludes the start-up.
const PATHS: [(&str, [usize; 2]); 4] = [
    ("parse", [1_000, 3_000]),
    ("list", [1_000, 3_000]),
    ("watch", [2_000, 6_000]),
    ("realistic-watch", [4_000, 20_000]),
];

/// Accepted ratio to the previous count. Counts vary slightly, because hash maps have random seeds.
const TOLERANCE: f64 = 1.05;

/// Counts the instructions and compares them with `bench/instructions.json`. With `update`, writes the file instead.
///
/// # Errors
/// Errors if a path takes more instructions than before, beyond [`TOLERANCE`].
pub(crate) fn run(root: &Path, update: bool) -> Result<()> {
    println!("instructions: building hot_path");
    let mut cargo = cargo::cargo();
    cargo.current_dir(root).args([
        "build",
        "--locked",
        "--release",
        "-p",
        "pilothouse-bench",
        "--bin",
        "hot_path",
    ]);
    let program = host::find_executable(&host::run_cargo_json(&mut cargo)?, "hot_path")?;
    let mut counts = BTreeMap::new();
    for (path, [few, many]) in PATHS {
        let each = |path: &str| -> Result<u64> {
            let counted = |times: usize| count(&program, &[path, &times.to_string()]);
            let difference = counted(many)? - counted(few)?;
            Ok(difference / (many - few) as u64)
        };
        // The same process generates the text of the list and the realistic events; its instructions are subtracted.
        let fixture = match path {
            "list" => each("fixture")?,
            "realistic-watch" => each("realistic-fixture")?,
            _ => 0,
        };
        let each = each(path)?.saturating_sub(fixture);
        println!("instructions: {path}: {each} for each object");
        counts.insert(path, each);
    }
    tracing_instructions::measure(root)?;
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

/// Returns the number of instructions of a program with these arguments.
///
/// # Errors
/// Errors if valgrind is not installed, or the program fails.
pub(super) fn count(program: &Path, arguments: &[&str]) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .output()
        .context("start valgrind; install it (Debian: apt-get install valgrind)")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {} failed: {text}", program.display(), arguments.join(" "));
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    let count = collected.and_then(|(_, count)| count.trim().parse().ok());
    count.with_context(|| format!("valgrind reported no instruction count: {text}"))
}
