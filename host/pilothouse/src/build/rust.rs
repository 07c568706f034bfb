//! Rust: cargo, for wasm32-unknown-unknown.

use std::path::{Path, PathBuf};

use pilothouse_toolchain::{Permission, TARGET, Toolchain};
use serde_json::Value;

use super::{Artifact, Job};
use crate::Failed;

pub(super) async fn build(job: &Job) -> Result<Artifact, Failed> {
    let project = job.project().to_owned();
    let found = job
        .blocking("look for a Rust toolchain", move |progress| {
            Toolchain::find(&project, Permission::Rustup, &mut |line| progress.say(line))
        })
        .await?;
    let toolchain = found.map_err(|error| job.failed(error))?;
    let mut command = toolchain.cargo(job.project());
    command.args(["build", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"]);
    // Of the variables that an outer cargo might have set, this one is also what a person sets.
    if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR") {
        command.env("CARGO_TARGET_DIR", folder);
    }
    let said = job.run("cargo build", command).await?;
    for line in said.stderr.lines().filter(|line| !is_progress(line)) {
        job.say(line);
    }
    artifact(job.project(), &said.stdout).ok_or_else(|| {
        job.failed(
            "cargo made no .wasm of this folder's package; its Cargo.toml needs [lib] with crate-type = [\"cdylib\"]",
        )
    })
}

/// Cargo's own words, such as `   Compiling foo v0.1.0`, as opposed to the compiler's warnings.
fn is_progress(line: &str) -> bool {
    let word = line.trim_start();
    line.len() > word.len() && word.starts_with(|first: char| first.is_ascii_uppercase())
}

/// The .wasm of the package whose manifest lies in the project's folder, from cargo's messages.
fn artifact(project: &Path, messages: &str) -> Option<Artifact> {
    let manifest = project.join("Cargo.toml");
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let made = messages
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest));
    made.filter_map(|message| {
        let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str);
        let file = files.map(PathBuf::from).find(|file| file.extension().is_some_and(|end| end == "wasm"))?;
        // A library's name has underscores where a plugin's has hyphens.
        let name = message["target"]["name"].as_str()?.replace('_', "-");
        Some(Artifact { name, file })
    })
    .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_of_the_projects_own_package_is_taken() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/p/sdk/Cargo.toml","target":{"name":"sdk"},"filenames":["/t/sdk.wasm"]}"#,
            "\nnot JSON\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","target":{"name":"build-script"},"filenames":["/t/build"]}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","target":{"name":"my_plugin"},"filenames":["/t/my_plugin.wasm"]}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let found = artifact(Path::new("/p"), messages).expect("an artifact");
        assert_eq!(
            (found.name.as_str(), found.file.as_path()),
            ("my-plugin", Path::new("/t/my_plugin.wasm"))
        );
        assert!(artifact(Path::new("/other"), messages).is_none());
    }

    #[test]
    fn warnings_are_told_from_progress() {
        assert!(is_progress("   Compiling foo v0.1.0 (/p)"));
        assert!(is_progress("    Finished `release` profile [optimized] target(s) in 1s"));
        for line in [
            "warning: unused variable: `x`",
            "  --> src/lib.rs:3:5",
            "3 |     let x = 1;",
            "   |         ^ help",
        ] {
            assert!(!is_progress(line), "{line}");
        }
    }
}
