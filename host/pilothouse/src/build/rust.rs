//! Builds Rust projects with cargo for wasm32-unknown-unknown.

use std::path::{Path, PathBuf};

use pilothouse_toolchain::{InstallPolicy, TARGET, Toolchain};
use serde_json::Value;

use super::{Artifact, Job, OutputFormat};
use crate::CommandError;

/// Cargo's messages on standard output are JSON; diagnostics are rendered to standard error, between cargo's lines of progress.
const CARGO_OUTPUT: OutputFormat = OutputFormat { has_data_on_stdout: true, is_progress, describe_progress };

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
    let output = job.run_with_format("cargo build", command, CARGO_OUTPUT).await?;
    for line in output.stderr.lines().filter(|line| !is_progress(line)) {
        job.print(line);
    }
    find_artifact(job.project(), &output.stdout).ok_or_else(|| {
        job.error(
            "cargo built no .wasm file from this package; add [lib] with crate-type = [\"cdylib\"] to its Cargo.toml",
        )
    })
}

/// Returns whether a line is cargo's own progress, such as `   Compiling foo v0.1.0`, as opposed to a compiler's diagnostic. Cargo
/// aligns the first word of its progress to the right.
fn is_progress(line: &str) -> bool {
    let text = line.trim_start();
    let word = text.split(' ').next().unwrap_or_default();
    let indent = line.len() - text.len();
    indent > 0
        && indent + word.len() == PROGRESS_COLUMN
        && word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// The column at which the first word of cargo's progress ends.
const PROGRESS_COLUMN: usize = 12;

/// Returns the last line of cargo's progress, without paths, and the number of crates so far.
fn describe_progress(stderr: &str) -> Option<String> {
    let last = stderr.lines().rfind(|line| is_progress(line))?.trim();
    let last = last.split_once(" (").map_or(last, |(start, _)| start);
    let crates = stderr.lines().filter(|line| line.trim_start().starts_with("Compiling ")).count();
    Some(if crates > 1 { format!("{last}, crate {crates}") } else { last.to_owned() })
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
            "   = help: the following other types implement trait `Foo`:",
            "             Vec<T>",
            "             Bar",
            "error: could not compile `x` (lib) due to 1 previous error",
        ] {
            assert!(!is_progress(line), "{line}");
        }
    }

    #[test]
    fn progress_shows_the_current_crate_and_how_many_there_were() {
        assert_eq!(describe_progress(""), None);
        let one = "    Updating crates.io index\n";
        assert_eq!(describe_progress(one).as_deref(), Some("Updating crates.io index"));
        let two = "   Compiling serde v1.0.0\nwarning: unused\n   Compiling greeter v0.1.0 (/home/me/greeter)\nerror: no\n";
        assert_eq!(describe_progress(two).as_deref(), Some("Compiling greeter v0.1.0, crate 2"));
        let blocked = "    Blocking waiting for file lock on build directory\n";
        assert_eq!(
            describe_progress(blocked).as_deref(),
            Some("Blocking waiting for file lock on build directory")
        );
    }
}
