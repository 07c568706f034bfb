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
    /// `CASE STEP POINTER`. A `*` at the end stands for the rest of the pointer.
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
            ran.contains(case) && !found.iter().any(|difference| is_at(&difference.id(), place))
        };
        let gone = self
            .places()
            .filter(is_gone)
            .map(|place| format!("{place}: no longer differs; remove it from differences.yaml"));
        unexpected.chain(gone).collect()
    }

    /// Returns the places of cases that do not exist.
    pub(crate) fn unknown_cases(&self, cases: &BTreeSet<&str>) -> Vec<&str> {
        self.places().filter(|place| !cases.contains(place.split(' ').next().unwrap_or_default())).collect()
    }

    /// Returns how many places the list has.
    pub(crate) fn len(&self) -> usize {
        self.places().count()
    }

    fn places(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().flat_map(|entry| &entry.at).map(String::as_str)
    }
}

fn is_at(id: &str, place: &str) -> bool {
    place.strip_suffix('*').map_or(id == place, |start| id.starts_with(start))
}
