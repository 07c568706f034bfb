//! Judges the report on one twin, and prints its line. Pure.

use super::report::Report;
use super::table::{Case, Twin};

/// The header of the printed table.
pub(super) const HEADER: &str =
    " no  case                   twin   result     schedules  seconds  steps  faults  oracle";

/// Whether the simulation judged a twin as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CaseOutcome {
    /// It did.
    Correct,
    /// It did not, which is known.
    Gap,
    /// It did not, or a known gap is closed.
    Problem(String),
}

impl CaseOutcome {
    /// Judges the report on a twin. `gap` is the reason of a known gap.
    pub(super) fn of(case: &Case, twin: Twin, report: &Report, gap: Option<&str>) -> Self {
        let is_correct = report.findings.is_empty() == (twin == Twin::Right);
        match (is_correct, gap) {
            (true, None) => Self::Correct,
            (false, Some(_)) => Self::Gap,
            (true, Some(_)) => {
                Self::Problem("it is judged as it should; remove it from gaps in catalogue.yaml".to_owned())
            }
            (false, None) => Self::Problem(match report.findings.first() {
                None => format!(
                    "nothing was found in {} schedules; expected was {}",
                    report.runs,
                    case.oracles.join(" or ")
                ),
                Some(finding) => format!("it was reported by {}: {}", finding.oracle, finding.explanation),
            }),
        }
    }
}

/// Returns the line of a twin in the printed table. Schedules and seconds are those until the first finding was shrunk, or of the whole search.
pub(super) fn line(case: &Case, twin: Twin, report: &Report, outcome: &CaseOutcome) -> String {
    let first = report.findings.first();
    let result = match (outcome, first) {
        (CaseOutcome::Gap, _) => "known gap",
        (_, Some(_)) => "found",
        (_, None) => "not found",
    };
    let runs = first.map_or(report.runs, |finding| finding.runs);
    let number = |value: Option<usize>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let steps = number(first.map(|finding| finding.steps));
    let faults = number(first.map(|finding| finding.faults));
    let oracle = match first {
        None => String::new(),
        Some(finding) if twin == Twin::Right || case.oracles.contains(&finding.oracle) => {
            format!("  {}", finding.oracle)
        }
        Some(finding) => format!("  {} (not among those that were expected)", finding.oracle),
    };
    let seconds = first.map_or(report.seconds, |finding| finding.seconds);
    let (case_number, name) = (case.number, &case.name);
    format!(
        "{case_number:>3}  {name:<22} {twin:<6} {result:<10} {runs:>9} {seconds:>8.1} {steps:>6} {faults:>7}{oracle}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::report::Finding;
    use super::super::table::tests::catalogue;
    use super::*;

    fn report(oracles: &[&str]) -> Report {
        let finding = |oracle: &&str| Finding {
            oracle: (*oracle).to_owned(),
            explanation: "two are there".to_owned(),
            runs: 12,
            seconds: 0.31,
            steps: 6,
            faults: 2,
        };
        Report { seconds: 9.7, runs: 2000, findings: oracles.iter().map(finding).collect(), peak_mib: None }
    }

    #[test]
    fn a_wrong_twin_must_be_found_and_a_right_one_must_not() {
        let catalogue = catalogue("gaps: []\n");
        let of =
            |twin, oracles: &[&str], gap| CaseOutcome::of(&catalogue.cases[0], twin, &report(oracles), gap);
        assert_eq!(of(Twin::Wrong, &["summary"], None), CaseOutcome::Correct);
        assert_eq!(of(Twin::Right, &[], None), CaseOutcome::Correct);
        let CaseOutcome::Problem(missed) = of(Twin::Wrong, &[], None) else { panic!("it was not found") };
        assert_eq!(missed, "nothing was found in 2000 schedules; expected was summary");
        let CaseOutcome::Problem(false_alarm) = of(Twin::Right, &["orphan"], None) else {
            panic!("it was reported")
        };
        assert_eq!(false_alarm, "it was reported by orphan: two are there");
    }

    #[test]
    fn a_known_gap_is_no_problem_until_it_is_closed() {
        let catalogue = catalogue("gaps: []\n");
        let of = |twin, oracles: &[&str]| {
            CaseOutcome::of(&catalogue.cases[0], twin, &report(oracles), Some("known"))
        };
        assert_eq!(of(Twin::Wrong, &[]), CaseOutcome::Gap);
        assert_eq!(of(Twin::Right, &["orphan"]), CaseOutcome::Gap);
        assert!(matches!(of(Twin::Wrong, &["summary"]), CaseOutcome::Problem(_)));
        assert!(matches!(of(Twin::Right, &[]), CaseOutcome::Problem(_)));
    }

    #[test]
    fn a_line_has_the_columns_of_the_header() {
        let catalogue = catalogue("gaps: []\n");
        let case = &catalogue.cases[0];
        let found = line(case, Twin::Wrong, &report(&["summary"]), &CaseOutcome::Correct);
        assert_eq!(
            found,
            "  1  a                      wrong  found             12      0.3      6       2  summary"
        );
        assert_eq!(HEADER.find("oracle"), found.find("summary"));
        let clean = line(case, Twin::Right, &report(&[]), &CaseOutcome::Correct);
        assert_eq!(clean, "  1  a                      right  not found       2000      9.7      -       -");
        let other = line(case, Twin::Wrong, &report(&["orphan"]), &CaseOutcome::Correct);
        assert!(other.ends_with("orphan (not among those that were expected)"), "{other}");
    }
}
