//! `cargo xtask test`: runs all tests.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::{
    api, cargo, chart, container, guests, host, page_test, prometheus, registries, test_clients, tidy,
};

/// Runs the tidy checks, builds the host and the guests, then runs the tests of the guests' workspace and of the host's, and checks the
/// published crates. With `full`, it also runs the tests that need programs of others (`tools`).
pub(crate) fn run(root: &Path, full: bool) -> Result<()> {
    tidy::run(root)?;
    // Compiles everything with the tests' features from the start, so that nothing is compiled twice.
    let binary = host::build_with_tests(root)?;
    let guests = guests::build(root, &[], || Ok(binary.clone()))?;
    guests::test(root)?;
    test_clients::run(root, &binary)?;
    println!("host: testing the workspace");
    let status = cargo::cargo()
        .current_dir(root)
        .args(["test", "--locked", "--workspace", "--features", "xtask/full"])
        .status()
        .context("start cargo to test the host")?;
    ensure!(status.success(), "tests of the host failed (see above): {status}");
    api::run(root, false)?;
    api::package(root)?;
    if full {
        chart::test(root, &binary, &guests)?;
        container::test_if_installed(root, &binary, &guests)?;
        registries::run(root, &binary)?;
        page_test::run_if_installed(root)?;
        return prometheus::run(root);
    }
    println!(
        "test: the chart, the registries, the status page and the dashboards were NOT tested with the programs of others: `cargo xtask test --full` does that"
    );
    Ok(())
}
