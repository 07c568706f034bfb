//! `cargo xtask test`: runs all tests.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::{api, cargo, guests, host, tidy};

/// Runs the tidy checks, builds the host and the guests, then runs the tests of the guests' workspace and of the host's, and checks the
/// published crates.
pub(crate) fn run(root: &Path) -> Result<()> {
    tidy::run(root)?;
    // Compiles everything with the tests' features from the start, so that nothing is compiled twice.
    let binary = host::build_with_tests(root)?;
    guests::build(root, &[], || Ok(binary))?;
    guests::test(root)?;
    println!("host: testing the workspace");
    let status = cargo::cargo()
        .current_dir(root)
        .args(["test", "--locked", "--workspace", "--features", "xtask/full"])
        .status()
        .context("start cargo to test the host")?;
    ensure!(status.success(), "tests of the host failed (see above): {status}");
    api::run(root, false)?;
    api::package(root)
}
