//! `pilothouse sim`: a search finds what a crash does to a plugin, a trace repeats it, and invalid input is refused.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::binary::{CommandOutput, assert_fails, assert_succeeds, run};

/// Creates the object in `data.first` of each ConfigMap.
const DESCRIPTOR: &str = r#"{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","name":"leases","version":"1.0.0",
"watches":[{"name":"maps","apiVersion":"v1","kind":"ConfigMap","namespaces":["default"],"trigger":"self"}],
"writes":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["create"]}]}"#;

/// A scenario in which a user creates a ConfigMap whose Lease has this metadata, and at most one Lease may exist.
fn scenario(metadata: &str) -> String {
    format!(
        r#"apiVersion: pilothouse.dev/v1alpha1
kind: Simulation
actors:
- name: user
  steps:
  - create:
      apiVersion: v1
      kind: ConfigMap
      metadata: {{name: a, namespace: default}}
      data:
        first: '{{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {metadata}}}'
invariants:
- name: at most one lease
  always: "size(objects('Lease')) <= 1"
"#
    )
}

/// Writes the plugin and two scenarios: in `generated.yaml` the Lease's name is generated, in `named.yaml` it is given.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/src/world/tests/guest.wat");
    let write = |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).expect("written");
    write("leases.wasm", &wat::parse_file(guest).expect("a guest"));
    write("leases.yaml", format!("{{\"config\": {DESCRIPTOR}}}").as_bytes());
    write("generated.yaml", scenario(r#"{"generateName": "any-", "namespace": "default"}"#).as_bytes());
    write("named.yaml", scenario(r#"{"name": "one", "namespace": "default"}"#).as_bytes());
    folder
}

fn search(folder: &Path, scenario: &str, more: &[&str]) -> CommandOutput {
    let arguments = ["sim", "leases.wasm", "--scenario", scenario, "--seeds", "12", "--strategy", "plans"];
    run(folder, &[&arguments[..], more].concat())
}

#[test]
fn a_search_finds_what_a_crash_does_and_the_trace_repeats_it() {
    let folder = folder();
    let found = search(folder.path(), "generated.yaml", &[]);
    assert_eq!(found.code, Some(1), "{found:#?}");
    for part in ["FOUND at most one lease", "[H1: ", "Replay: pilothouse sim leases.wasm", "situations:"] {
        assert!(found.stdout.contains(part), "{part:?} is not in\n{}", found.stdout);
    }
    let trace = folder.path().join("finding-1.trace");
    let saved: Value = serde_json::from_slice(&fs::read(&trace).expect("a trace")).expect("JSON");
    assert!(saved.is_object(), "{saved}");
    let again = ["sim", "leases.wasm", "--scenario", "generated.yaml", "--replay", "finding-1.trace"];
    let replayed = run(folder.path(), &again);
    assert_eq!(replayed.code, Some(1), "{replayed:#?}");
}

#[test]
fn the_findings_do_not_depend_on_the_number_of_threads() {
    let folder = folder();
    let findings = |threads: &str| {
        let output = search(folder.path(), "generated.yaml", &["--threads", threads, "-o", "json"]);
        let mut report: Value = serde_json::from_str(&output.stdout).expect("JSON");
        assert!(report["findings"].as_array().is_some_and(|findings| !findings.is_empty()), "{report}");
        report.as_object_mut().and_then(|report| report.remove("seconds")).expect("a duration");
        report
    };
    assert_eq!(findings("1"), findings("2"));
}

#[test]
fn a_search_without_findings_says_what_it_tried() {
    let folder = folder();
    let output = search(folder.path(), "named.yaml", &[]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    for part in ["0 findings in ", "create leases.coordination.k8s.io", "oracles that judged"] {
        assert!(output.stdout.contains(part), "{part:?} is not in\n{}", output.stdout);
    }
}

#[test]
fn the_default_run_is_repeatable() {
    let folder = folder();
    assert_succeeds(
        folder.path(),
        &["sim", "leases.wasm", "--scenario", "named.yaml", "--check-determinism"],
    );
}

#[test]
fn invalid_input_exits_with_2_and_says_where() {
    let folder = folder();
    let misspelt = scenario("{}").replace("actors:", "actorz:");
    fs::write(folder.path().join("misspelt.yaml"), misspelt).expect("written");
    let incomplete = scenario("{}").replace("size(objects('Lease')) <= 1", "1 +");
    fs::write(folder.path().join("incomplete.yaml"), incomplete).expect("written");
    let refused = |scenario: &str, parts: &[&str]| {
        assert_fails(folder.path(), &["sim", "leases.wasm", "--scenario", scenario], 2, parts);
    };
    refused("misspelt.yaml", &["misspelt.yaml: line 3", "actorz", "did you mean actors?"]);
    refused("incomplete.yaml", &["incomplete.yaml: line 13", "at most one lease"]);
    assert_fails(folder.path(), &["sim", "absent.wasm"], 2, &["absent.wasm"]);
    let no_trace = ["sim", "leases.wasm", "--replay", "named.yaml"];
    assert_fails(folder.path(), &no_trace, 2, &["named.yaml", "no trace"]);
}
