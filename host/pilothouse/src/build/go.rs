//! Go: the standard compiler, for wasip1, as a library.

use std::path::Path;
use std::process::Command;

use super::{Artifact, Job};
use crate::Failed;

/// What the SDK's go.mod asks for: earlier compilers cannot export a package's functions, or lack what the SDK uses.
const NEEDED: (u32, u32) = (1, 26);
const INSTALL: &str =
    "https://go.dev/dl/ has archives for every system (version 1.26 or newer); put its bin folder into PATH";

pub(super) async fn build(job: &Job) -> Result<Artifact, Failed> {
    let go = job.tool("go", INSTALL)?;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&go);
        command.args(arguments).env("GOOS", "wasip1").env("GOARCH", "wasm");
        command
    };
    let version = job.run("look for a Go compiler", command(&["env", "GOVERSION"])).await?.stdout;
    if parse_version(&version).is_none_or(|found| found < NEEDED) {
        let found = version.trim();
        return Err(job.failed(format_args!(
            "go is {found}, and the SDK needs go{}.{} or newer: {INSTALL}",
            NEEDED.0, NEEDED.1
        )));
    }
    let module = job.run("read go.mod", command(&["list", "-m"])).await?.stdout;
    let file = job.scratch().join("plugin.wasm");
    // Function names stay in the file, for the backtrace of a trap: they are 2 % of it. There is no other debugging information in it.
    let mut compile = command(&["build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-o"]);
    compile.arg(&file).arg(".");
    job.run("go build", compile).await?;
    Ok(Artifact { name: name_of(&module, job.project()), file })
}

/// Major and minor of "go1.26.8", "go1.27rc1" or "devel go1.27-abc".
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    let (major, rest) = text[text.find("go")? + 2..].split_once('.')?;
    Some((number(major)?, number(rest)?))
}

/// The last element of the module's path that is no version: "example.com/team/web/v2" is web.
fn name_of(module: &str, project: &Path) -> String {
    let is_version = |part: &&str| {
        part.strip_prefix('v')
            .is_some_and(|number| !number.is_empty() && number.chars().all(|char| char.is_ascii_digit()))
    };
    let name = module.trim().rsplit('/').find(|part| !is_version(part)).filter(|name| !name.is_empty());
    let folder = || project.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.map_or_else(folder, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_the_ways_that_go_writes_them() {
        assert_eq!(parse_version("go1.26.8\n"), Some((1, 26)));
        assert_eq!(parse_version("go1.27rc1"), Some((1, 27)));
        assert_eq!(parse_version("devel go1.28-0a1b2c"), Some((1, 28)));
        assert_eq!(parse_version("gccgo"), None);
        assert!(parse_version("go1.9.1").is_some_and(|found| found < NEEDED));
    }

    #[test]
    fn a_plugin_is_called_like_its_module() {
        let here = Path::new("/projects/folder");
        assert_eq!(name_of("example.com/team/web\n", here), "web");
        assert_eq!(name_of("example.com/team/web/v2", here), "web");
        assert_eq!(name_of("greeter", here), "greeter");
        assert_eq!(name_of("v2", here), "folder");
    }
}
