//! Runs the tests of the SDKs and of the examples with each language's own test tool.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Folders with tests and the commands that run them. xtask's own tests include the C SDK's; the end-to-end tests include the
/// templates'.
const TESTS: &[(&str, &[&str])] = &[
    ("guest-sdk/js", &["npm", "test"]),
    ("examples/sample-controller-js", NODE),
    ("examples/label-propagator", NODE),
    ("examples/catalogue/js", NODE),
    ("guest-sdk/python", PYTHON_SDK),
    ("examples/sample-controller-python", PYTHON),
    ("examples/configmap-rollout", PYTHON),
    ("guest-sdk/go", &["go", "test", "./..."]),
    ("examples/sample-controller-go", &["go", "test", "./..."]),
    ("examples/ttl-cleaner", &["go", "test", "./..."]),
    ("examples/catalogue/go", &["go", "test", "./..."]),
    ("examples/sample-controller-zig", ZIG),
];

/// Tests a JavaScript example, after installing what it depends on.
const NODE: &[&str] = &["npm", "install-test", "--no-audit", "--no-fund"];

/// Tests the Python SDK in the environment of an example, because one test compares the SDK's stub bindings with componentize-py's.
const PYTHON_SDK: &[&str] = &[
    "env",
    "../../examples/configmap-rollout/.venv/bin/python",
    "-m",
    "unittest",
    "discover",
    "-s",
    "tests",
];

/// Tests a Python example without a virtual environment.
const PYTHON: &[&str] = &["env", "PYTHONPATH=../../guest-sdk/python", "python3", "-m", "unittest"];

/// Tests a Zig example with the Zig that `pilothouse build` found or downloaded for it. Its version is that in `pilothouse.yaml`.
const ZIG: &[&str] = &[
    "sh",
    "-ec",
    "version=$(sed -n 's/^ *zig: *//p' pilothouse.yaml)
    PATH=\"${XDG_CACHE_HOME:-$HOME/.cache}/pilothouse/ziglang-$version/ziglang:$PATH\" zig build test",
];

/// Runs the tests of all SDKs and examples.
///
/// # Errors
/// Errors if a tool is missing or a test fails.
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
