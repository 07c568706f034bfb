//! How many instructions the hot paths take, counted by valgrind: the same whatever else the machine does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::host;

/// What `hot_path` is asked to do, and two numbers of times: their difference has no start-up in it.
const PATHS: [(&str, [usize; 2]); 3] =
    [("parse", [1_000, 3_000]), ("list", [1_000, 3_000]), ("watch", [2_000, 6_000])];

/// Hash maps have random seeds, so that runs differ a little.
const TOLERANCE: f64 = 1.05;

/// Counts, and compares with `bench/instructions.json`: more than before is an error, unless the file is to be written.
pub(crate) fn run(root: &Path, update: bool) -> Result<()> {
    println!("instructions: building hot_path");
    let mut cargo = host::cargo();
    cargo.current_dir(root).args([
        "build",
        "--locked",
        "--release",
        "-p",
        "pilothouse-bench",
        "--bin",
        "hot_path",
    ]);
    let program = host::executable(&host::messages(&mut cargo)?, "hot_path")?;
    let mut counts = BTreeMap::new();
    for (path, [few, many]) in PATHS {
        let each = |path: &str| -> Result<u64> {
            let difference = count(&program, path, many)? - count(&program, path, few)?;
            Ok(difference / (many - few) as u64)
        };
        // A list's text is made in the same process.
        let fixture = if path == "list" { each("fixture")? } else { 0 };
        let each = each(path)?.saturating_sub(fixture);
        println!("instructions: {path}: {each} for each object of 3.5 KB");
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

fn count(program: &Path, path: &str, times: usize) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([path, &times.to_string()])
        .output()
        .context("start valgrind; install it (Debian: apt-get install valgrind)")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "hot_path {path} failed: {text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    let count = collected.and_then(|(_, count)| count.trim().parse().ok());
    count.with_context(|| format!("valgrind told no count: {text}"))
}
