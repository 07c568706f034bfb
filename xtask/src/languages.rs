//! `cargo xtask languages`: writes `docs/languages.md`, what each guest language costs.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::{guests, host};

const DOCUMENT: &str = "docs/languages.md";

const HEAD: &str = "<!-- Made by `cargo xtask languages`. -->

# What each language costs

The acceptance plugin (`examples/acceptance`), the same in each language, measured inside the host's engine in release mode: medians on one machine with two
cores, to be compared with each other. A reconcile is one `cache.get`, the reading of two fields and a log line. Memory is the linear memory of one
instance after them; compiled code is shared by all instances.

";

/// Builds the acceptance plugins and the benchmark, runs it and writes the table.
///
/// # Errors
/// When something does not build or run.
pub(crate) fn run(root: &Path) -> Result<()> {
    let names = ["wat", "c", "rust", "js", "go", "python"].map(|language| format!("acceptance-{language}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let built = guests::build(root, &names, || host::build(root))?;
    let folder = built.first().and_then(|guest| guest.wasm.parent()).context("no guest was built")?;
    let output = host::cargo()
        .current_dir(root)
        .args([
            "run",
            "--locked",
            "--release",
            "--package",
            "pilothouse-bench",
            "--example",
            "languages",
            "--",
        ])
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo to run the benchmark")?;
    ensure!(output.status.success(), "the benchmark failed (see above): {}", output.status);
    let table = String::from_utf8(output.stdout).context("the benchmark's output")?;
    fs::write(root.join(DOCUMENT), format!("{HEAD}{table}")).with_context(|| format!("write {DOCUMENT}"))?;
    println!("languages: {DOCUMENT}");
    Ok(())
}
