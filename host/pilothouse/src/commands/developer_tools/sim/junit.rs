//! A search as a test suite: a test case for each oracle, and the situations as output. Pure.

use std::collections::BTreeSet;

use pilothouse_sim::finding::Report;

use crate::commands::developer_tools::junit::{Case, Failure, Outcome, Suite};

/// Returns the suite. `name` is what was simulated, `seconds` how long that took.
pub(super) fn suite_of(name: &str, report: &Report, seconds: f64) -> Suite {
    let failed = report.findings.iter().map(|finding| finding.violation.oracle.as_str());
    let oracles: BTreeSet<_> = report.coverage.oracles.keys().map(String::as_str).chain(failed).collect();
    let case = |oracle: &str| Case {
        name: oracle.to_owned(),
        seconds: None,
        outcome: outcome_of(oracle, report),
        output: Vec::new(),
    };
    Suite {
        name: name.to_owned(),
        seconds,
        cases: oracles.into_iter().map(case).collect(),
        output: report.lines(),
    }
}

fn outcome_of(oracle: &str, report: &Report) -> Outcome {
    let findings = report.findings.iter().filter(|finding| finding.violation.oracle == oracle);
    let failures: Vec<_> = findings
        .map(|finding| Failure {
            message: finding.violation.explanation.clone(),
            details: finding.lines(None),
        })
        .collect();
    let coverage = report.coverage.oracles.get(oracle).cloned().unwrap_or_default();
    match coverage.disabled {
        _ if !failures.is_empty() => Outcome::Failed(failures),
        Some(reason) => Outcome::Skipped(reason),
        None if coverage.judged == 0 => Outcome::Skipped(match coverage.problem {
            Some(problem) => format!("it could not be evaluated: {problem}"),
            None => "it had nothing to judge".to_owned(),
        }),
        None => Outcome::Passed,
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sim::finding::coverage::OracleCoverage;
    use pilothouse_sim::finding::{Coverage, Finding, Stop};
    use pilothouse_sim::oracle::Violation;
    use pilothouse_sim::plan::Plan;
    use pilothouse_sim::search::Strategy;

    use super::*;

    #[test]
    fn each_oracle_is_a_test_case() {
        let mut coverage = Coverage::default();
        let oracle = |judged: u64, disabled: Option<&str>| OracleCoverage {
            judged,
            disabled: disabled.map(str::to_owned),
            ..OracleCoverage::default()
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
            is_unevaluated: false,
        };
        let finding = Finding {
            number: 1,
            strategy: Strategy::Plans,
            runs: 7,
            plan: Plan::default(),
            violation,
            steps_before: Some(1),
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
            unfinished_actors: Vec::new(),
            failing_keys: Vec::new(),
            not_compared: BTreeSet::new(),
            coverage,
            hash: 0,
            draws: 0,
        };
        let text = suite_of("a&b", &report, 1.5).to_xml();
        let counts = "tests=\"4\" failures=\"1\" time=\"1.500\"";
        assert!(text.contains(&format!("<testsuite name=\"a&amp;b\" {counts}>")), "{text}");
        assert!(
            text.contains("name=\"orphan\">\n      <skipped message=\"it had nothing to judge\"/>"),
            "{text}"
        );
        assert!(
            text.contains("<failure message=\"no &quot;object&quot; &amp; \u{fffd}\">FOUND same end"),
            "{text}"
        );
        assert!(text.contains("<skipped message=\"not &lt;here&gt;\"/>"), "{text}");
        assert!(text.contains("name=\"trap\"/>"), "{text}");
        assert!(text.contains("<system-out>1 finding in 7 runs (7 different; ), no plan left;"), "{text}");
        assert!(text.contains("\nsituations:\n"), "{text}");
    }
}
