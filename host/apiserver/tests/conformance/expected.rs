//! The list of expected differences (`differences.yaml`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::compare::Difference;

/// The list. It may only shrink: an entry without a difference is an error.
pub(crate) struct ExpectedDifferences {
    entries: Vec<Entry>,
}

/// Differences with one cause.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    reason: String,
    /// `CASE STEP POINTER`. A `*` stands for any text.
    at: Vec<String>,
}

impl ExpectedDifferences {
    pub(crate) fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).expect("the list of expected differences");
        let entries: Vec<Entry> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for entry in &entries {
            assert!(!entry.reason.is_empty() && !entry.at.is_empty(), "an entry needs a reason and places");
        }
        Self { entries }
    }

    /// Returns a line for each difference that is not expected, and for each expected one that was not found in the cases that ran.
    pub(crate) fn problems(&self, found: &[Difference], ran: &BTreeSet<&str>) -> Vec<String> {
        let is_expected = |difference: &Difference| self.places().any(|place| is_at(&difference.id(), place));
        let unexpected = found.iter().filter(|difference| !is_expected(difference)).map(|difference| {
            format!(
                "{}\n    kube-apiserver: {}\n    embedded:       {}",
                difference.id(),
                difference.expected,
                difference.actual
            )
        });
        let is_gone = |place: &&str| {
            let case = place.split(' ').next().unwrap_or_default();
            ran.iter().any(|name| is_at(name, case))
                && !found.iter().any(|difference| is_at(&difference.id(), place))
        };
        let gone = self
            .places()
            .filter(is_gone)
            .map(|place| format!("{place}: no longer differs; remove it from differences.yaml"));
        unexpected.chain(gone).collect()
    }

    /// Returns the places of cases that do not exist.
    pub(crate) fn unknown_cases(&self, cases: &BTreeSet<&str>) -> Vec<&str> {
        let exists = |place: &&str| {
            let case = place.split(' ').next().unwrap_or_default();
            cases.iter().any(|name| is_at(name, case))
        };
        self.places().filter(|place| !exists(place)).collect()
    }

    /// Returns how many places the list has.
    pub(crate) fn len(&self) -> usize {
        self.places().count()
    }

    fn places(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().flat_map(|entry| &entry.at).map(String::as_str)
    }
}

/// Returns whether a place names the difference. `*` in a place stands for any text.
fn is_at(id: &str, place: &str) -> bool {
    let mut parts = place.split('*');
    let Some(mut rest) = parts.next().and_then(|start| id.strip_prefix(start)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn a_place_matches_with_any_text_for_a_star() {
    assert!(is_at("a/b 1 /body/x", "a/b 1 /body/x"));
    assert!(is_at("a/b 1 /body/x", "* /body/x"));
    assert!(is_at("a/b 1 /body/x", "a/* /body/*"));
    assert!(!is_at("a/b 1 /body/x", "a/b 1 /body"));
    assert!(!is_at("a/b 1 /body/x", "* /body/y"));
    assert!(!is_at("a/b 1 /body/x", "b/* /body/x"));
}
