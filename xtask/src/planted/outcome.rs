//! Judges a search, and prints its line. Pure.

use super::table::Bug;
use crate::catalogue::report::Report;

/// The header of the printed table.
pub(super) const HEADER: &str =
    "host                                   result     schedules  seconds  oracle";

/// Whether a search found what it had to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DetectionOutcome {
    /// It did.
    Correct,
    /// It did not.
    Problem(String),
}

impl DetectionOutcome {
    /// Judges a search with the unchanged host: it must find nothing.
    pub(super) fn of_unchanged(report: &Report) -> Self {
        match report.findings.first() {
            None => Self::Correct,
            Some(finding) => {
                Self::Problem(format!("it was reported by {}: {}", finding.oracle, finding.explanation))
            }
        }
    }

    /// Judges a search with a bug: one of the expected oracles must report it.
    pub(super) fn of_bug(bug: &Bug, report: &Report) -> Self {
        if report.findings.iter().any(|finding| bug.oracles.contains(&finding.oracle)) {
            return Self::Correct;
        }
        let (title, expected) = (&bug.title, bug.oracles.join(" or "));
        Self::Problem(match report.findings.first() {
            None => {
                format!("{title}: nothing was found in {} schedules; expected was {expected}", report.runs)
            }
            Some(finding) => format!(
                "{title}: it was reported by {}: {}; expected was {expected}",
                finding.oracle, finding.explanation
            ),
        })
    }
}

/// Returns the line of a search in the printed table: of the first finding, if there is one.
pub(super) fn line(name: &str, report: &Report, outcome: &DetectionOutcome) -> String {
    let first = report.findings.first();
    let result = match (outcome, first) {
        (DetectionOutcome::Problem(_), _) => "PROBLEM",
        (DetectionOutcome::Correct, Some(_)) => "found",
        (DetectionOutcome::Correct, None) => "clean",
    };
    let runs = first.map_or(report.runs, |finding| finding.runs);
    let oracle = first.map(|finding| format!("  {}", finding.oracle)).unwrap_or_default();
    let seconds = first.map_or(report.seconds, |finding| finding.seconds);
    format!("{name:<38} {result:<10} {runs:>9} {seconds:>8.1}{oracle}")
}

#[cfg(test)]
mod tests {
    use super::super::table::Bugs;
    use super::*;
    use crate::catalogue::report::Finding;

    fn bug() -> Bug {
        let text = "bugs:\n- {name: a, title: T, file: f, find: x, replace: y, plugin: p, scenario: s, oracles: [summary, same end]}\n";
        Bugs::parse(text).expect("a bug").bugs.remove(0)
    }

    fn report(oracles: &[&str]) -> Report {
        let finding = |oracle: &&str| Finding {
            oracle: (*oracle).to_owned(),
            explanation: "two are there".to_owned(),
            runs: 12,
            seconds: 0.31,
            steps: 6,
            faults: 2,
        };
        Report { seconds: 0.31, runs: 2000, findings: oracles.iter().map(finding).collect(), peak_mib: None }
    }

    #[test]
    fn a_bug_must_be_found_by_an_expected_oracle() {
        assert_eq!(
            DetectionOutcome::of_bug(&bug(), &report(&["orphan", "same end"])),
            DetectionOutcome::Correct
        );
        let problem = |oracles: &[&str]| match DetectionOutcome::of_bug(&bug(), &report(oracles)) {
            DetectionOutcome::Problem(problem) => problem,
            DetectionOutcome::Correct => panic!("{oracles:?} is taken for correct"),
        };
        assert_eq!(problem(&[]), "T: nothing was found in 2000 schedules; expected was summary or same end");
        assert!(problem(&["orphan"]).starts_with("T: it was reported by orphan: two are there; expected"));
    }

    #[test]
    fn the_unchanged_host_must_not_be_reported() {
        assert_eq!(DetectionOutcome::of_unchanged(&report(&[])), DetectionOutcome::Correct);
        assert!(matches!(
            DetectionOutcome::of_unchanged(&report(&["summary"])),
            DetectionOutcome::Problem(_)
        ));
    }

    #[test]
    fn a_line_has_the_columns_of_the_header() {
        let found = line("stale-index", &report(&["summary"]), &DetectionOutcome::Correct);
        assert_eq!(found, "stale-index                            found             12      0.3  summary");
        assert_eq!(HEADER.find("oracle"), found.find("summary"));
        assert!(line("a", &report(&[]), &DetectionOutcome::Correct).contains(" clean "));
        assert!(line("a", &report(&[]), &DetectionOutcome::Problem(String::new())).contains(" PROBLEM "));
    }
}
