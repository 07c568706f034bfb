//! Reads `cargo metadata`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo;

/// The package that users get.
pub(super) const PACKAGE: &str = "pilothouse";

/// What cargo knows of the workspace and of all packages in Cargo.lock.
pub(super) struct Metadata(Value);

impl Metadata {
    /// Runs `cargo metadata`.
    ///
    /// # Errors
    /// Errors if cargo fails.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let output = cargo::cargo()
            .current_dir(root)
            .args(["metadata", "--locked", "--format-version", "1"])
            .output()
            .context("run cargo metadata")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).map(Self).context("read the output of cargo metadata")
    }

    /// Returns the package with this name and, if given, this version.
    ///
    /// # Errors
    /// Errors if there is none.
    pub(super) fn package(&self, name: &str, version: Option<&str>) -> Result<Package<'_>> {
        let packages = self.0["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        packages
            .iter()
            .map(Package)
            .find(|package| {
                package.0["name"] == name && version.is_none_or(|version| package.version() == version)
            })
            .with_context(|| format!("cargo metadata has no package {name} {}", version.unwrap_or_default()))
    }

    /// Returns the folder that cargo builds into.
    ///
    /// # Errors
    /// Errors if cargo did not report it.
    pub(super) fn target_folder(&self) -> Result<PathBuf> {
        self.0["target_directory"]
            .as_str()
            .map(PathBuf::from)
            .context("cargo metadata has no target directory")
    }

    #[cfg(test)]
    pub(super) fn from_json(value: Value) -> Self {
        Self(value)
    }
}

/// A package in the output of `cargo metadata`.
pub(super) struct Package<'a>(&'a Value);

impl<'a> Package<'a> {
    /// Returns the version, or nothing if there is none.
    pub(super) fn version(&self) -> &'a str {
        self.0["version"].as_str().unwrap_or_default()
    }

    /// Returns the licences as an SPDX expression.
    pub(super) fn licence(&self) -> Option<String> {
        // Old manifests separate alternatives with a slash.
        self.0["license"].as_str().map(|expression| expression.replace('/', " OR "))
    }

    /// Returns `[package.metadata]`, which is for other tools.
    #[cfg(test)]
    pub(super) fn metadata(&self) -> &'a Value {
        &self.0["metadata"]
    }

    /// Returns the address of the source code.
    pub(super) fn repository(&self) -> Option<&'a str> {
        self.0["repository"].as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_are_found_by_name_and_version() {
        let metadata = Metadata::from_json(json!({"packages": [
            {"name": "a", "version": "1.0.0", "license": "MIT/Apache-2.0", "repository": null},
            {"name": "a", "version": "2.0.0", "license": null, "repository": "https://example.com/a"},
        ]}));
        let first = metadata.package("a", Some("1.0.0")).expect("there");
        assert_eq!((first.licence().as_deref(), first.repository()), (Some("MIT OR Apache-2.0"), None));
        let second = metadata.package("a", Some("2.0.0")).expect("there");
        assert_eq!((second.licence(), second.repository()), (None, Some("https://example.com/a")));
        assert!(metadata.package("a", Some("3.0.0")).is_err());
        assert!(metadata.package("b", None).is_err());
    }
}
