//! Renders the results of scenarios and simulations: as text for people, or as JUnit's XML. Pure.

use std::time::Duration;

use pilothouse_controller::printable;

use crate::commands::developer_tools::junit::{self, Case, Outcome, Suite};

/// What a result is about.
#[derive(Debug, PartialEq)]
pub(super) enum TestKind {
    /// A scenario in the real host.
    Scenario,
    /// A search in simulated clusters.
    #[cfg_attr(not(feature = "simulation"), expect(dead_code, reason = "no build without it simulates"))]
    Simulation {
        /// How many runs were made, with how many were allowed if the time was used up before: `34 of 200`.
        runs: String,
    },
}

/// The result of a scenario or a simulation.
#[derive(Debug)]
pub(super) struct ScenarioResult {
    pub(super) kind: TestKind,
    pub(super) name: String,
    pub(super) duration: Duration,
    /// Lines about what was tested.
    pub(super) notes: Vec<String>,
    /// `None` if it passed.
    pub(super) failure: Option<Failure>,
}

/// Why a scenario or a simulation failed.
#[derive(Debug, PartialEq)]
pub(super) struct Failure {
    /// Where, and what, on one line.
    pub(super) summary: String,
    /// Further lines.
    pub(super) details: Vec<String>,
}

/// Returns the lines about a result.
pub(super) fn text_of(result: &ScenarioResult) -> Vec<String> {
    let seconds = result.duration.as_secs_f64();
    let word = if result.failure.is_none() { "pass" } else { "FAIL" };
    let runs = match &result.kind {
        TestKind::Scenario => String::new(),
        TestKind::Simulation { runs } => format!("{runs} runs, "),
    };
    let mut lines = vec![format!("{word}  {} ({runs}{seconds:.1} s)", printable(&title(result)))];
    lines.extend(result.notes.iter().map(|note| format!("      {}", printable(note))));
    if let Some(failure) = &result.failure {
        lines.push(format!("      {}", printable(&failure.summary)));
        lines.extend(
            failure.details.iter().map(|line| format!("      {}", printable(line)).trim_end().to_owned()),
        );
    }
    lines
}

/// Returns the name that tells a simulation from a scenario.
fn title(result: &ScenarioResult) -> String {
    match result.kind {
        TestKind::Scenario => result.name.clone(),
        TestKind::Simulation { .. } => format!("simulation {}", result.name),
    }
}

/// Returns the line about all results.
pub(super) fn summary_of(results: &[ScenarioResult]) -> String {
    let failed = failures(results);
    let passed = results.len() - failed;
    format!("{}: {passed} passed, {failed} failed", count_of(results))
}

/// Returns how many scenarios and simulations there are.
fn count_of(results: &[ScenarioResult]) -> String {
    let scenarios = results.iter().filter(|result| result.kind == TestKind::Scenario).count();
    let counted = |count: usize, name: &str| match count {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    };
    match (scenarios, results.len() - scenarios) {
        (scenarios, 0) => counted(scenarios, "scenario"),
        (0, simulations) => counted(simulations, "simulation"),
        (scenarios, simulations) => {
            format!("{}, {}", counted(scenarios, "scenario"), counted(simulations, "simulation"))
        }
    }
}

/// Returns the number of scenarios and simulations that failed.
pub(super) fn failures(results: &[ScenarioResult]) -> usize {
    results.iter().filter(|result| result.failure.is_some()).count()
}

