//! Builds projects with a command of their own, which `pilothouse.yaml` defines. A project in any language can be built so.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_toolchain::clean_command;

use super::project_file::{BuildCommand, PROJECT_FILE};
use super::{Artifact, Job, OutputFormat, zig};
use crate::CommandError;

/// The last line of standard error shows how far the command has got.
const OUTPUT: OutputFormat = OutputFormat { describe_progress: last_line, ..OutputFormat::TEXT };

/// The maximum number of characters of the command in the step's name.
const MAX_STEP_CHARS: usize = 60;

pub(super) async fn build(job: &Job, recipe: &BuildCommand) -> Result<Artifact, CommandError> {
    // As from a shell: without what an outer cargo sets for its own build.
    let mut command = clean_command("sh", job.project());
    // `clean_command` forbids rustup to download a toolchain that the caller did not announce. Here, the project's author decides.
    match env::var_os("RUSTUP_AUTO_INSTALL") {
        Some(value) => command.env("RUSTUP_AUTO_INSTALL", value),
        None => command.env_remove("RUSTUP_AUTO_INSTALL"),
    };
    if let Some(version) = &recipe.zig {
        let folder = zig::folder_of_version(job, version).await?;
        let path = path_with(&folder, env::var_os("PATH"))
            .map_err(|error| job.error(format_args!("cannot add {} to PATH: {error}", folder.display())))?;
        command.env("PATH", path);
    }
    // `-e`: a script of several lines ends at the first command that fails.
    command.args(["-e", "-c", recipe.run.as_str()]);
    let output = job.run_with_format(&step(&recipe.run), command, OUTPUT).await?;
    for line in output.stdout.lines().chain(output.stderr.lines()) {
        job.print(line);
    }
    let file = find_output(job.project(), &recipe.output).map_err(|problem| {
        job.error(format_args!(
            "{problem}; set `output` in {PROJECT_FILE} to the .wasm file that the command writes"
        ))
    })?;
    Ok(Artifact { name: job.folder_name(), file })
}

/// Returns PATH with the folder in front.
fn path_with(folder: &Path, path: Option<OsString>) -> Result<OsString, env::JoinPathsError> {
    // An empty PATH is not split: it would become an empty entry, which means the current folder.
    let path = path.filter(|path| !path.is_empty());
    let rest = path.as_deref().map(env::split_paths).into_iter().flatten();
    env::join_paths(std::iter::once(folder.to_owned()).chain(rest))
}

/// Returns the name of the step in progress and errors: the command's first line, if it is long only the start.
fn step(run: &str) -> String {
    let line = run.lines().next().unwrap_or_default();
    let start: String = line.chars().take(MAX_STEP_CHARS).collect();
    let is_complete = start == run;
    format!("`{start}{}`", if is_complete { "" } else { " …" })
}

fn last_line(stderr: &str) -> Option<String> {
    stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
}

/// Returns the real path of the output.
///
/// # Errors
/// Errors if it is not a file, or a link to one outside of the project's folder.
fn find_output(project: &Path, output: &Path) -> Result<PathBuf, String> {
    let name = output.display();
    let file = fs::canonicalize(project.join(output))
        .map_err(|error| format!("the command succeeded, but its output {name} cannot be found: {error}"))?;
    if !file.starts_with(project) {
        return Err(format!(
            "the command's output {name} is outside of the project's folder: {}",
            file.display()
        ));
    }
    if !file.is_file() {
        return Err(format!("the command's output {name} is not a file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;

    use tokio_util::sync::CancellationToken;

    use super::super::Progress;
    use super::*;

    fn recipe(run: &str, output: &str) -> BuildCommand {
        BuildCommand { run: run.to_owned(), output: output.into(), watch: Vec::new(), zig: None }
    }

    async fn run(folder: &Path, recipe: &BuildCommand) -> Result<Artifact, String> {
        let project = fs::canonicalize(folder).expect("a folder");
        let job = Job::new(project.clone(), project, Progress::plain(), CancellationToken::new());
        build(&job, recipe).await.map_err(|error| match error {
            CommandError::Failure(text) => text,
            CommandError::Usage(text) => panic!("not a failure: {text}"),
        })
    }

    #[tokio::test]
    async fn the_command_runs_in_the_projects_folder_without_variables_of_cargo() {
        let folder = tempfile::tempdir().expect("a folder");
        // Under `cargo test`, CARGO_MANIFEST_DIR is set.
        let script = "mkdir out\npwd > out/pwd\nenv > out/env\necho > out/plugin.wasm";
        let artifact = run(folder.path(), &recipe(script, "out/plugin.wasm")).await.expect("it succeeds");
        let project = fs::canonicalize(folder.path()).expect("a folder");
        assert_eq!(artifact.file, project.join("out/plugin.wasm"));
        assert_eq!(project.file_name(), Some(OsStr::new(&artifact.name)));
        let read = |name: &str| fs::read_to_string(project.join("out").join(name)).expect(name);
        assert_eq!(Path::new(read("pwd").trim()), project);
        let text = read("env");
        let names: BTreeSet<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        assert!(names.contains("PATH") && !names.contains("CARGO_MANIFEST_DIR"), "{names:?}");
    }

    #[tokio::test]
    async fn a_script_ends_at_the_first_command_that_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = run(folder.path(), &recipe("false\ntouch plugin.wasm", "plugin.wasm")).await;
        let error = error.expect_err("it fails");
        assert!(error.contains("`false …`: sh failed (exit status: 1); see its output above"), "{error}");
        assert!(!folder.path().join("plugin.wasm").exists());
    }

    #[tokio::test]
    async fn the_output_must_be_a_file_in_the_projects_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        for (script, expected) in [
            ("true", "cannot be found"),
            ("mkdir plugin.wasm", "is not a file"),
            ("rmdir plugin.wasm; ln -s /bin/sh plugin.wasm", "is outside of the project's folder: /"),
        ] {
            let error = run(folder.path(), &recipe(script, "plugin.wasm")).await.expect_err(script);
            assert!(error.contains(expected) && error.contains("set `output` in pilothouse.yaml"), "{error}");
        }
    }

    #[test]
    fn zig_comes_first_in_path() {
        let path = |path: Option<&str>| {
            path_with(Path::new("/zig"), path.map(OsString::from)).expect("no colon in the folder")
        };
        assert_eq!(path(Some("/usr/bin:/bin")), "/zig:/usr/bin:/bin");
        assert_eq!(path(None), "/zig");
        assert_eq!(path(Some("")), "/zig");
        assert!(path_with(Path::new("/a:b"), None).is_err());
    }

    #[test]
    fn the_step_is_the_start_of_the_command() {
        assert_eq!(step("make plugin"), "`make plugin`");
        assert_eq!(step("first\nsecond"), "`first …`");
        assert_eq!(step(&"x".repeat(100)), format!("`{} …`", "x".repeat(MAX_STEP_CHARS)));
        assert_eq!(last_line("one\n two \n\n").as_deref(), Some("two"));
    }
}
