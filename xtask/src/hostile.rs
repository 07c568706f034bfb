//! `cargo xtask hostile`: runs the attack tests against the release build of the host, including most attacks at once for some minutes.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::{cargo, guests, host};

/// Runs the attack tests in release mode. `seconds` is the duration of the test that combines the attacks.
pub(crate) fn run(root: &Path, seconds: u64) -> Result<()> {
    guests::build(root, &["conformance", "hostile"], || host::build(root))?;
    println!(
        "hostile: each attack, then most attacks at once for {seconds} s, in release mode (compiles for several minutes the first time)"
    );
    let status = cargo::cargo()
        .current_dir(root)
        .args(["test", "--locked", "--release", "--package", "pilothouse", "--test", "e2e"])
        .args(["--", "hostile::", "--nocapture", "--test-threads", "1"])
        .env("PILOTHOUSE_COMBINED_ATTACK_SECONDS", seconds.to_string())
        .status()
        .context("start cargo to run the attack tests")?;
    ensure!(status.success(), "an attack affected the host or another plugin (see above): {status}");
    Ok(())
}