/// Returns the results as a JUnit document with one test suite.
pub(super) fn junit(plugin: &str, results: &[ScenarioResult]) -> String {
    let total: Duration = results.iter().map(|result| result.duration).sum();
    let outcome = |result: &ScenarioResult| match &result.failure {
        None => Outcome::Passed,
        Some(Failure { summary, details }) => {
            Outcome::Failed(vec![junit::Failure { message: summary.clone(), details: details.clone() }])
        }
    };
    let case = |result: &ScenarioResult| Case {
        name: title(result),
        seconds: Some(result.duration.as_secs_f64()),
        outcome: outcome(result),
        output: result.notes.clone(),
    };
    let cases = results.iter().map(case).collect();
    Suite { name: plugin.to_owned(), seconds: total.as_secs_f64(), cases, output: Vec::new() }.to_xml()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> [ScenarioResult; 2] {
        let failure = Failure {
            summary: "line 3, expect Foo/a: <not> as expected".to_owned(),
            details: vec!["spec: \"x\" & \u{1b}[31m".to_owned(), String::new()],
        };
        [
            ScenarioResult {
                kind: TestKind::Scenario,
                name: "good".to_owned(),
                duration: Duration::from_millis(1230),
                notes: Vec::new(),
                failure: None,
            },
            ScenarioResult {
                kind: TestKind::Scenario,
                name: "bad".to_owned(),
                duration: Duration::from_millis(20),
                notes: Vec::new(),
                failure: Some(failure),
            },
        ]
    }

    #[test]
    fn each_scenario_has_a_line_and_a_failure_its_reason() {
        let results = results();
        assert_eq!(text_of(&results[0]), ["pass  good (1.2 s)"]);
        assert_eq!(
            text_of(&results[1]),
            [
                "FAIL  bad (0.0 s)",
                "      line 3, expect Foo/a: <not> as expected",
                "      spec: \"x\" & \\u{1b}[31m",
                "",
            ]
        );
        assert_eq!(summary_of(&results), "2 scenarios: 1 passed, 1 failed");
        assert_eq!(summary_of(&results[..1]), "1 scenario: 1 passed, 0 failed");
    }

    #[cfg(feature = "simulation")]
    #[test]
    fn a_simulation_is_named_as_one_and_its_runs_are_counted() {
        let simulation = |runs: &str, failure| ScenarioResult {
            kind: TestKind::Simulation { runs: runs.to_owned() },
            name: "recreation".to_owned(),
            duration: Duration::from_millis(2000),
            notes: vec!["crashed after 3 of 4 writes".to_owned()],
            failure,
        };
        assert_eq!(
            text_of(&simulation("200", None)),
            ["pass  simulation recreation (200 runs, 2.0 s)", "      crashed after 3 of 4 writes"]
        );
        let failure = Failure {
            summary: "1 finding".to_owned(),
            details: vec!["FOUND same end".to_owned(), "  story".to_owned()],
        };
        assert_eq!(
            text_of(&simulation("34 of 200", Some(failure))),
            [
                "FAIL  simulation recreation (34 of 200 runs, 2.0 s)",
                "      crashed after 3 of 4 writes",
                "      1 finding",
                "      FOUND same end",
                "        story",
            ]
        );
        let [good, bad] = results();
        let all = [good, bad, simulation("200", None)];
        assert_eq!(summary_of(&all), "2 scenarios, 1 simulation: 2 passed, 1 failed");
        assert_eq!(summary_of(&all[2..]), "1 simulation: 1 passed, 0 failed");
        let expected = "name=\"simulation recreation\" time=\"2.000\">\n      \
                        <system-out>crashed after 3 of 4 writes</system-out>\n    </testcase>\n";
        assert!(junit("a", &all).contains(expected), "{}", junit("a", &all));
    }

    #[test]
    fn junit_is_well_formed_xml() {
        assert_eq!(
            junit("a&b", &results()),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <testsuites tests=\"2\" failures=\"1\" time=\"1.250\">\n  \
             <testsuite name=\"a&amp;b\" tests=\"2\" failures=\"1\" time=\"1.250\">\n    \
             <testcase classname=\"a&amp;b\" name=\"good\" time=\"1.230\"/>\n    \
             <testcase classname=\"a&amp;b\" name=\"bad\" time=\"0.020\">\n      \
             <failure message=\"line 3, expect Foo/a: &lt;not&gt; as expected\">spec: &quot;x&quot; &amp; \u{fffd}[31m\n</failure>\n    \
             </testcase>\n  </testsuite>\n</testsuites>"
        );
    }
}
