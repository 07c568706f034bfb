//! The programs that must be installed for `cargo xtask test --full`, because nothing builds them. A test that cannot run fails.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::page_test;

/// A program, and what to do if it is missing.
struct Requirement {
    name: &'static str,
    needed_for: &'static str,
    remedy: &'static str,
    is_installed: fn() -> bool,
}

const REQUIREMENTS: [Requirement; 7] = [
    Requirement {
        name: "Go",
        needed_for: "chart, container-test, registries, tracing-test",
        remedy: "install it (https://go.dev/dl)",
        is_installed: || runs("go", &["version"]),
    },
    Requirement {
        name: "kubectl",
        needed_for: "chart, container-test",
        remedy: "install kubectl 1.30 or newer (https://kubernetes.io/docs/tasks/tools)",
        is_installed: || runs("kubectl", &["version", "--client"]),
    },
    Requirement {
        name: "bubblewrap",
        needed_for: "container-test, prometheus",
        remedy: "install it (Debian, Ubuntu: apt install bubblewrap)",
        is_installed: || runs("bwrap", &["--version"]),
    },
    Requirement {
        name: "Chromium",
        needed_for: "page-test",
        remedy: "install it (Debian: apt install chromium), or set PILOTHOUSE_CHROMIUM to its path",
        is_installed: || page_test::browser().is_ok(),
    },
    Requirement {
        name: "Node.js with npm",
        needed_for: "page-test",
        remedy: "install Node.js 20 or newer (https://nodejs.org)",
        is_installed: || runs("node", &["--version"]) && runs("npm", &["--version"]),
    },
    Requirement {
        name: "Prometheus",
        needed_for: "prometheus",
        remedy: "install it (Debian, Ubuntu: apt install prometheus)",
        is_installed: || runs("prometheus", &["--version"]),
    },
    Requirement {
        name: "promtool",
        needed_for: "prometheus",
        remedy: "install it (Debian, Ubuntu: apt install prometheus)",
        is_installed: || runs("promtool", &["--version"]),
    },
];

/// Returns the commands for which something is required.
#[cfg(test)]
pub(crate) fn commands() -> impl Iterator<Item = &'static str> {
    REQUIREMENTS.iter().flat_map(|requirement| requirement.needed_for.split(", "))
}

/// Errors if a program is missing that `cargo xtask test --full` does not build, with all that are and what to install.
///
/// # Errors
/// Errors if one of them is not installed or does not run.
pub(crate) fn require_programs_of_full_tests() -> Result<()> {
    require(&REQUIREMENTS, |requirement| (requirement.is_installed)())
}

fn require(requirements: &[Requirement], is_installed: impl Fn(&Requirement) -> bool) -> Result<()> {
    let missing: Vec<_> = requirements
        .iter()
        .filter(|requirement| !is_installed(requirement))
        .map(|Requirement { name, needed_for, remedy, .. }| format!("{name}, for {needed_for}: {remedy}"))
        .collect();
    ensure!(
        missing.is_empty(),
        "`cargo xtask test --full` needs programs that are missing or do not run:\n  {}\n\
         `cargo xtask test` does without them",
        missing.join("\n  ")
    );
    Ok(())
}

fn runs(program: impl AsRef<Path>, arguments: &[&str]) -> bool {
    let output = Command::new(program.as_ref()).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_programs_are_named_with_what_to_install() {
        require(&REQUIREMENTS, |_| true).expect("nothing is missing");
        let error = require(&REQUIREMENTS, |requirement| requirement.name == "Go").expect_err("missing");
        let error = error.to_string();
        for part in [
            "bubblewrap, for container-test, prometheus",
            "apt install bubblewrap",
            "PILOTHOUSE_CHROMIUM",
            "apt install prometheus",
            "kubectl 1.30",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("go.dev"), "{error}");
        let error = require(&REQUIREMENTS, |requirement| requirement.name != "Go").expect_err("missing");
        assert!(error.to_string().contains("Go, for chart"), "{error}");
    }

    #[test]
    fn a_program_that_fails_or_does_not_exist_is_not_installed() {
        assert!(runs("true", &[]));
        assert!(!runs("false", &[]));
        assert!(!runs("pilothouse-has-no-such-program", &[]));
    }
}
