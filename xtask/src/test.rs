//! `cargo xtask test`: every test there is.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{guests, host, tidy};

/// Builds the guests, then runs the tests of the guests' workspace and of the host's, and the tidy checks.
pub(crate) fn run(root: &Path) -> Result<()> {
    tidy::run(root)?;
    guests::build(root, &[])?;
    guests::test(root)?;
    println!("host: testing the workspace (the first time compiles for some minutes)");
    let status = Command::new(host::cargo())
        .current_dir(root)
        .args(["test", "--locked", "--workspace"])
        .env("PILOTHOUSE_GUESTS", root.join("examples/target/wasm32-unknown-unknown/release"))
        .status()
        .context("start cargo to test the host")?;
    ensure!(status.success(), "tests of the host failed (see above): {status}");
    Ok(())
}
