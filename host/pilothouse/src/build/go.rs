//! Builds Go projects with the standard compiler, as a library for wasip1.

use std::path::Path;
use std::process::Command;

use super::{Artifact, Job};
use crate::CommandError;

/// The oldest supported version, as in the SDK's go.mod. Older compilers cannot export functions or lack features that the SDK uses.
const MIN_VERSION: (u32, u32) = (1, 26);
const INSTALL: &str = "download version 1.26 or newer from https://go.dev/dl/ and add its bin folder to PATH";

pub(super) async fn build(job: &Job) -> Result<Artifact, CommandError> {
    let go = job.find_tool("go", INSTALL)?;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&go);
        command.args(arguments).env("GOOS", "wasip1").env("GOARCH", "wasm");
        command
    };
    let version = job.run("look for a Go compiler", command(&["env", "GOVERSION"])).await?.stdout;
    if parse_version(&version).is_none_or(|found| found < MIN_VERSION) {
        let found = version.trim();
        return Err(job.error(format_args!(
            "go is {found}, but the SDK requires go{}.{} or newer: {INSTALL}",
            MIN_VERSION.0, MIN_VERSION.1
        )));
    }
    let module = job.run("read go.mod", command(&["list", "-m"])).await?.stdout;
    let file = job.scratch().join("plugin.wasm");
    // No -ldflags=-s: function names stay for the backtraces of traps. They are 2 % of the file, which has no other debug information.
    let mut compile = command(&["build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-o"]);
    compile.arg(&file).arg(".");
    job.run("go build", compile).await?;
    Ok(Artifact { name: plugin_name(&module, job.project()), file })
}

/// Returns the major and minor version of "go1.26.8", "go1.27rc1" or "devel go1.27-abc".
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    let (major, rest) = text[text.find("go")? + 2..].split_once('.')?;
    Some((number(major)?, number(rest)?))
}

/// Returns the last element of the module path that is not a version: `web` for "example.com/team/web/v2". Falls back to the name
/// of the project's folder.
fn plugin_name(module: &str, project: &Path) -> String {
    let is_version = |element: &&str| {
        element
            .strip_prefix('v')
            .is_some_and(|number| !number.is_empty() && number.chars().all(|char| char.is_ascii_digit()))
    };
    let name = module.trim().rsplit('/').find(|element| !is_version(element)).filter(|name| !name.is_empty());
    let folder = || project.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.map_or_else(folder, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_release_candidate_and_development_versions() {
        assert_eq!(parse_version("go1.26.8\n"), Some((1, 26)));
        assert_eq!(parse_version("go1.27rc1"), Some((1, 27)));
        assert_eq!(parse_version("devel go1.28-0a1b2c"), Some((1, 28)));
        assert_eq!(parse_version("gccgo"), None);
        assert!(parse_version("go1.9.1").is_some_and(|found| found < MIN_VERSION));
    }

    #[test]
    fn plugin_is_named_after_its_module() {
        let folder = Path::new("/projects/folder");
        assert_eq!(plugin_name("example.com/team/web\n", folder), "web");
        assert_eq!(plugin_name("example.com/team/web/v2", folder), "web");
        assert_eq!(plugin_name("greeter", folder), "greeter");
        assert_eq!(plugin_name("v2", folder), "folder");
    }
}
