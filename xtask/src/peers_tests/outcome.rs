//! The outcomes of a suite's tests, and their comparison with the expected ones. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::expectations::Expectation;

/// Maximum length in characters of a failure in a problem's line. The file with the failures has all of it.
const MAX_MESSAGE: usize = 300;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The test passed.
    Passed,
    /// The test failed, with this message.
    Failed(String),
    /// The test did not run.
    Skipped,
}

/// The outcomes of a suite, by the name of the test.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcomes(BTreeMap<String, Outcome>);

/// The server that the tests ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// `pilothouse apiserver`.
    Embedded,
    /// A kube-apiserver without controllers.
    KubeApiServer,
}

impl Outcomes {
    /// Records a test. A second test with the same name gets a number.
    pub(super) fn insert(&mut self, name: &str, outcome: Outcome) {
        let numbered = (2..).map(|number| format!("{name} #{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|name| !self.0.contains_key(name)).expect("one of infinitely many names");
        self.0.insert(free, outcome);
    }

    /// Adds the tests of another part of the suite.
    pub(super) fn extend(&mut self, others: Self) {
        for (name, outcome) in others.0 {
            self.insert(&name, outcome);
        }
    }

    /// Returns the number of tests that passed.
    pub(super) fn passed(&self) -> usize {
        self.0.values().filter(|outcome| **outcome == Outcome::Passed).count()
    }

    /// Returns whether no test was found.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the failures with their whole messages, as a text.
    pub(super) fn failures(&self) -> String {
        let mut text = String::new();
        for (name, outcome) in &self.0 {
            if let Outcome::Failed(message) = outcome {
                let _ = writeln!(text, "=== {name}\n{}\n", message.trim_end());
            }
        }
        text
    }

    /// Compares the outcomes with the expected ones. Returns a line for each problem.
    pub(super) fn compare(&self, expectation: &Expectation, server: ServerKind) -> Vec<String> {
        let mut problems = Vec::new();
        let mut counted = 0;
        for (name, outcome) in &self.0 {
            let excluded = expectation.fails_on_kube_apiserver(name);
            let listed = server == ServerKind::Embedded && expectation.differs(name);
            match outcome {
                Outcome::Passed if listed => problems
                    .push(format!("{name}: passes, but is an expected difference: remove it from the list")),
                Outcome::Passed if excluded && server == ServerKind::KubeApiServer => problems.push(format!(
                    "{name}: passes on kube-apiserver: remove it from `fail_on_kube_apiserver`"
                )),
                Outcome::Failed(message) if !listed && !excluded => {
                    problems.push(format!("{name}: fails: {}", shortened(message)));
                }
                _ => {}
            }
            counted += usize::from(!excluded && (listed || *outcome == Outcome::Passed));
        }
        for name in expectation.names() {
            if !self.0.contains_key(name) {
                problems.push(format!("{name}: is listed, but the suite has no such test"));
            }
        }
        if problems.is_empty() && counted != expectation.passed {
            problems.push(format!(
                "{counted} tests pass or are expected differences, in place of {}: tests did not run, or the suite has changed",
                expectation.passed
            ));
        }
        problems
    }
}

/// Returns a message as one line of at most [`MAX_MESSAGE`] characters.
fn shortened(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::super::expectations::Expectations;
    use super::*;

    fn expectation(text: &str) -> Expectation {
        let text = format!("suites:\n- name: s\n{text}");
        Expectations::parse(&text).expect("valid").suites.remove(0)
    }

    fn outcomes(tests: &[(&str, Outcome)]) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (name, outcome) in tests {
            outcomes.insert(name, outcome.clone());
        }
        outcomes
    }

    fn failed() -> Outcome {
        Outcome::Failed("expected\n  409".to_owned())
    }

    const LISTS: &str = "  passed: 2\n  differences: [{reason: r, tests: [d]}]\n  fail_on_kube_apiserver: [{reason: r, tests: [k]}]\n";

    #[test]
    fn expected_outcomes_are_no_problem() {
        let outcomes =
            outcomes(&[("a", Outcome::Passed), ("d", failed()), ("k", failed()), ("s", Outcome::Skipped)]);
        assert_eq!(outcomes.compare(&expectation(LISTS), ServerKind::Embedded), Vec::<String>::new());
    }

    #[test]
    fn a_failure_that_is_not_listed_is_a_problem_of_one_line() {
        let outcomes = outcomes(&[("a", failed()), ("d", failed()), ("k", failed())]);
        assert_eq!(
            outcomes.compare(&expectation(LISTS), ServerKind::Embedded),
            ["a: fails: expected 409".to_owned()]
        );
    }

    #[test]
    fn a_listed_difference_that_passes_or_does_not_exist_is_a_problem() {
        let passing = outcomes(&[("a", Outcome::Passed), ("d", Outcome::Passed), ("k", Outcome::Passed)]);
        assert_eq!(
            passing.compare(&expectation(LISTS), ServerKind::Embedded),
            ["d: passes, but is an expected difference: remove it from the list".to_owned()]
        );
        let missing = outcomes(&[("a", Outcome::Passed), ("k", failed())]);
        assert_eq!(
            missing.compare(&expectation(LISTS), ServerKind::Embedded),
            ["d: is listed, but the suite has no such test".to_owned()]
        );
    }

    #[test]
    fn tests_that_did_not_run_are_a_problem() {
        let outcomes = outcomes(&[("a", Outcome::Skipped), ("d", failed()), ("k", failed())]);
        let problems = outcomes.compare(&expectation(LISTS), ServerKind::Embedded);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("1 tests pass or are expected differences, in place of 2"));
    }

    #[test]
    fn differences_must_pass_on_kube_apiserver() {
        let all = [("a", Outcome::Passed), ("d", Outcome::Passed), ("k", failed())];
        assert!(outcomes(&all).compare(&expectation(LISTS), ServerKind::KubeApiServer).is_empty());
        let wrong = outcomes(&[("a", Outcome::Passed), ("d", failed()), ("k", Outcome::Passed)]);
        let problems = wrong.compare(&expectation(LISTS), ServerKind::KubeApiServer);
        assert_eq!(
            problems,
            [
                "d: fails: expected 409",
                "k: passes on kube-apiserver: remove it from `fail_on_kube_apiserver`"
            ]
        );
    }

    #[test]
    fn tests_with_the_same_name_are_numbered() {
        let twice = outcomes(&[("a", Outcome::Passed), ("a", failed()), ("a", Outcome::Passed)]);
        assert_eq!(twice.passed(), 2);
        assert_eq!(twice.failures(), "=== a #2\nexpected\n  409\n\n");
    }

    #[test]
    fn long_messages_are_shortened() {
        assert_eq!(shortened(&"é".repeat(400)).chars().count(), MAX_MESSAGE + 1);
    }
}
