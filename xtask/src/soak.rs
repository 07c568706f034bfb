//! `cargo xtask soak`: runs the long tests in release mode. These are the informer's convergence test against a faulty server over many
//! seeds, a stuck subscriber while millions of events pass, and a plugin's reload under full load.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// Runs all long tests, with `seeds` seeds of the convergence test. For a failing seed, the test prints how to run it alone.
pub(crate) fn run(root: &Path, seeds: u64) -> Result<()> {
    println!("soak: {seeds} seeds, in release mode (compiles for several minutes the first time)");
    let status = cargo::cargo()
        .current_dir(root)
        .args(["test", "--locked", "--release", "--package", "pilothouse-informer"])
        .args(["--test", "convergence", "--test", "stuck", "--", "--include-ignored", "--nocapture"])
        .env("PILOTHOUSE_SEEDS", seeds.to_string())
        .status()
        .context("start cargo to soak the informer")?;
    ensure!(status.success(), "the informer's tests failed (see above): {status}");
    println!("soak: 1,000 reloads while 10,000 objects change");
    let status = cargo::cargo()
        .current_dir(root)
        .args(["test", "--locked", "--release", "--package", "pilothouse-controller"])
        .args(["--test", "reload", "--", "--nocapture"])
        .envs([("PILOTHOUSE_RELOADS", "1000"), ("PILOTHOUSE_OBJECTS", "10000")])
        .status()
        .context("start cargo to soak reloads")?;
    ensure!(status.success(), "the reload test failed (see above): {status}");
    Ok(())
}
