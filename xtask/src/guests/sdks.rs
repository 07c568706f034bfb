//! The tests of the SDKs and of the examples, each by its language's own test tool.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Folders with tests, and the command that runs them. The C SDK's are among the host's tests; those of the templates run where
/// the templates are tried.
const TESTS: &[(&str, &[&str])] = &[
    ("guest-sdk/js", &["npm", "test"]),
    ("guest-sdk/python", PYTHON_SDK),
    ("examples/sample-controller-python", PYTHON),
    ("examples/configmap-rollout", PYTHON),
    ("guest-sdk/go", &["go", "test", "./..."]),
    ("examples/sample-controller-go", &["go", "test", "./..."]),
    ("examples/ttl-cleaner", &["go", "test", "./..."]),
];

/// In the environment of an example that was built: there is componentize-py, whose bindings the SDK's stand-in is compared with.
const PYTHON_SDK: &[&str] = &[
    "env",
    "../../examples/configmap-rollout/.venv/bin/python",
    "-m",
    "unittest",
    "discover",
    "-s",
    "tests",
];

/// An example in Python, without the environment that its build makes.
const PYTHON: &[&str] = &["env", "PYTHONPATH=../../guest-sdk/python", "python3", "-m", "unittest"];

/// Runs all of them.
///
/// # Errors
/// When a tool is missing or a test fails.
pub(crate) fn test(root: &Path) -> Result<()> {
    println!("guests: testing the Rust SDK and its examples natively");
    super::rust::test(root)?;
    for (folder, command) in TESTS {
        println!("guests: testing {folder}: {}", command.join(" "));
        let status = Command::new(command[0])
            .args(&command[1..])
            .current_dir(root.join(folder))
            .status()
            .with_context(|| format!("start {}: install it, or see docs/writing-a-plugin.md", command[0]))?;
        ensure!(status.success(), "the tests in {folder} failed (see above): {status}");
    }
    Ok(())
}
