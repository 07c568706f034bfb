//! The expected outcomes of all suites: xtask/peers-tests.yaml.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;

/// The file, in the repository.
pub(super) const FILE: &str = "xtask/peers-tests.yaml";

/// The expected outcomes of all suites.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expectations {
    pub(super) suites: Vec<Expectation>,
}

/// The expected outcomes of a suite.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expectation {
    pub(super) name: String,
    /// The number of tests that pass on kube-apiserver.
    pub(super) passed: usize,
    /// Tests that fail on the embedded server and pass on kube-apiserver.
    #[serde(default)]
    differences: Vec<Group>,
    /// Tests that fail on kube-apiserver, too. Their outcome on the embedded server is not compared.
    #[serde(default)]
    fail_on_kube_apiserver: Vec<Group>,
}

/// Tests that fail for the same reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    reason: String,
    tests: Vec<String>,
}

impl Expectations {
    /// Reads the file.
    ///
    /// # Errors
    /// Errors if the file cannot be read or is invalid.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("read {FILE}"))?;
        Self::parse(&text).with_context(|| format!("read {FILE}"))
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// Errors if the text is invalid, a suite or a test is listed twice, or a reason is empty.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let expectations: Self = serde_saphyr::from_str(text).map_err(|error| anyhow!("{error}"))?;
        let mut suites = BTreeSet::new();
        for suite in &expectations.suites {
            ensure!(suites.insert(&suite.name), "the suite {} is listed twice", suite.name);
            let mut tests = BTreeSet::new();
            for test in suite.names() {
                ensure!(tests.insert(test), "{}: the test {test:?} is listed twice", suite.name);
            }
            let mut groups = suite.differences.iter().chain(&suite.fail_on_kube_apiserver);
            ensure!(groups.all(|group| !group.reason.is_empty()), "{}: a reason is empty", suite.name);
        }
        Ok(expectations)
    }

    /// Returns the expected outcomes of a suite.
    ///
    /// # Errors
    /// Errors if the suite is not listed.
    pub(super) fn of(&self, suite: &str) -> Result<&Expectation> {
        self.suites
            .iter()
            .find(|expectation| expectation.name == suite)
            .with_context(|| format!("{FILE} lacks the suite {suite}"))
    }
}

impl Expectation {
    /// Returns whether the test is an expected difference.
    pub(super) fn differs(&self, test: &str) -> bool {
        self.differences.iter().any(|group| group.tests.iter().any(|name| name == test))
    }

    /// Returns whether the test fails on kube-apiserver.
    pub(super) fn fails_on_kube_apiserver(&self, test: &str) -> bool {
        self.fail_on_kube_apiserver.iter().any(|group| group.tests.iter().any(|name| name == test))
    }

    /// Returns the number of expected differences.
    pub(super) fn difference_count(&self) -> usize {
        self.differences.iter().map(|group| group.tests.len()).sum()
    }

    /// Returns the names of all listed tests.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let groups = self.differences.iter().chain(&self.fail_on_kube_apiserver);
        groups.flat_map(|group| group.tests.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::super::suites::SUITES;
    use super::*;

    #[test]
    fn the_file_lists_the_suites_of_the_command() {
        let expectations = Expectations::parse(include_str!("../../peers-tests.yaml")).expect("valid");
        let listed: Vec<_> = expectations.suites.iter().map(|suite| suite.name.as_str()).collect();
        let suites: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(listed, suites);
    }

    #[test]
    fn invalid_files_are_refused() {
        for (text, error) in [
            ("suites: [{name: a, passed: 1}, {name: a, passed: 1}]", "the suite a is listed twice"),
            (
                "suites: [{name: a, passed: 1, differences: [{reason: r, tests: [x, x]}]}]",
                "a: the test \"x\" is listed twice",
            ),
            (
                "suites: [{name: a, passed: 1, differences: [{reason: '', tests: [x]}]}]",
                "a: a reason is empty",
            ),
            ("suites: [{name: a, passed: 1, difference: []}]", "unknown field"),
        ] {
            let found = Expectations::parse(text).expect_err("invalid").to_string();
            assert!(found.contains(error), "{text}: {found}");
        }
    }
}
