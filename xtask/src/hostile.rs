//! `cargo xtask hostile`: every attack on the release build of the host, and most of them at once for some minutes.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::{guests, host};

/// Runs the suite of attacks in release mode, with a siege of so many seconds.
pub(crate) fn run(root: &Path, seconds: u64) -> Result<()> {
    guests::build(root, &["conformance", "hostile"], || host::build(root))?;
    println!(
        "hostile: every attack, then most of them at once for {seconds} s, in release mode (the first time compiles for some minutes)"
    );
    let status = host::cargo()
        .current_dir(root)
        .args(["test", "--locked", "--release", "--package", "pilothouse", "--test", "e2e"])
        .args(["--", "hostile::", "--nocapture", "--test-threads", "1"])
        .env("PILOTHOUSE_SIEGE_SECONDS", seconds.to_string())
        .status()
        .context("start cargo to attack the host")?;
    ensure!(status.success(), "an attack hurt the host or a neighbour (see above): {status}");
    Ok(())
}
