//! Python: a virtual environment in the project, and in it the SDK, which knows how to make a plugin.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Artifact, Job};
use crate::Failed;

/// What the SDK's pyproject.toml asks for.
const NEEDED: (u32, u32) = (3, 11);
const INSTALL: &str =
    "sudo apt-get install python3 python3-venv, or from https://python.org; version 3.11 or newer";
const INSTALL_VENV: &str = "sudo apt-get install python3-venv";

/// In the environment, once everything is installed: what it was made of.
const STAMP: &str = "pilothouse-installed";

/// Asks an interpreter for its version, and whether it can make environments: Debian takes that out of Python.
const PROBE: &str = "import sys, importlib.util as util; \
                     print(*sys.version_info[:2], all(map(util.find_spec, ('venv', 'ensurepip'))))";

pub(super) async fn build(job: &Job) -> Result<Artifact, Failed> {
    let environment = job.project().join(".venv");
    let python = environment.join("bin/python");
    let wanted = wanted(job.project()).map_err(|problem| job.failed(problem))?;
    let stamp = environment.join(STAMP);
    if !python.is_file() || fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
        install(job, &environment).await?;
        fs::write(&stamp, wanted)
            .map_err(|error| job.failed(format_args!("{}: {error}", stamp.display())))?;
    }
    let file = job.scratch().join("plugin.wasm");
    let mut command = clean(&python);
    command.args(["-m", "pilothouse.build", "-o"]).arg(&file);
    let said = job.run("componentize-py", command).await?;
    let name = said.stdout.lines().last().unwrap_or_default().trim().to_owned();
    Ok(Artifact { name: if name.is_empty() { job.folder_name() } else { name }, file })
}

/// Makes the environment anew and installs what the project names: an environment in which something was installed before may
/// have been moved, and its tools with it.
async fn install(job: &Job, environment: &Path) -> Result<(), Failed> {
    let python = job.tool("python3", INSTALL)?;
    let mut probe = clean(&python);
    probe.args(["-c", PROBE]);
    let probed = job.run("look for Python", probe).await?.stdout;
    check(&probed).map_err(|problem| job.failed(problem))?;
    let mut make = clean(&python);
    make.args(["-m", "venv", "--clear"]).arg(environment);
    job.run("make .venv", make).await?;
    let mut pip = clean(&environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"]);
    job.run("pip install", pip).await?;
    Ok(())
}

/// An interpreter that takes its libraries from where it is, whatever environment the caller is in.
fn clean(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.env_remove("PYTHONHOME").env_remove("VIRTUAL_ENV").env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// What the environment is to be made of: where it is, what the project requires, and what those requirements that are folders
/// say of themselves.
fn wanted(project: &Path) -> Result<String, String> {
    let requirements = fs::read_to_string(project.join("requirements.txt")).map_err(|error| {
        format!("requirements.txt: {error}; it names at least the SDK, by the folder where it is: -e ./sdk")
    })?;
    let mut wanted = format!("{}\n{requirements}", project.display());
    for folder in requirements.lines().filter_map(|line| line.trim().strip_prefix("-e ")) {
        let manifest = project.join(folder.trim()).join("pyproject.toml");
        wanted.push_str(&fs::read_to_string(&manifest).map_err(|error| {
            format!("requirements.txt has {folder}, and {}: {error}; correct the path", manifest.display())
        })?);
    }
    Ok(wanted)
}

/// Whether what the probe printed will do.
fn check(probed: &str) -> Result<(), String> {
    let mut words = probed.split_whitespace();
    let mut number = || words.next()?.parse::<u32>().ok();
    let (Some(major), Some(minor)) = (number(), number()) else {
        return Err(format!("python3 does not tell its version, but {probed:?}; install it: {INSTALL}"));
    };
    if (major, minor) < NEEDED {
        return Err(format!(
            "python3 is {major}.{minor}, and the SDK needs {}.{} or newer; install it: {INSTALL}",
            NEEDED.0, NEEDED.1
        ));
    }
    if words.next() != Some("True") {
        return Err(format!(
            "python3 has no venv, which makes the project's .venv; install it: {INSTALL_VENV}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_that_will_not_do_gets_the_line_that_brings_one() {
        assert_eq!(check("3 11 True\n"), Ok(()));
        assert_eq!(check("4 0 True"), Ok(()));
        let old = check("3 9 True").expect_err("too old");
        assert!(old.contains("python3 is 3.9") && old.contains("apt-get install python3 "), "{old}");
        let bare = check("3 12 False").expect_err("no venv");
        assert!(bare.ends_with("install it: sudo apt-get install python3-venv"), "{bare}");
        assert!(check("").is_err());
    }

    fn project(requirements: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("requirements.txt"), requirements).expect("written");
        fs::create_dir(folder.path().join("sdk")).expect("made");
        fs::write(folder.path().join("sdk/pyproject.toml"), "first").expect("written");
        folder
    }

    #[test]
    fn the_environment_is_made_again_when_the_sdk_the_requirements_or_the_place_change() {
        let project_folder = project("-e ./sdk\n");
        let before = wanted(project_folder.path()).expect("readable");
        assert_eq!(wanted(project_folder.path()).as_ref(), Ok(&before));
        fs::write(project_folder.path().join("sdk/pyproject.toml"), "second").expect("written");
        let after = wanted(project_folder.path()).expect("readable");
        assert_ne!(after, before);
        fs::write(project_folder.path().join("requirements.txt"), "-e ./sdk\nsix\n").expect("written");
        assert_ne!(wanted(project_folder.path()).expect("readable"), after);
        assert_ne!(wanted(project("-e ./sdk\n").path()).expect("readable"), before);
    }

    #[test]
    fn an_sdk_that_is_not_there_is_named() {
        let error = wanted(project("-e ../nowhere\n").path()).expect_err("no such folder");
        assert!(error.contains("../nowhere") && error.contains("correct the path"), "{error}");
        let empty = tempfile::tempdir().expect("a folder");
        let error = wanted(empty.path()).expect_err("no requirements");
        assert!(error.contains("-e ./sdk"), "{error}");
    }
}
