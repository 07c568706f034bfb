//! The version and commit that something was built from.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::metadata::{Metadata, PACKAGE};

/// The time of a build from sources without git's history.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// What was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Version of the package.
    pub(super) version: String,
    /// The commit, with `-dirty` if files differ from it; `None` outside of a git repository.
    pub(super) revision: Option<String>,
    /// The commit's time, in RFC 3339. The time of the build would make each build different.
    pub(super) created: String,
}

impl Source {
    /// Reads version, commit and time.
    ///
    /// # Errors
    /// Errors if there is no package of that name.
    pub(super) fn read(root: &Path, metadata: &Metadata) -> Result<Self> {
        let version = metadata.package(PACKAGE, None)?.version().to_owned();
        let commit = git(root, &["log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%H %cd"]);
        let changes = git(root, &["status", "--porcelain", "--untracked-files=no"]);
        Ok(match (commit.as_deref().and_then(|line| line.trim().split_once(' ')), changes) {
            (Some((commit, time)), Some(changes)) => {
                let suffix = if changes.trim().is_empty() { "" } else { "-dirty" };
                Self { version, revision: Some(format!("{commit}{suffix}")), created: time.to_owned() }
            }
            _ => Self { version, revision: None, created: EPOCH.to_owned() },
        })
    }

    /// Errors unless the tag is that of this version.
    ///
    /// # Errors
    /// Errors if the tag is not `v` and the version.
    pub(super) fn require_tag(&self, tag: &str) -> Result<()> {
        let expected = format!("v{}", self.version);
        ensure!(
            tag == expected,
            "the tag {tag} is not that of the version in Cargo.toml: tag the commit {expected}, or change `version` in [workspace.package]"
        );
        Ok(())
    }
}

/// Returns the output of git, or `None` if it fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).env("TZ", "UTC").args(arguments).output();
    let output = output.context("run git").ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata() -> Metadata {
        Metadata::from_json(json!({"packages": [{"name": PACKAGE, "version": "1.2.3"}]}))
    }

    #[test]
    fn sources_without_history_have_a_version_and_a_fixed_time() {
        let folder = tempfile::tempdir().expect("a folder");
        // Git must not find a repository above the folder.
        let nowhere = folder.path().join("absent");
        let source = Source::read(&nowhere, &metadata()).expect("a version");
        assert_eq!(source, Source { version: "1.2.3".to_owned(), revision: None, created: EPOCH.to_owned() });
    }

    #[test]
    fn a_tag_must_be_that_of_the_version() {
        let source = Source { version: "1.2.3".to_owned(), revision: None, created: EPOCH.to_owned() };
        assert!(source.require_tag("v1.2.3").is_ok());
        for tag in ["1.2.3", "v1.2.4", ""] {
            assert!(source.require_tag(tag).is_err(), "{tag}");
        }
    }
}
