//! Runs the benchmarks that print their own figures: calls through wasm, starts and reloads, density.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{cargo, guests, host};

/// Runs the benchmarks `guest` and `start`. Returns JSON objects with `figure`, `unit`, `value`, `beside` and optionally `target`.
pub(super) fn wasm(root: &Path) -> Result<Vec<Value>> {
    guests::build_small(root, &["probe"])?;
    // The guests of the benchmark `start`.
    guests::build(root, &["secret-replicator", "acceptance-python"], || host::build(root))?;
    let mut lines = Vec::new();
    let host = super::programs::host(root)?.display().to_string();
    for (bench, arguments) in [("guest", &[] as &[_]), ("start", &["--binary", &*host])] {
        let text = cargo_bench(root, bench, arguments)?;
        lines.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
    }
    Ok(lines)
}

/// Runs the benchmark `density`. Returns its results.
pub(super) fn density(root: &Path) -> Result<Value> {
    let host = super::programs::host(root)?.display().to_string();
    guests::build(root, &["secret-replicator", "pod-counter", "label-propagator"], || host::build(root))?;
    let guest = |name: &str| root.join(format!("examples/target/guests/{name}.wasm")).display().to_string();
    let guests = ["secret-replicator", "pod-counter", "label-propagator"].map(guest);
    let [rust, c, javascript] = guests.each_ref().map(String::as_str);
    // Up to a thousand distinct plugins in Rust and C, but only a hundred in JavaScript: a thousand take half an hour to compile.
    let many = ["--sizes", "1,10,100,1000", "--guest", rust, "--guest", c];
    let few = ["--sizes", "1,10,100", "--guest", javascript];
    let rest = ["--idle", "100", "--peers", "100", "--binary", &host];
    let text = cargo_bench(root, "density", &[&many[..], &few, &rest].concat())?;
    let results = text.lines().find_map(|line| serde_json::from_str(line).ok());
    results.with_context(|| format!("the benchmark density printed no results: {text:?}"))
}

/// Runs `cargo bench` and returns what the benchmark printed to standard output.
pub(super) fn cargo_bench(root: &Path, name: &str, arguments: &[&str]) -> Result<String> {
    println!("bench: {name}");
    let output = cargo::cargo()
        .current_dir(root)
        .args(["bench", "--locked", "--package", "pilothouse-bench", "--bench", name, "--"])
        .args(arguments)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("start cargo bench")?;
    ensure!(output.status.success(), "the benchmark {name} failed (see above): {}", output.status);
    String::from_utf8(output.stdout).context("the benchmark's output is not UTF-8")
}
