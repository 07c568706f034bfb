//! The lines about a simulation, from the output of its process. Pure.

use std::path::{Path, PathBuf};

use pilothouse_sim::finding::Coverage;
use serde::Deserialize;

use crate::commands::developer_tools::sim::{trace_name, trace_prefix};

/// What a simulation printed, and where its files are.
pub(super) struct Simulated {
    /// A JSON document for each scenario, one after the other.
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// The scenarios; none for generated objects.
    pub(super) scenarios: Vec<PathBuf>,
    /// The folder of the traces.
    pub(super) traces: PathBuf,
}

/// The members of a document that the lines show.
#[derive(Deserialize)]
struct Document {
    runs: u64,
    coverage: Coverage,
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    number: usize,
    violation: Violation,
}

#[derive(Deserialize)]
struct Violation {
    oracle: String,
}

/// Returns the lines about the simulation of a plugin: how many runs found nothing and which situations they created, or what was found and
/// where the traces are.
pub(super) fn lines_about(plugin: &str, project: &Path, simulated: &Simulated) -> Vec<String> {
    let documents: Result<Vec<Document>, _> =
        serde_json::Deserializer::from_str(&simulated.stdout).into_iter().collect();
    let documents = match documents {
        Ok(documents) if !documents.is_empty() => documents,
        Ok(_) => return vec![format!("cannot simulate {plugin}: {}", last_line(&simulated.stderr))],
        Err(error) => return vec![format!("cannot simulate {plugin}: unexpected output: {error}")],
    };
    let count = documents.len();
    let runs: u64 = documents.iter().map(|document| document.runs).sum();
    let project = project.display();
    let mut found = Vec::new();
    let mut coverage = Coverage::default();
    for (index, document) in documents.into_iter().enumerate() {
        coverage.merge(document.coverage);
        let prefix = match simulated.scenarios.as_slice() {
            [] | [_] => String::new(),
            several => several.get(index).map(|scenario| trace_prefix(scenario)).unwrap_or_default(),
        };
        for finding in &document.findings {
            let trace = simulated.traces.join(trace_name(&prefix, finding.number));
            found.push(format!("{} ({})", finding.violation.oracle, trace.display()));
        }
    }
    // A scenario that cannot be used ends the process after those before it.
    let problem = if count < simulated.scenarios.len() {
        format!("; {}", last_line(&simulated.stderr))
    } else {
        String::new()
    };
    match found.as_slice() {
        [] => {
            let mut lines = vec![format!(
                "simulated {plugin}: 0 findings in {runs} runs; `pilothouse sim {project}` lists what they tried{problem}"
            )];
            lines.extend(coverage.summary().map(|line| format!("  {line}")));
            lines
        }
        [one] => vec![format!(
            "simulated {plugin}: found in {runs} runs: {one}; `pilothouse sim {project}` tells the story{problem}"
        )],
        several => vec![format!(
            "simulated {plugin}: found in {runs} runs: {}; `pilothouse sim {project}` tells the stories{problem}",
            several.join(", ")
        )],
    }
}

/// Returns the last line of the process's errors, without the word in front.
fn last_line(stderr: &str) -> &str {
    let line = stderr.lines().last().unwrap_or("its process has ended without a result");
    line.strip_prefix("error: ").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first line about a process with these documents and errors, and with these scenarios.
    fn line(documents: &[&str], stderr: &str, scenarios: &[&str]) -> String {
        lines(documents, stderr, scenarios).remove(0)
    }

    fn lines(documents: &[&str], stderr: &str, scenarios: &[&str]) -> Vec<String> {
        let simulated = Simulated {
            stdout: documents.join("\n"),
            stderr: stderr.to_owned(),
            scenarios: scenarios.iter().map(PathBuf::from).collect(),
            traces: "greeter/.pilothouse".into(),
        };
        lines_about("greeter", Path::new("greeter"), &simulated)
    }

    const NOTHING: &str = r#"{"name": "a", "runs": 120, "findings": [], "seconds": 1.5, "coverage": {
        "writes": {"create pods": {"occurrences": 2, "crashedBefore": [1], "crashedAfter": [1, 2], "answerLost": [], "refused": [],
        "interfered": []}}, "lateWatches": {"pods": ["create pods"]}, "oracles": {"orphan": {"judged": 0}, "trap": {"judged": 9}},
        "freshStarts": 1, "deviations": 2, "skipped": 0}}"#;
    const ORPHAN: &str = r#"{"runs": 40, "findings": [{"number": 1, "violation": {"oracle": "orphan", "object": "a/b"}}],
        "coverage": {"writes": {}, "lateWatches": {}, "oracles": {}, "freshStarts": 0, "deviations": 0, "skipped": 0}}"#;

    #[test]
    fn no_finding_is_only_reported_together_with_the_situations() {
        let printed = lines(&[NOTHING, NOTHING], "", &["s/a.yaml", "s/b.yaml"]);
        assert_eq!(
            printed[1..],
            [
                "  crashed before 1 and after 2 of 2 writes; watches late or old: pods (over 1 kind of writes)",
                "  oracles that had nothing to judge: orphan",
            ]
        );
        assert_eq!(lines(&[ORPHAN], "error: 1 finding", &[]).len(), 1);
    }

    #[test]
    fn the_line_has_the_number_of_all_runs() {
        assert_eq!(
            line(&[NOTHING], "", &[]),
            "simulated greeter: 0 findings in 120 runs; `pilothouse sim greeter` lists what they tried"
        );
        assert_eq!(
            line(&[NOTHING, NOTHING], "", &["s/a.yaml", "s/b.yaml"]),
            "simulated greeter: 0 findings in 240 runs; `pilothouse sim greeter` lists what they tried"
        );
    }

    #[test]
    fn a_finding_has_its_oracle_and_the_path_of_its_trace() {
        assert_eq!(
            line(&[ORPHAN], "error: 1 finding", &["s/a.yaml"]),
            "simulated greeter: found in 40 runs: orphan (greeter/.pilothouse/finding-1.trace); \
             `pilothouse sim greeter` tells the story"
        );
        assert_eq!(
            line(&[NOTHING, ORPHAN], "error: 1 finding", &["s/a.yaml", "s/b.yaml"]),
            "simulated greeter: found in 160 runs: orphan (greeter/.pilothouse/b-finding-1.trace); \
             `pilothouse sim greeter` tells the story"
        );
    }

    #[test]
    fn a_simulation_that_cannot_run_says_why() {
        assert_eq!(
            line(&[], "note: x\nerror: s/a.yaml: line 3: unknown field", &["s/a.yaml"]),
            "cannot simulate greeter: s/a.yaml: line 3: unknown field"
        );
        assert_eq!(line(&[], "", &[]), "cannot simulate greeter: its process has ended without a result");
        assert!(line(&["{"], "", &[]).starts_with("cannot simulate greeter: unexpected output: "));
        let second = line(&[NOTHING], "error: s/b.yaml: bad", &["s/a.yaml", "s/b.yaml"]);
        assert!(second.ends_with("lists what they tried; s/b.yaml: bad"), "{second}");
    }
}
