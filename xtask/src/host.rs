//! Building the host's binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Builds `pilothouse`, and says where it is. With the whole workspace: cargo chooses the features of dependencies by what is built, so
/// that building it alone would compile wasmtime once more.
pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    run(root, &["build", "--locked", "--workspace", "--bins"])
}

/// Builds the host and all its tests, and says where `pilothouse` is.
pub(crate) fn build_with_tests(root: &Path) -> Result<PathBuf> {
    run(root, &["test", "--locked", "--workspace", "--no-run"])
}

fn run(root: &Path, arguments: &[&str]) -> Result<PathBuf> {
    println!("host: building pilothouse (the first time takes some minutes)");
    let output = Command::new(cargo())
        .current_dir(root)
        .args(arguments)
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("start cargo to build the host")?;
    ensure!(output.status.success(), "cargo could not build the host (see above): {}", output.status);
    executable(&String::from_utf8_lossy(&output.stdout)).context("cargo did not say where it put pilothouse")
}

/// The cargo that runs this xtask.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// The executable in cargo's JSON messages.
fn executable(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "pilothouse")
        // The binary's own unit tests have its name.
        .filter(|message| message["profile"]["test"] != true)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"profile\":{\"test\":true},\"executable\":\"/t/p-1\"}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"executable\":\"/t/p\"}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/p")));
        assert_eq!(executable("not json\n"), None);
    }
}
