//! The benchmarks that print figures of their own: through wasm, starting and reloading, density.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{guests, host};

/// Objects of `figure`, `unit`, `value`, perhaps `target`, and `beside`.
pub(super) fn wasm(root: &Path) -> Result<Vec<Value>> {
    guests::build_small(root, &["probe"])?;
    let mut lines = Vec::new();
    let host = super::programs::host(root)?.display().to_string();
    for (bench, arguments) in [("guest", &[] as &[_]), ("start", &["--binary", &*host])] {
        let text = cargo_bench(root, bench, arguments)?;
        lines.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
    }
    Ok(lines)
}

/// Tables in Markdown.
pub(super) fn density(root: &Path) -> Result<String> {
    let host = super::programs::host(root)?.display().to_string();
    let guest = |name: &str| root.join(format!("examples/target/guests/{name}.wasm")).display().to_string();
    let guests = ["secret-replicator", "pod-counter", "label-propagator"].map(guest);
    let [rust, c, javascript] = guests.each_ref().map(String::as_str);
    // A thousand distinct files in Rust and C; those in JavaScript would take half an hour to compile.
    let many = ["--sizes", "1,10,100,1000", "--guest", rust, "--guest", c];
    let few = ["--sizes", "1,10,100", "--guest", javascript];
    let rest = ["--idle", "100", "--peers", "100", "--binary", &host];
    cargo_bench(root, "density", &[&many[..], &few, &rest].concat())
}

/// What a bench printed on standard output.
pub(super) fn cargo_bench(root: &Path, name: &str, arguments: &[&str]) -> Result<String> {
    println!("bench: {name}");
    let output = host::cargo()
        .current_dir(root)
        .args(["bench", "--locked", "--package", "pilothouse-bench", "--bench", name, "--"])
        .args(arguments)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("start cargo bench")?;
    ensure!(output.status.success(), "the bench {name} failed (see above): {}", output.status);
    String::from_utf8(output.stdout).context("its output is not UTF-8")
}
