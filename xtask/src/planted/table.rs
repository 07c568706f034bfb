//! The table of the bugs: examples/catalogue/planted/bugs.yaml.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::Subject;
use crate::catalogue::FOLDER;
use crate::checkout;

/// The table's file, in the folder of the catalogue.
const FILE: &str = "planted/bugs.yaml";

/// All bugs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bugs {
    pub(super) bugs: Vec<Bug>,
}

/// A bug of the host. The comment of the table explains the members.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bug {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) file: String,
    find: String,
    replace: String,
    pub(super) plugin: String,
    pub(super) sidecar: Option<String>,
    pub(super) scenario: String,
    pub(super) oracles: Vec<String>,
}

impl Bugs {
    /// Reads the table.
    ///
    /// # Errors
    /// Errors if the file cannot be read, or has an unknown or a missing member.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let path = root.join(FOLDER).join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("read {}", path.display()))
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_saphyr::from_str(text).map_err(|error| anyhow!("{error}"))
    }
}

impl Bug {
    /// Returns the plugin and the scenario.
    pub(super) fn subject(&self) -> Subject<'_> {
        (&self.plugin, &self.scenario)
    }

    /// Returns the source with the bug inserted.
    ///
    /// # Errors
    /// Errors unless the source contains the text to replace exactly once; then the table must be updated.
    pub(super) fn insert(&self, source: &str) -> Result<String> {
        checkout::replace_once(source, &self.find, &self.replace)
            .with_context(|| format!("the bug {} in {}; fix {FOLDER}/{FILE}", self.name, self.file))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_bug_still_applies() {
        let bugs = Bugs::read(&root()).expect("the bugs").bugs;
        assert!(bugs.len() >= 4);
        for bug in &bugs {
            let source = fs::read_to_string(root().join(&bug.file)).expect(&bug.file);
            assert_ne!(bug.insert(&source).expect(&bug.name), source, "{}", bug.name);
            assert!(!bug.title.is_empty(), "{}", bug.name);
        }
        let names: BTreeSet<&str> = bugs.iter().map(|bug| bug.name.as_str()).collect();
        assert_eq!(names.len(), bugs.len(), "two bugs have the same name");
    }

    #[test]
    fn every_bug_names_files_and_oracles_that_exist() {
        let folder = root().join(FOLDER);
        let built_in = fs::read_to_string(root().join("docs/simulation.md")).expect("the oracles");
        for bug in Bugs::read(&root()).expect("the bugs").bugs {
            let plugin = folder.join(format!("rust/plugins/{}.rs", bug.plugin));
            assert!(plugin.is_file(), "{} is missing", plugin.display());
            assert!(bug.sidecar.iter().all(|sidecar| folder.join(sidecar).is_file()), "{:?}", bug.sidecar);
            let scenario = fs::read_to_string(folder.join(&bug.scenario)).expect(&bug.scenario);
            assert!(!bug.oracles.is_empty(), "{}", bug.name);
            for oracle in &bug.oracles {
                let exists = scenario.contains(&format!("- name: {oracle}\n"))
                    || built_in.contains(&format!("\n| *{oracle}* |"));
                assert!(exists, "{}: there is no oracle {oracle:?}", bug.name);
            }
        }
    }

    #[test]
    fn an_unknown_member_is_an_error() {
        let error = Bugs::parse("bugs: []\nextra: 1\n").expect_err("unknown").to_string();
        assert!(error.contains("extra"), "{error}");
    }
}
