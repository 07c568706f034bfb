//! `cargo xtask soak`: the informer against a hostile server, for as many seeds as there is time, and with a subscriber that
//! is stuck while millions of events pass; then a plugin's reload under load, in full size.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::host;

/// Runs that many seeds. A failing one is printed by the test, with the way to run it alone.
pub(crate) fn run(root: &Path, seeds: u64) -> Result<()> {
    println!("soak: {seeds} seeds, in release mode (the first time compiles for some minutes)");
    let status = host::cargo()
        .current_dir(root)
        .args(["test", "--locked", "--release", "--package", "pilothouse-informer"])
        .args(["--test", "convergence", "--test", "stuck", "--", "--include-ignored", "--nocapture"])
        .env("PILOTHOUSE_SEEDS", seeds.to_string())
        .status()
        .context("start cargo to soak the informer")?;
    ensure!(status.success(), "a seed failed (see above): {status}");
    println!("soak: 1,000 reloads while 10,000 objects change");
    let status = host::cargo()
        .current_dir(root)
        .args(["test", "--locked", "--release", "--package", "pilothouse-controller"])
        .args(["--test", "reload", "--", "--nocapture"])
        .envs([("PILOTHOUSE_RELOADS", "1000"), ("PILOTHOUSE_OBJECTS", "10000")])
        .status()
        .context("start cargo to soak reloads")?;
    ensure!(status.success(), "a reload lost something (see above): {status}");
    Ok(())
}
