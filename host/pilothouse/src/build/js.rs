//! JavaScript and TypeScript: npm brings what the project pins, the SDK's own build tool makes the component.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;

use super::{Artifact, Job};
use crate::Failed;

/// The line that brings node and npm.
const INSTALL: &str = "sudo apt-get install nodejs npm, or from https://nodejs.org; version 20 or newer";

/// The SDK's build tool, in a project that depends on the SDK.
const BUILDER: &str = "node_modules/@pilothouse/sdk/build/cli.js";

pub(super) async fn build(job: &Job) -> Result<Artifact, Failed> {
    let node = job.tool("node", INSTALL)?;
    let name = package_name(job.project()).map_err(|problem| job.failed(problem))?;
    if needs_install(job.project()) {
        let mut command = Command::new(job.tool("npm", INSTALL)?);
        // It keeps to the lock file. `npm ci` would refuse one without the engine's builds for machines that it is not published for.
        command.args(["install", "--no-audit", "--no-fund"]);
        job.run("npm install", command).await?;
    }
    if !job.project().join(BUILDER).is_file() {
        return Err(job.failed(
            "package.json does not have the SDK, which builds the plugin; add \"@pilothouse/sdk\": \"file:sdk\" to its \
             devDependencies, with the path where the SDK is, and run npm install",
        ));
    }
    let file = job.scratch().join("plugin.wasm");
    let mut command = Command::new(node);
    command.arg(BUILDER).arg(job.project()).arg("-o").arg(&file);
    let said = job.run("bundle and componentize", command).await?;
    for line in said.stderr.lines() {
        job.say(line);
    }
    Ok(Artifact { name, file })
}

/// The package's name, without its scope.
fn package_name(project: &Path) -> Result<String, String> {
    let text =
        fs::read_to_string(project.join("package.json")).map_err(|error| format!("package.json: {error}"))?;
    let manifest: Value = serde_json::from_str(&text).map_err(|error| format!("package.json: {error}"))?;
    let name = manifest["name"].as_str().ok_or("package.json has no name; it is the plugin's")?;
    Ok(name.rsplit('/').next().unwrap_or(name).to_owned())
}

/// What npm last put into place is older than what the project asks for, or is not there. npm writes this file at the end, so an
/// installation that was interrupted counts as none.
fn needs_install(project: &Path) -> bool {
    let modified =
        |file: &str| -> Option<SystemTime> { fs::metadata(project.join(file)).ok()?.modified().ok() };
    let Some(installed) = modified("node_modules/.package-lock.json") else { return true };
    ["package.json", "package-lock.json"].into_iter().filter_map(modified).any(|asked| asked > installed)
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
    fn a_scope_is_no_part_of_a_plugins_name() {
        assert_eq!(package_name(project(&["package.json"]).path()), Ok("greeter".to_owned()));
        let error = package_name(project(&[]).path()).expect_err("no file");
        assert!(error.contains("package.json"), "{error}");
    }

    #[test]
    fn npm_runs_when_what_is_there_is_older_than_what_is_asked_for() {
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
