//! `cargo xtask fuzz`: fuzzes everything that parses untrusted input.
//!
//! `host/fuzz` links libFuzzer as a crate, and compiler flags instrument the project's crates for coverage. This needs a C++ compiler but
//! neither cargo-fuzz nor a nightly compiler, and it shares the compiled wasmtime with the tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{cargo, guests, host};

/// The names of the targets in `host/fuzz`.
const TARGETS: [&str; 9] = [
    "loader",
    "sidecar",
    "descriptor",
    "selector",
    "predicate",
    "json_path",
    "object",
    "imports",
    "requests",
];
/// Memory limit of a run in MiB, including the compiler that the target `loader` runs.
const MEMORY_LIMIT_MIB: u32 = 2048;
/// Time limit for one input in seconds.
const INPUT_TIMEOUT_SECONDS: u32 = 60;

/// Runs one target, or all of them in turn, for `seconds` each.
pub(crate) fn run(root: &Path, target: Option<&str>, seconds: u64) -> Result<()> {
    let targets: Vec<&str> = match target {
        Some(name) if TARGETS.contains(&name) => vec![name],
        Some(name) => bail!("unknown fuzz target {name:?}; the targets are {}", TARGETS.join(", ")),
        None => TARGETS.to_vec(),
    };
    let has_compiler =
        Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success());
    ensure!(
        has_compiler,
        "building libFuzzer requires the C++ compiler `c++`, which was not found: install g++ or clang"
    );
    if targets.contains(&"imports") {
        guests::build(root, &["hostile"], || host::build(root))?;
    }
    println!("fuzz: building the targets (takes several minutes the first time)");
    let messages = host::run_cargo_json(
        cargo::cargo()
            .current_dir(root)
            .args(["build", "--locked", "--workspace", "--features", "pilothouse-fuzz/libfuzzer"])
            .args(["--bin", "pilothouse-fuzz"])
            .env("RUSTC_WORKSPACE_WRAPPER", root.join("host/fuzz/instrument.sh")),
    )?;
    let binary = host::find_executable(&messages, "pilothouse-fuzz")?;
    targets.into_iter().try_for_each(|target| fuzz(root, &binary, target, seconds))
}

fn fuzz(root: &Path, binary: &Path, target: &str, seconds: u64) -> Result<()> {
    let folder = root.join("target/fuzz").join(target);
    let (seeds, corpus, findings) = (folder.join("seeds"), folder.join("corpus"), folder.join("findings"));
    for folder in [&seeds, &corpus, &findings] {
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    }
    println!("fuzz: {target} for {seconds} s; new inputs are written to {}", corpus.display());
    let status = Command::new(binary)
        .env("PILOTHOUSE_FUZZ_TARGET", target)
        .env("PILOTHOUSE_FUZZ_SEEDS", &seeds)
        .args([&corpus, &seeds])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MEMORY_LIMIT_MIB}"))
        .arg(format!("-timeout={INPUT_TIMEOUT_SECONDS}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args(["-max_len=65536", "-print_final_stats=1"])
        .status()
        .context("start the fuzzer")?;
    ensure!(
        status.success(),
        "{target} failed with an input in {} (see above); once the bug is fixed, add the input to host/fuzz/corpus/{target}, as \
         NAME.hex if it is not text",
        findings.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus_and_every_corpus_a_target() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/fuzz/corpus");
        let mut folders: Vec<_> = fs::read_dir(corpus)
            .expect("a corpus")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        folders.sort();
        let mut targets = TARGETS.map(str::to_owned);
        targets.sort();
        assert_eq!(folders, targets);
    }
}
