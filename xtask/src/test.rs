//! `cargo xtask test`: runs all tests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::guests::{self, Guest};
use crate::{
    api, cargo, chart, collector, container, host, page_test, prometheus, registries, requirements,
    test_clients, tidy,
};

/// What was built for the tests.
struct Built {
    host: PathBuf,
    guests: Vec<Guest>,
}

/// A test that needs programs of others.
struct FullTest {
    /// The command that runs it alone.
    command: &'static str,
    run: fn(&Path, &Built) -> Result<()>,
}

/// The tests that only `--full` runs.
const FULL: [FullTest; 6] = [
    FullTest { command: "chart --test", run: |root, built| chart::test(root, &built.host, &built.guests) },
    FullTest {
        command: "container-test",
        run: |root, built| container::test_built(root, &built.host, &built.guests),
    },
    FullTest { command: "registries", run: |root, built| registries::test_built(root, &built.host) },
    FullTest { command: "page-test", run: |root, built| page_test::test_built(root, &built.host) },
    FullTest {
        command: "tracing-test",
        run: |root, built| collector::test_built(root, &built.host, &built.guests),
    },
    FullTest { command: "prometheus", run: |root, built| prometheus::test_built(root, &built.host) },
];

/// Runs the tidy checks, builds the host and the guests, then runs the tests of the guests' workspace and of the host's, and checks the
/// published crates. With `full`, it also runs the tests that need programs of others (`tools`, `requirements`).
///
/// # Errors
/// Errors if a test fails or, with `full`, if a program is missing that is not built.
pub(crate) fn run(root: &Path, full: bool) -> Result<()> {
    if full {
        requirements::require_programs_of_full_tests()?;
    }
    tidy::run(root)?;
    // Compiles everything with the tests' features from the start, so that nothing is compiled twice.
    let host = host::build_with_tests(root)?;
    let guests = guests::build(root, &[], || Ok(host.clone()))?;
    guests::test(root)?;
    test_clients::run(root, &host)?;
    println!("host: testing the workspace");
    let status = cargo::cargo()
        .current_dir(root)
        .args(["test", "--locked", "--workspace", "--features", "xtask/full"])
        .status()
        .context("start cargo to test the host")?;
    ensure!(status.success(), "tests of the host failed (see above): {status}");
    api::run(root, false)?;
    api::package(root)?;
    if !full {
        println!(
            "test: the chart, the container, the registries, the status page, traces and the dashboards were NOT tested with the programs of others: `cargo xtask test --full` does that"
        );
        return Ok(());
    }
    let built = Built { host, guests };
    for FullTest { command, run } in FULL {
        println!("test: cargo xtask {command}");
        run(root, &built).with_context(|| format!("`cargo xtask {command}`, which runs it alone"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_full_tests_are_those_that_contributing_describes() {
        let contributing = include_str!("../../CONTRIBUTING.md");
        let start = contributing.find("`cargo xtask test --full`").expect("the paragraph");
        let paragraph = contributing[start..].split("\n\n").next().unwrap_or_default();
        for FullTest { command, .. } in FULL {
            assert!(paragraph.contains(&format!("`{command}`")), "{command}: {paragraph}");
        }
        assert!(FULL.iter().any(|test| test.command == "tracing-test"));
    }

    #[test]
    fn programs_are_required_for_exactly_the_full_tests() {
        let full: BTreeSet<_> = FULL.iter().filter_map(|test| test.command.split(' ').next()).collect();
        assert_eq!(requirements::commands().collect::<BTreeSet<_>>(), full);
    }
}
