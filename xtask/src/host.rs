//! Building the host's binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Builds `pilothouse` as the tests do, so that the demo after the tests compiles nothing again, and says where it is.
pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    println!("host: building pilothouse (the first time takes some minutes)");
    let output = Command::new(cargo())
        .current_dir(root)
        .args(["build", "--locked", "--package", "pilothouse", "--message-format", "json-render-diagnostics"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("start cargo to build the host")?;
    ensure!(output.status.success(), "cargo could not build pilothouse (see above): {}", output.status);
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
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"pilothouse\"},\"executable\":\"/t/p\"}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/p")));
        assert_eq!(executable("not json\n"), None);
    }
}
