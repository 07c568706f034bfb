//! Reads the JSON report of Ginkgo, with which controller-runtime's tests are written. Pure.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::outcome::{Outcome, Outcomes};

/// The type of a node that is a test. Others prepare tests or clean up after them.
const TEST: &str = "It";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    #[serde(default)]
    spec_reports: Option<Vec<Spec>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    container_hierarchy_texts: Option<Vec<String>>,
    #[serde(default)]
    leaf_node_type: String,
    #[serde(default)]
    leaf_node_text: String,
    leaf_node_location: Location,
    state: String,
    failure: Option<Failure>,
}

/// Where a test is in the source.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "PascalCase")]
struct Location {
    #[serde(default)]
    file_name: String,
    #[serde(default)]
    line_number: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
    #[serde(default)]
    forwarded_panic: String,
    location: Option<Location>,
}

/// Returns the outcomes of the tests in a report.
///
/// # Errors
/// Errors if the text is not a report.
pub(super) fn outcomes(report: &str) -> Result<Outcomes> {
    let reports: Vec<Report> = serde_json::from_str(report).context("read Ginkgo's report")?;
    let mut specs: Vec<(String, Spec)> = reports
        .into_iter()
        .flat_map(|report| report.spec_reports.unwrap_or_default())
        .map(|spec| (name(&spec), spec))
        .collect();
    // The tests run in random order. Equal names are numbered in the order of the source.
    specs.sort_by(|(a, left), (b, right)| {
        a.cmp(b).then_with(|| left.leaf_node_location.cmp(&right.leaf_node_location))
    });
    let mut outcomes = Outcomes::default();
    for (name, spec) in &specs {
        let outcome = outcome(spec);
        if spec.leaf_node_type == TEST || matches!(outcome, Outcome::Failed(_)) {
            outcomes.insert(name, outcome);
        }
    }
    Ok(outcomes)
}

/// Returns the texts of the containers and of the test itself, as Ginkgo prints them.
fn name(spec: &Spec) -> String {
    let prefix = (spec.leaf_node_type != TEST).then(|| format!("[{}]", spec.leaf_node_type));
    let containers = spec.container_hierarchy_texts.iter().flatten().cloned();
    let texts = prefix.into_iter().chain(containers).chain([spec.leaf_node_text.clone()]);
    let texts: Vec<String> =
        texts.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect();
    texts.join(" ")
}

fn outcome(spec: &Spec) -> Outcome {
    match spec.state.as_str() {
        "passed" => Outcome::Passed,
        "skipped" | "pending" => Outcome::Skipped,
        state => {
            let message = spec.failure.as_ref().map_or_else(String::new, |failure| {
                let location = failure.location.as_ref().map_or_else(String::new, |location| {
                    format!("{}:{}", location.file_name, location.line_number)
                });
                format!(": {} {}\n{location}", failure.message, failure.forwarded_panic)
            });
            Outcome::Failed(format!("{state}{message}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_have_the_names_of_their_containers() {
        let report = r#"[{"SuiteDescription": "Client Suite", "SpecReports": [
            {"ContainerHierarchyTexts": null, "LeafNodeType": "BeforeSuite", "LeafNodeText": "", "LeafNodeLocation": {}, "State": "passed"},
            {"ContainerHierarchyTexts": ["Client", "Create"], "LeafNodeType": "It", "LeafNodeText": "creates", "LeafNodeLocation": {"FileName": "b.go", "LineNumber": 9},
             "State": "failed", "Failure": {"Message": "expected 409", "Location": {"FileName": "b.go", "LineNumber": 12}}},
            {"ContainerHierarchyTexts": ["Client", "Create"], "LeafNodeType": "It", "LeafNodeText": "creates", "LeafNodeLocation": {"FileName": "a.go", "LineNumber": 90}, "State": "passed"},
            {"ContainerHierarchyTexts": ["Client"], "LeafNodeType": "It", "LeafNodeText": "waits", "LeafNodeLocation": {}, "State": "pending"}
        ]}]"#;
        let mut expected = Outcomes::default();
        expected.insert("Client Create creates", Outcome::Passed);
        expected
            .insert("Client Create creates", Outcome::Failed("failed: expected 409 \nb.go:12".to_owned()));
        expected.insert("Client waits", Outcome::Skipped);
        assert_eq!(outcomes(report).expect("a report"), expected);
    }

    #[test]
    fn a_failed_preparation_is_a_failure() {
        let report = r#"[{"SpecReports": [{"ContainerHierarchyTexts": null, "LeafNodeType": "BeforeSuite", "LeafNodeLocation": {}, "State": "panicked",
            "Failure": {"Message": "Test Panicked", "ForwardedPanic": "nil map"}}]}, {"SpecReports": null}]"#;
        assert_eq!(
            outcomes(report).expect("a report").failures(),
            "=== [BeforeSuite]\npanicked: Test Panicked nil map\n\n"
        );
    }

    #[test]
    fn other_texts_are_errors() {
        assert!(outcomes("").is_err());
        assert!(outcomes("{}").is_err());
    }
}
