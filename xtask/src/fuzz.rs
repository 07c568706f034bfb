//! `cargo xtask fuzz`: inputs that nobody thought of, for everything that reads foreign bytes.
//!
//! libFuzzer is linked into `host/fuzz` as a crate, and the compiler's own flags count coverage in the project's crates: neither cargo-fuzz
//! nor a nightly compiler is needed, and wasmtime and its compiler are those of the tests. A C++ compiler is needed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{guests, host};

/// The targets, as `host/fuzz` calls them.
const TARGETS: [&str; 8] =
    ["loader", "sidecar", "descriptor", "selector", "predicate", "json_path", "object", "imports"];
/// Megabytes that a run may use, the loader's compiler included.
const MEMORY: u32 = 2048;
/// Seconds that one input may take.
const SECONDS_PER_INPUT: u32 = 60;

/// Runs the target, or each in turn, for so many seconds.
pub(crate) fn run(root: &Path, target: Option<&str>, seconds: u64) -> Result<()> {
    let targets: Vec<&str> = match target {
        Some(name) if TARGETS.contains(&name) => vec![name],
        Some(name) => bail!("there is no fuzz target {name:?}; there are: {}", TARGETS.join(", ")),
        None => TARGETS.to_vec(),
    };
    let has_compiler =
        Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success());
    ensure!(has_compiler, "libFuzzer is in C++, and there is no `c++`: install g++ or clang");
    if targets.contains(&"imports") {
        guests::build(root, &["hostile"], || host::build(root))?;
    }
    println!("fuzz: building the targets (the first time takes some minutes)");
    let messages = host::messages(
        host::cargo()
            .current_dir(root)
            .args(["build", "--locked", "--workspace", "--features", "pilothouse-fuzz/libfuzzer"])
            .args(["--bin", "pilothouse-fuzz"])
            .env("RUSTC_WORKSPACE_WRAPPER", root.join("host/fuzz/instrument.sh")),
    )?;
    let binary = host::executable(&messages, "pilothouse-fuzz")?;
    targets.into_iter().try_for_each(|target| fuzz(root, &binary, target, seconds))
}

fn fuzz(root: &Path, binary: &Path, target: &str, seconds: u64) -> Result<()> {
    let folder = root.join("target/fuzz").join(target);
    let (seeds, found, findings) = (folder.join("seeds"), folder.join("corpus"), folder.join("findings"));
    for folder in [&seeds, &found, &findings] {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    println!("fuzz: {target} for {seconds} s; what is new goes to {}", found.display());
    let status = Command::new(binary)
        .env("PILOTHOUSE_FUZZ_TARGET", target)
        .env("PILOTHOUSE_FUZZ_SEEDS", &seeds)
        .args([&found, &seeds])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-timeout={SECONDS_PER_INPUT}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args(["-max_len=65536", "-print_final_stats=1"])
        .status()
        .context("start the fuzzer")?;
    ensure!(
        status.success(),
        "{target}: an input in {} breaks what must hold (see above); once it is mended, add the input to host/fuzz/corpus/{target}, bytes \
         that are no text as NAME.hex",
        findings.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_are_those_that_have_a_corpus() {
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
