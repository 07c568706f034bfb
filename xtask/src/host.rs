//! Builds the `pilothouse` binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::cargo;
use crate::guests;

/// Builds `pilothouse` and returns its path. Builds the whole workspace: cargo unifies dependency features over the packages that are
/// built, so building this package alone would compile wasmtime a second time.
pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    let messages = run(root, &["build", "--locked", "--workspace", "--bins", "--features", "xtask/full"])?;
    find_executable(&messages, "pilothouse")
}

/// Builds the workspace with all tests and returns the path of `pilothouse`.
pub(crate) fn build_with_tests(root: &Path) -> Result<PathBuf> {
    let messages = run(root, &["test", "--locked", "--workspace", "--features", "xtask/full", "--no-run"])?;
    find_executable(&messages, "pilothouse")
}

/// Returns the absolute path of a given `pilothouse`. Builds it if none is given.
///
/// # Errors
/// Errors if it does not build.
pub(crate) fn given_or_built(root: &Path, host: Option<&Path>) -> Result<PathBuf> {
    match host {
        Some(file) => std::path::absolute(file).context("the path of --host"),
        None => build(root),
    }
}

/// Returns the paths of `pilothouse` and of the plugin `name`, one of the examples. Builds those that are not given.
///
/// # Errors
/// Errors if one of them does not build.
pub(crate) fn build_with_plugin(
    root: &Path,
    name: &str,
    host: Option<&Path>,
    plugin: Option<&Path>,
) -> Result<(PathBuf, PathBuf)> {
    let host = given_or_built(root, host)?;
    let plugin = match plugin {
        Some(file) => file.to_owned(),
        None => {
            let built = guests::build(root, &[name], || Ok(host.clone()))?;
            built.into_iter().next().context("no plugin was built")?.wasm
        }
    };
    Ok((host, plugin))
}

fn run(root: &Path, arguments: &[&str]) -> Result<String> {
    require_make()?;
    println!("host: building pilothouse (takes several minutes the first time)");
    run_cargo_json(cargo().current_dir(root).args(arguments))
}

/// Errors if `make` is missing. The allocator's build script needs it, and its own error would be buried in pages of output.
pub(crate) fn require_make() -> Result<()> {
    let found = Command::new("make").arg("--version").output();
    ensure!(
        found.is_ok_and(|output| output.status.success()),
        "make is missing or does not run: install a C toolchain (Debian, Ubuntu: apt install build-essential; Fedora: dnf install gcc make; \
         macOS: xcode-select --install)"
    );
    Ok(())
}

/// Runs a cargo build and returns its JSON messages.
pub(crate) fn run_cargo_json(cargo: &mut Command) -> Result<String> {
    let output = cargo
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("start cargo")?;
    ensure!(output.status.success(), "cargo could not build (see above): {}", output.status);
    String::from_utf8(output.stdout).context("cargo's messages are not UTF-8")
}

/// Returns the path of an executable from cargo's JSON messages.
pub(crate) fn find_executable(messages: &str, name: &str) -> Result<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        // Excludes the binary's unit tests, which have the same name.
        .filter(|message| message["profile"]["test"] != true)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo did not report the path of {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"profile\":{\"test\":true},\"executable\":\"/t/p-1\"}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"executable\":\"/t/p\"}\n";
        assert_eq!(find_executable(messages, "pilothouse").expect("there"), PathBuf::from("/t/p"));
        assert!(find_executable(messages, "pilothouse-fuzz").is_err());
        assert!(find_executable("not json\n", "pilothouse").is_err());
    }
}
