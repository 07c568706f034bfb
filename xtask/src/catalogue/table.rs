//! The table of all cases: examples/catalogue/catalogue.yaml.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::FOLDER;

/// The table's file, in the catalogue's folder.
const FILE: &str = "catalogue.yaml";

/// All cases, and what the simulation does not judge as it should.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalogue {
    pub(super) cases: Vec<Case>,
    pub(super) gaps: Vec<Gap>,
}

/// A bug, with its two plugins. Paths are relative to the catalogue's folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) language: CaseLanguage,
    pub(super) source: String,
    pub(super) scenario: String,
    pub(super) wrong: String,
    pub(super) right: String,
    /// The sidecar of both plugins.
    pub(super) sidecar: Option<String>,
    pub(super) guarantees: String,
    pub(super) classes: Vec<String>,
    pub(super) oracles: Vec<String>,
    pub(super) sources: Vec<String>,
}

/// The language of both twins of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CaseLanguage {
    Rust,
    Go,
    Js,
}

/// One of the two plugins of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Twin {
    Wrong,
    Right,
}

/// A twin that the simulation does not judge as it should.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gap {
    pub(super) case: String,
    pub(super) twin: Twin,
    pub(super) reason: String,
}

impl fmt::Display for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Wrong => "wrong",
            Self::Right => "right",
        })
    }
}

impl CaseLanguage {
    /// Returns the language's name for readers.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::Js => "JavaScript",
        }
    }
}

impl Case {
    /// Returns the file name of one twin.
    pub(super) fn plugin(&self, twin: Twin) -> &str {
        match twin {
            Twin::Wrong => &self.wrong,
            Twin::Right => &self.right,
        }
    }
}

impl Catalogue {
    /// Reads the table.
    ///
    /// # Errors
    /// Errors if the file cannot be read, or has an unknown or a missing member.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let path = root.join(FOLDER).join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("read {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        serde_saphyr::from_str(text).map_err(|error| anyhow!("{error}"))
    }

    /// Returns the reason if the simulation is known not to judge this twin as it should.
    pub(super) fn gap(&self, case: &Case, twin: Twin) -> Option<&str> {
        let gap = self.gaps.iter().find(|gap| gap.case == case.name && gap.twin == twin);
        gap.map(|gap| gap.reason.as_str())
    }

    /// Returns a line for each mistake in the table. `is_file` says whether a path of the catalogue's folder is a file.
    pub(super) fn problems(&self, is_file: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        for pair in self.cases.windows(2) {
            if pair[0].number >= pair[1].number {
                found.push(format!("case {} is listed after case {}", pair[1].number, pair[0].number));
            }
        }
        let names: BTreeSet<&str> = self.cases.iter().map(|case| case.name.as_str()).collect();
        if names.len() < self.cases.len() {
            found.push("two cases have the same name".to_owned());
        }
        for case in &self.cases {
            let name = &case.name;
            for path in
                [Some(&case.source), Some(&case.scenario), case.sidecar.as_ref()].into_iter().flatten()
            {
                if !is_file(path) {
                    found.push(format!("{path} of {name} does not exist"));
                }
            }
            for twin in [Twin::Wrong, Twin::Right] {
                if case.plugin(twin) != format!("{name}-{twin}.wasm") {
                    found.push(format!("the {twin} twin of {name} is not {name}-{twin}.wasm"));
                }
            }
            if case.oracles.is_empty() || case.sources.is_empty() {
                found.push(format!("{name} names no oracle or no source"));
            }
            if !["on", "none"].contains(&case.guarantees.as_str()) {
                found.push(format!("guarantees of {name} is {:?}; write on or none", case.guarantees));
            }
        }
        for gap in &self.gaps {
            if !names.contains(gap.case.as_str()) {
                found.push(format!("there is no case {:?}, which gaps names", gap.case));
            }
            if gap.reason.trim().is_empty() {
                found.push(format!("the gap of the {} twin of {} has no reason", gap.twin, gap.case));
            }
        }
        found.into_iter().map(|problem| format!("{FOLDER}/{FILE}: {problem}")).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A catalogue with one case, which is called `a`. `more` is added to the end of the text.
    pub(in crate::catalogue) fn catalogue(more: &str) -> Catalogue {
        let text = format!(
            "cases:\n- number: 1\n  name: a\n  title: Deletes too much\n  language: js\n  source: js/a.js\n  scenario: scenarios/01-a.yaml\n  \
             wrong: a-wrong.wasm\n  right: a-right.wasm\n  guarantees: \"on\"\n  classes: [T]\n  oracles: [summary]\n  \
             sources: [\"https://github.com/o/r/issues/7\"]\n{more}"
        );
        Catalogue::parse(&text).expect("a catalogue")
    }

    #[test]
    fn the_committed_table_has_no_mistakes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert_eq!(super::super::problems(&root).expect("readable"), Vec::<String>::new());
    }

    #[test]
    fn missing_files_and_contradictions_are_problems() {
        let good = catalogue("gaps: []\n");
        assert_eq!(good.problems(&|_| true), Vec::<String>::new());
        assert_eq!(good.problems(&|path| path == "js/a.js").len(), 1);
        let mut bad = catalogue("gaps: [{case: b, twin: wrong, reason: \"\"}]\n");
        bad.cases[0].wrong = "b.wasm".to_owned();
        bad.cases[0].guarantees = "off".to_owned();
        bad.cases[0].oracles.clear();
        assert_eq!(bad.problems(&|_| true).len(), 5, "{:?}", bad.problems(&|_| true));
    }

    #[test]
    fn an_unknown_member_is_an_error() {
        let error = Catalogue::parse("cases: []\ngaps: []\nextra: 1\n").expect_err("unknown").to_string();
        assert!(error.contains("extra"), "{error}");
    }

    #[test]
    fn a_gap_is_found_by_case_and_twin() {
        let catalogue = catalogue("gaps: [{case: a, twin: right, reason: a stand-in is missing}]\n");
        let case = &catalogue.cases[0];
        assert_eq!(catalogue.gap(case, Twin::Right), Some("a stand-in is missing"));
        assert_eq!(catalogue.gap(case, Twin::Wrong), None);
    }
}
