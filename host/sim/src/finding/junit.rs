//! Renders a report as JUnit's XML: a test case for each oracle, and the situations as output.

use std::collections::BTreeSet;

use super::Report;

/// Returns the report as a document with one test suite. `suite` names what was tested, `seconds` is how long that took.
#[must_use]
pub fn junit(suite: &str, report: &Report, seconds: f64) -> String {
    let failed: BTreeSet<_> =
        report.findings.iter().map(|finding| finding.violation.oracle.as_str()).collect();
    let oracles: BTreeSet<_> =
        report.coverage.oracles.keys().map(String::as_str).chain(failed.iter().copied()).collect();
    let suite = escaped(suite);
    let counts = format!("tests=\"{}\" failures=\"{}\" time=\"{seconds:.3}\"", oracles.len(), failed.len());
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"{suite}\" {counts}>\n"
    );
    for oracle in oracles {
        let findings: Vec<_> =
            report.findings.iter().filter(|finding| finding.violation.oracle == oracle).collect();
        let coverage = report.coverage.oracles.get(oracle).cloned().unwrap_or_default();
        text.push_str(&format!("    <testcase classname=\"{suite}\" name=\"{}\"", escaped(oracle)));
        if findings.is_empty() && (coverage.judged == 0 || coverage.disabled.is_some()) {
            let reason = coverage.disabled.unwrap_or_else(|| "it had nothing to judge".to_owned());
            text.push_str(&format!(
                ">\n      <skipped message=\"{}\"/>\n    </testcase>\n",
                escaped(&reason)
            ));
        } else if findings.is_empty() {
            text.push_str("/>\n");
        } else {
            text.push_str(">\n");
            for finding in findings {
                let message = escaped(&finding.violation.explanation);
                let story = escaped(&finding.lines(None).join("\n"));
                text.push_str(&format!("      <failure message=\"{message}\">{story}</failure>\n"));
            }
            text.push_str("    </testcase>\n");
        }
    }
    text.push_str(&format!("    <system-out>{}</system-out>\n", escaped(&report.lines().join("\n"))));
    text.push_str("  </testsuite>\n</testsuites>");
    text
}

/// Escapes text for XML. Characters that XML cannot contain are replaced.
fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => result.push_str("&amp;"),
            '<' => result.push_str("&lt;"),
            '>' => result.push_str("&gt;"),
            '"' => result.push_str("&quot;"),
            '\n' | '\t' => result.push(char),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                result.push(char::REPLACEMENT_CHARACTER);
            }
            char => result.push(char),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::finding::coverage::OracleCoverage;
    use crate::finding::{Coverage, Finding, Stop};
    use crate::oracle::Violation;
    use crate::plan::Plan;
    use crate::search::Strategy;

    #[test]
    fn each_oracle_is_a_test_case() {
        let mut coverage = Coverage::default();
        let oracle = |judged: u64, disabled: Option<&str>| OracleCoverage {
            judged,
            disabled: disabled.map(str::to_owned),
        };
        coverage.oracles.insert("orphan".to_owned(), oracle(0, None));
        coverage.oracles.insert("same end".to_owned(), oracle(7, None));
        coverage.oracles.insert("summary".to_owned(), oracle(0, Some("not <here>")));
        coverage.oracles.insert("trap".to_owned(), oracle(7, None));
        let violation = Violation {
            oracle: "same end".to_owned(),
            resource: "services".to_owned(),
            object: "a/x".to_owned(),
            event: None,
            explanation: "no \"object\" & \u{1b}".to_owned(),
        };
        let finding = Finding {
            number: 1,
            strategy: Strategy::Plans,
            runs: 7,
            plan: Plan::default(),
            violation,
            steps_before: 1,
            steps: Vec::new(),
            rules: BTreeSet::new(),
            hash: 0,
            draws: 0,
        };
        let report = Report {
            seed: 1,
            findings: vec![finding],
            runs: 7,
            distinct_runs: 7,
            shrinking_runs: 0,
            strategies: Vec::new(),
            stopped: Stop::Exhausted,
            coverage,
            hash: 0,
            draws: 0,
        };
        let text = junit("a&b", &report, 1.5);
        let counts = "tests=\"4\" failures=\"1\" time=\"1.500\"";
        let expected = [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_owned(),
            format!("<testsuites {counts}>"),
            format!("  <testsuite name=\"a&amp;b\" {counts}>"),
            "    <testcase classname=\"a&amp;b\" name=\"orphan\">".to_owned(),
            "      <skipped message=\"it had nothing to judge\"/>".to_owned(),
            "    </testcase>".to_owned(),
            "    <testcase classname=\"a&amp;b\" name=\"same end\">".to_owned(),
        ];
        assert_eq!(text.lines().take(expected.len()).collect::<Vec<_>>(), expected);
        assert!(
            text.contains("<failure message=\"no &quot;object&quot; &amp; \u{fffd}\">FOUND same end"),
            "{text}"
        );
        assert!(text.contains("<skipped message=\"not &lt;here&gt;\"/>"));
        assert!(text.contains("name=\"trap\"/>"));
        assert!(text.contains("<system-out>1 finding in 7 runs (7 different; ), no plan left;"), "{text}");
        assert!(text.contains("\nsituations:\n"), "{text}");
        assert!(text.ends_with("</system-out>\n  </testsuite>\n</testsuites>"));
    }
}
