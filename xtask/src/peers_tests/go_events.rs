//! Reads the events that `go test -json` prints. Pure.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;

use super::outcome::{Outcome, Outcomes};

/// Number of lines of a test's output that are kept for the message of its failure.
const KEPT_LINES: usize = 30;

/// The line that a Ginkgo suite begins with.
const GINKGO: &str = "Running Suite: ";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
}

/// The tests of a package, as its events told of them so far.
#[derive(Default)]
pub(super) struct GoEvents {
    tests: BTreeMap<String, Test>,
    /// The last lines that no test printed, such as errors of the compiler.
    other_lines: VecDeque<String>,
}

#[derive(Default)]
struct Test {
    lines: VecDeque<String>,
    /// The function runs a Ginkgo suite, whose tests are in Ginkgo's report.
    is_ginkgo_suite: bool,
    outcome: Option<Outcome>,
}

impl GoEvents {
    /// Reads a line. A line that is not an event is kept as output of the package.
    pub(super) fn push(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Event>(line) else {
            push_line(&mut self.other_lines, line);
            return;
        };
        if event.test.is_empty() {
            if event.action.ends_with("output") {
                push_line(&mut self.other_lines, &event.output);
            }
            return;
        }
        let test = self.tests.entry(event.test).or_default();
        match event.action.as_str() {
            "output" => {
                test.is_ginkgo_suite |= event.output.contains(GINKGO);
                push_line(&mut test.lines, &event.output);
            }
            "pass" => test.outcome = Some(Outcome::Passed),
            "skip" => test.outcome = Some(Outcome::Skipped),
            "fail" => test.outcome = Some(Outcome::Failed(joined(&test.lines))),
            _ => {}
        }
    }

    /// Returns the outcomes of the tests that are not Ginkgo suites. A test that has subtests counts as one, too.
    pub(super) fn outcomes(&self) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (name, test) in &self.tests {
            if !test.is_ginkgo_suite {
                let unfinished = || Outcome::Failed(format!("did not end\n{}", joined(&test.lines)));
                outcomes.insert(name, test.outcome.clone().unwrap_or_else(unfinished));
            }
        }
        outcomes
    }

    /// Returns the last lines of a Ginkgo suite and those that no test printed.
    pub(super) fn last_lines(&self) -> String {
        let suites = self.tests.values().filter(|test| test.is_ginkgo_suite);
        let suites: Vec<String> = suites.map(|test| joined(&test.lines)).collect();
        format!("{}{}", suites.join(""), joined(&self.other_lines))
    }
}

fn push_line(lines: &mut VecDeque<String>, line: &str) {
    if lines.len() == KEPT_LINES {
        lines.pop_front();
    }
    lines.push_back(format!("{}\n", line.trim_end()));
}

fn joined(lines: &VecDeque<String>) -> String {
    lines.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(lines: &[&str]) -> GoEvents {
        let mut events = GoEvents::default();
        for line in lines {
            events.push(line);
        }
        events
    }

    #[test]
    fn outcomes_are_those_of_the_last_event() {
        let events = events(&[
            r#"{"Action":"run","Test":"TestA"}"#,
            r#"{"Action":"output","Test":"TestA","Output":"    a_test.go:3: wrong\n"}"#,
            r#"{"Action":"fail","Test":"TestA"}"#,
            r#"{"Action":"pass","Test":"TestB/sub"}"#,
            r#"{"Action":"skip","Test":"TestC"}"#,
            r#"{"Action":"run","Test":"TestD"}"#,
            r#"{"Action":"fail"}"#,
        ]);
        let mut expected = Outcomes::default();
        expected.insert("TestA", Outcome::Failed("    a_test.go:3: wrong\n".to_owned()));
        expected.insert("TestB/sub", Outcome::Passed);
        expected.insert("TestC", Outcome::Skipped);
        expected.insert("TestD", Outcome::Failed("did not end\n".to_owned()));
        assert_eq!(events.outcomes(), expected);
    }

    #[test]
    fn the_function_of_a_ginkgo_suite_is_no_test() {
        let events = events(&[
            r#"{"Action":"output","Test":"TestClient","Output":"Running Suite: Client Suite - /client\n"}"#,
            r#"{"Action":"fail","Test":"TestClient"}"#,
            r#"{"Action":"output","Output":"FAIL\n"}"#,
        ]);
        assert!(events.outcomes().is_empty());
        assert_eq!(events.last_lines(), "Running Suite: Client Suite - /client\nFAIL\n");
    }

    #[test]
    fn errors_of_the_compiler_are_kept() {
        let mut lines = vec![r#"{"Action":"build-output","Output":"undefined: x\n"}"#; 100];
        lines.push("go: no such module");
        let events = events(&lines);
        assert_eq!(events.last_lines().lines().count(), KEPT_LINES);
        assert!(events.last_lines().ends_with("undefined: x\ngo: no such module\n"));
    }
}
