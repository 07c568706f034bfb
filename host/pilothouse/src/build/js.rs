//! Builds JavaScript and TypeScript projects: npm installs the pinned dependencies, and the SDK's build tool makes the component.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;

use super::{Artifact, Job};
use crate::CommandError;

/// How to install node and npm.
const INSTALL: &str = "sudo apt-get install nodejs npm, or from https://nodejs.org; version 20 or newer";

/// Path of the SDK's build tool in a project that depends on the SDK.
const BUILDER: &str = "node_modules/@pilothouse/sdk/build/cli.js";

pub(super) async fn build(job: &Job) -> Result<Artifact, CommandError> {
    let node = job.find_tool("node", INSTALL)?;
    let name = package_name(job.project()).map_err(|problem| job.error(problem))?;
    if needs_install(job.project()) {
        let mut command = Command::new(job.find_tool("npm", INSTALL)?);
        // `npm install` respects the lock file. `npm ci` would reject a lock file that lacks the optional, platform-specific packages
        // of the JavaScript engine.
        command.args(["install", "--no-audit", "--no-fund"]);
        job.run("npm install", command).await?;
    }
    if !job.project().join(BUILDER).is_file() {
        return Err(job.error(
            "package.json does not depend on the SDK, which builds the plugin; add \"@pilothouse/sdk\": \"file:sdk\" with the path of \
             the SDK to devDependencies and run npm install",
        ));
    }
    let file = job.scratch().join("plugin.wasm");
    let mut command = Command::new(node);
    command.arg(BUILDER).arg(job.project()).arg("-o").arg(&file);
    let output = job.run("bundle and componentize", command).await?;
    for line in output.stderr.lines() {
        job.print(line);
    }
    Ok(Artifact { name, file })
}

/// Returns the package's name without its scope.
fn package_name(project: &Path) -> Result<String, String> {
    let text =
        fs::read_to_string(project.join("package.json")).map_err(|error| format!("package.json: {error}"))?;
    let manifest: Value = serde_json::from_str(&text).map_err(|error| format!("package.json: {error}"))?;
    let name =
        manifest["name"].as_str().ok_or("package.json has no name; add one, it becomes the plugin's name")?;
    Ok(name.rsplit('/').next().unwrap_or(name).to_owned())
}

/// Returns whether the installed packages are missing or older than package.json or the lock file. npm writes
/// `.package-lock.json` last, so an interrupted installation counts as missing.
fn needs_install(project: &Path) -> bool {
    let modified =
        |file: &str| -> Option<SystemTime> { fs::metadata(project.join(file)).ok()?.modified().ok() };
    let Some(installed) = modified("node_modules/.package-lock.json") else { return true };
    ["package.json", "package-lock.json"]
        .into_iter()
        .filter_map(modified)
        .any(|required| required > installed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn project(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, r#"{"name": "@team/greeter"}"#).expect("written");
        }
        folder
    }

    fn age(project: &Path, file: &str) {
        let earlier = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let opened = fs::File::options().write(true).open(project.join(file)).expect("opened");
        opened.set_modified(earlier).expect("set");
    }

    #[test]
    fn plugin_name_excludes_the_package_scope() {
        assert_eq!(package_name(project(&["package.json"]).path()), Ok("greeter".to_owned()));
        let error = package_name(project(&[]).path()).expect_err("no file");
        assert!(error.contains("package.json"), "{error}");
    }

    #[test]
    fn npm_runs_only_when_the_installed_packages_are_outdated() {
        let installed = "node_modules/.package-lock.json";
        assert!(needs_install(project(&["package.json"]).path()), "never installed");
        for changed in ["package.json", "package-lock.json"] {
            let project = project(&["package.json", "package-lock.json", installed]);
            for file in ["package.json", "package-lock.json"] {
                age(project.path(), file);
            }
            assert!(!needs_install(project.path()), "up to date");
            fs::write(project.path().join(changed), "{}").expect("written");
            age(project.path(), installed);
            assert!(needs_install(project.path()), "{changed} has changed");
        }
    }
}
