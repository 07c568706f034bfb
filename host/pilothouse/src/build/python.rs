//! Builds Python projects: installs the SDK into a virtual environment in the project and runs the SDK's build module.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Artifact, Job};
use crate::CommandError;

/// The oldest supported version, as in the SDK's pyproject.toml.
const MIN_VERSION: (u32, u32) = (3, 11);
const INSTALL: &str =
    "sudo apt-get install python3 python3-venv, or from https://python.org; version 3.11 or newer";
const INSTALL_VENV: &str = "sudo apt-get install python3-venv";

/// A file in the environment with the requirements that it was created from. Written once everything is installed.
const STAMP: &str = "pilothouse-installed";

/// Prints an interpreter's version and whether it can create environments, which Debian packages separately.
const PROBE: &str = "import sys, importlib.util as util; \
                     print(*sys.version_info[:2], all(map(util.find_spec, ('venv', 'ensurepip'))))";

pub(super) async fn build(job: &Job) -> Result<Artifact, CommandError> {
    let environment = job.project().join(".venv");
    let python = environment.join("bin/python");
    let expected = expected_stamp(job.project()).map_err(|problem| job.error(problem))?;
    let stamp = environment.join(STAMP);
    if !python.is_file() || fs::read_to_string(&stamp).ok().as_ref() != Some(&expected) {
        create_environment(job, &environment).await?;
        fs::write(&stamp, expected)
            .map_err(|error| job.error(format_args!("{}: {error}", stamp.display())))?;
    }
    let file = job.scratch().join("plugin.wasm");
    let mut command = python_command(&python);
    command.args(["-m", "pilothouse.build", "-o"]).arg(&file);
    let output = job.run("componentize-py", command).await?;
    let name = output.stdout.lines().last().unwrap_or_default().trim().to_owned();
    Ok(Artifact { name: if name.is_empty() { job.folder_name() } else { name }, file })
}

/// Creates the environment and installs the project's requirements. Always starts from an empty environment, because the paths in
/// an existing one are wrong if the project was moved.
async fn create_environment(job: &Job, environment: &Path) -> Result<(), CommandError> {
    let python = job.find_tool("python3", INSTALL)?;
    let mut probe = python_command(&python);
    probe.args(["-c", PROBE]);
    let probed = job.run("look for Python", probe).await?.stdout;
    check_interpreter(&probed).map_err(|problem| job.error(problem))?;
    let mut venv = python_command(&python);
    venv.args(["-m", "venv", "--clear"]).arg(environment);
    job.run("create .venv", venv).await?;
    let mut pip = python_command(&environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"]);
    job.run("pip install", pip).await?;
    Ok(())
}

/// Returns a command for an interpreter that ignores the caller's virtual environment.
fn python_command(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.env_remove("PYTHONHOME").env_remove("VIRTUAL_ENV").env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Returns everything that the environment depends on: the project's path, its requirements, and the manifests of requirements that
/// are folders. The environment is recreated when this changes.
fn expected_stamp(project: &Path) -> Result<String, String> {
    let requirements = fs::read_to_string(project.join("requirements.txt")).map_err(|error| {
        format!("requirements.txt: {error}; it must list at least the SDK's folder: -e ./sdk")
    })?;
    let mut stamp = format!("{}\n{requirements}", project.display());
    for folder in requirements.lines().filter_map(|line| line.trim().strip_prefix("-e ")) {
        let manifest = project.join(folder.trim()).join("pyproject.toml");
        stamp.push_str(&fs::read_to_string(&manifest).map_err(|error| {
            format!("requirements.txt lists {folder}, but {}: {error}; correct the path", manifest.display())
        })?);
    }
    Ok(stamp)
}

/// Errors if the output of [`PROBE`] shows an interpreter that is too old or cannot create environments.
fn check_interpreter(probed: &str) -> Result<(), String> {
    let mut fields = probed.split_whitespace();
    let mut number = || fields.next()?.parse::<u32>().ok();
    let (Some(major), Some(minor)) = (number(), number()) else {
        return Err(format!("python3 printed {probed:?} instead of its version; install it: {INSTALL}"));
    };
    if (major, minor) < MIN_VERSION {
        return Err(format!(
            "python3 is {major}.{minor}, but the SDK requires {}.{} or newer; install it: {INSTALL}",
            MIN_VERSION.0, MIN_VERSION.1
        ));
    }
    if fields.next() != Some("True") {
        return Err(format!(
            "python3 has no venv module, which creates the project's .venv; install it: {INSTALL_VENV}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsuitable_python_is_rejected_with_the_command_that_installs_one() {
        assert_eq!(check_interpreter("3 11 True\n"), Ok(()));
        assert_eq!(check_interpreter("4 0 True"), Ok(()));
        let too_old = check_interpreter("3 9 True").expect_err("too old");
        assert!(
            too_old.contains("python3 is 3.9") && too_old.contains("apt-get install python3 "),
            "{too_old}"
        );
        let no_venv = check_interpreter("3 12 False").expect_err("no venv");
        assert!(no_venv.ends_with("install it: sudo apt-get install python3-venv"), "{no_venv}");
        assert!(check_interpreter("").is_err());
    }

    fn project(requirements: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("requirements.txt"), requirements).expect("written");
        fs::create_dir(folder.path().join("sdk")).expect("made");
        fs::write(folder.path().join("sdk/pyproject.toml"), "first").expect("written");
        folder
    }

    #[test]
    fn stamp_changes_with_the_sdk_the_requirements_and_the_project_path() {
        let project_folder = project("-e ./sdk\n");
        let before = expected_stamp(project_folder.path()).expect("readable");
        assert_eq!(expected_stamp(project_folder.path()).as_ref(), Ok(&before));
        fs::write(project_folder.path().join("sdk/pyproject.toml"), "second").expect("written");
        let after = expected_stamp(project_folder.path()).expect("readable");
        assert_ne!(after, before);
        fs::write(project_folder.path().join("requirements.txt"), "-e ./sdk\nsix\n").expect("written");
        assert_ne!(expected_stamp(project_folder.path()).expect("readable"), after);
        assert_ne!(expected_stamp(project("-e ./sdk\n").path()).expect("readable"), before);
    }

    #[test]
    fn error_names_a_missing_sdk_folder() {
        let error = expected_stamp(project("-e ../nowhere\n").path()).expect_err("no such folder");
        assert!(error.contains("../nowhere") && error.contains("correct the path"), "{error}");
        let empty = tempfile::tempdir().expect("a folder");
        let error = expected_stamp(empty.path()).expect_err("no requirements");
        assert!(error.contains("-e ./sdk"), "{error}");
    }
}
