//! Builds Rust projects with cargo for wasm32-unknown-unknown.

use std::path::{Path, PathBuf};

use pilothouse_toolchain::{InstallPolicy, TARGET, Toolchain};
use serde_json::Value;

use super::{Artifact, Job};
use crate::CommandError;

pub(super) async fn build(job: &Job) -> Result<Artifact, CommandError> {
    let project = job.project().to_owned();
    let toolchain = job
        .run_blocking("look for a Rust toolchain", move |progress| {
            Toolchain::find(&project, InstallPolicy::RustupTarget, &mut |line| progress.print(line))
        })
        .await?
        .map_err(|error| job.error(error))?;
    let mut command = toolchain.cargo(job.project());
    command.args(["build", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"]);
    // `Toolchain::cargo` removes the variables of an outer cargo. This one is kept, because users set it, too.
    if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR") {
        command.env("CARGO_TARGET_DIR", folder);
    }
    let output = job.run("cargo build", command).await?;
    for line in output.stderr.lines().filter(|line| !is_progress(line)) {
        job.print(line);
    }
    find_artifact(job.project(), &output.stdout).ok_or_else(|| {
        job.error(
            "cargo built no .wasm file from this package; add [lib] with crate-type = [\"cdylib\"] to its Cargo.toml",
        )
    })
}

/// Returns whether a line is cargo's own progress, such as `   Compiling foo v0.1.0`, as opposed to a compiler warning.
fn is_progress(line: &str) -> bool {
    let word = line.trim_start();
    line.len() > word.len() && word.starts_with(|first: char| first.is_ascii_uppercase())
}

/// Returns the .wasm file of the project's own package from cargo's JSON messages.
fn find_artifact(project: &Path, messages: &str) -> Option<Artifact> {
    let manifest = project.join("Cargo.toml");
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifacts = messages
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest));
    artifacts
        .filter_map(|message| {
            let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str);
            let file =
                files.map(PathBuf::from).find(|file| file.extension().is_some_and(|end| end == "wasm"))?;
            // Cargo turns the hyphens of a library's name into underscores.
            let name = message["target"]["name"].as_str()?.replace('_', "-");
            Some(Artifact { name, file })
        })
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_projects_own_package_is_an_artifact() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/p/sdk/Cargo.toml","target":{"name":"sdk"},"filenames":["/t/sdk.wasm"]}"#,
            "\nnot JSON\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","target":{"name":"build-script"},"filenames":["/t/build"]}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","target":{"name":"my_plugin"},"filenames":["/t/my_plugin.wasm"]}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let found = find_artifact(Path::new("/p"), messages).expect("an artifact");
        assert_eq!(
            (found.name.as_str(), found.file.as_path()),
            ("my-plugin", Path::new("/t/my_plugin.wasm"))
        );
        assert!(find_artifact(Path::new("/other"), messages).is_none());
    }

    #[test]
    fn compiler_warnings_are_not_progress() {
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
