//! Runs the tests of the helpers that start the embedded API server for tests in Go, Python and JavaScript.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Folders of the helpers, and the commands that test them.
const TESTS: &[(&str, &[&str])] = &[
    ("go", &["go", "test", "-count=1", "./..."]),
    ("python", &["python3", "-m", "unittest"]),
    ("js", &["node", "--test"]),
];

/// Tests all helpers with the binary of the host.
///
/// # Errors
/// Errors if a tool is missing or a test fails.
pub(crate) fn run(root: &Path, binary: &Path) -> Result<()> {
    let binary = binary.canonicalize().with_context(|| format!("find {}", binary.display()))?;
    for (folder, command) in TESTS {
        let folder = root.join("host/apiserver/clients").join(folder);
        println!("host: testing {}: {}", folder.display(), command.join(" "));
        let status = Command::new(command[0])
            .args(&command[1..])
            .env("PILOTHOUSE_BINARY", &binary)
            .current_dir(&folder)
            .status()
            .with_context(|| format!("start {}: install it, or see docs/writing-a-plugin.md", command[0]))?;
        ensure!(status.success(), "the tests in {} failed (see above): {status}", folder.display());
    }
    Ok(())
}
