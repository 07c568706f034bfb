//! Building the host's binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Builds `pilothouse`, and says where it is. With the whole workspace: cargo chooses the features of dependencies by what is built, so
/// that building it alone would compile wasmtime once more.
pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    let messages = run(root, &["build", "--locked", "--workspace", "--bins"])?;
    executable(&messages, "pilothouse")
}

/// Builds the host and all its tests, and says where `pilothouse` is.
pub(crate) fn build_with_tests(root: &Path) -> Result<PathBuf> {
    let messages = run(root, &["test", "--locked", "--workspace", "--no-run"])?;
    executable(&messages, "pilothouse")
}

fn run(root: &Path, arguments: &[&str]) -> Result<String> {
    needs_make()?;
    println!("host: building pilothouse (the first time takes some minutes)");
    messages(cargo().current_dir(root).args(arguments))
}

/// The allocator's build script needs it, and says so in the middle of pages of output.
fn needs_make() -> Result<()> {
    let found = Command::new("make").arg("--version").output();
    ensure!(
        found.is_ok_and(|output| output.status.success()),
        "make is missing or does not run: install the C toolchain with it (Debian, Ubuntu: apt install build-essential; Fedora: dnf install gcc make; \
         macOS: xcode-select --install)"
    );
    Ok(())
}

/// Runs a cargo that builds, and returns what it says in JSON.
pub(crate) fn messages(cargo: &mut Command) -> Result<String> {
    let output = cargo
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("start cargo")?;
    ensure!(output.status.success(), "cargo could not build (see above): {}", output.status);
    String::from_utf8(output.stdout).context("cargo's messages are not UTF-8")
}

/// The cargo that runs this xtask, without what that told of xtask's own package: build scripts that look at such variables
/// (ring's) would run again, and all behind them be compiled again, whenever a plain cargo follows an xtask.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let is_of_xtask = name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
        if is_of_xtask {
            command.env_remove(name);
        }
    }
    command
}

/// Where cargo put an executable, by its JSON messages.
pub(crate) fn executable(messages: &str, name: &str) -> Result<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        // The binary's own unit tests have its name.
        .filter(|message| message["profile"]["test"] != true)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo did not say where it put {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"profile\":{\"test\":true},\"executable\":\"/t/p-1\"}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"executable\":\"/t/p\"}\n";
        assert_eq!(executable(messages, "pilothouse").expect("there"), PathBuf::from("/t/p"));
        assert!(executable(messages, "pilothouse-fuzz").is_err());
        assert!(executable("not json\n", "pilothouse").is_err());
    }
}
