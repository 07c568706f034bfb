//! What `pilothouse sim --output json` reports, as far as commands need it.

use anyhow::{Context, Result};
use serde_json::Value;

/// The report of one search.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    /// How long the whole search took.
    pub(crate) seconds: f64,
    /// How many schedules were run in the whole search, without those for shrinking.
    pub(crate) runs: u64,
    pub(crate) findings: Vec<Finding>,
    /// The largest resident memory of the process in MiB, where the system tells it.
    pub(crate) peak_mib: Option<u64>,
}

/// A finding.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    /// The oracle or invariant.
    pub(crate) oracle: String,
    /// One or two sentences.
    pub(crate) explanation: String,
    /// How many schedules had been run when it was found.
    pub(crate) runs: u64,
    /// How long the search had taken when it was found and shrunk.
    pub(crate) seconds: f64,
    /// The steps of the story after shrinking.
    pub(crate) steps: usize,
    /// The faults after shrinking.
    pub(crate) faults: usize,
}

impl Report {
    /// Parses the output.
    ///
    /// # Errors
    /// Errors if it is not JSON, or lacks a member.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let report: Value = serde_json::from_str(text).context("it is not JSON")?;
        let findings = report["findings"].as_array().context("it has no list `findings`")?;
        let times = &report["findingSeconds"];
        Ok(Self {
            seconds: report["seconds"].as_f64().context("it has no number `seconds`")?,
            runs: report["runs"].as_u64().context("it has no number `runs`")?,
            findings: findings
                .iter()
                .enumerate()
                .map(|(index, finding)| Finding::parse(finding, &times[index]))
                .collect::<Result<_>>()?,
            peak_mib: None,
        })
    }
}

impl Finding {
    fn parse(finding: &Value, seconds: &Value) -> Result<Self> {
        let violation = &finding["violation"];
        let length = |value: &Value, name: &str| {
            value.as_array().map(Vec::len).with_context(|| format!("a finding has no list `{name}`"))
        };
        Ok(Self {
            oracle: violation["oracle"]
                .as_str()
                .context("a finding has no text `violation.oracle`")?
                .to_owned(),
            explanation: violation["explanation"].as_str().unwrap_or_default().to_owned(),
            runs: finding["runs"].as_u64().context("a finding has no number `runs`")?,
            seconds: seconds.as_f64().context("a finding has no time in `findingSeconds`")?,
            steps: length(&finding["steps"], "steps")?,
            faults: length(&finding["plan"]["deviations"], "plan.deviations")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_parsed_from_the_output() {
        let text = r#"{"name": "01-a", "seconds": 1.5, "findingSeconds": [0.4], "seed": "51f2", "runs": 40, "findings": [{"number": 1, "runs": 12, "violation": {"oracle": "same end",
            "explanation": "it differs"}, "steps": [{}, {}, {}], "plan": {"seed": 1, "deviations": [{}]}}]}"#;
        let finding = Finding {
            oracle: "same end".to_owned(),
            explanation: "it differs".to_owned(),
            runs: 12,
            seconds: 0.4,
            steps: 3,
            faults: 1,
        };
        assert_eq!(
            Report::parse(text).expect("a report"),
            Report { seconds: 1.5, runs: 40, findings: vec![finding], peak_mib: None }
        );
    }

    #[test]
    fn an_error_names_the_missing_member() {
        for (text, expected) in [
            ("", "not JSON"),
            ("{}", "findings"),
            (r#"{"findings": []}"#, "seconds"),
            (r#"{"seconds": 1, "findings": []}"#, "runs"),
            (r#"{"seconds": 1, "runs": 1, "findings": [{}]}"#, "violation.oracle"),
            (
                r#"{"seconds": 1, "runs": 1, "findings": [{"violation": {"oracle": "x"}, "runs": 1}]}"#,
                "findingSeconds",
            ),
            (
                r#"{"seconds": 1, "findingSeconds": [1], "runs": 1, "findings": [{"violation": {"oracle": "x"}, "runs": 1}]}"#,
                "steps",
            ),
        ] {
            let error = format!("{:#}", Report::parse(text).expect_err(expected));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
