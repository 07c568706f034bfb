//! `pilothouse sim`: a search finds what a crash does to a plugin, a trace repeats it, and invalid input is refused.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::binary::{CommandOutput, assert_fails, assert_succeeds, names, run};
use crate::guest::write_guest;

/// Creates the object in `data.first` of each ConfigMap.
pub(crate) const DESCRIPTOR: &str = r#"{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","name":"leases","version":"1.0.0",
"watches":[{"name":"maps","apiVersion":"v1","kind":"ConfigMap","namespaces":["default"],"trigger":"self"}],
"writes":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["create"]}]}"#;

/// Returns a Lease with this metadata, in JSON.
pub(crate) fn lease(metadata: &str) -> String {
    format!(r#"{{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {metadata}}}"#)
}

/// A scenario in which a user creates a ConfigMap whose Lease has this metadata, and at most one Lease may exist.
fn scenario(metadata: &str) -> String {
    scenario_with(&[("first", lease(metadata))])
}

/// A scenario in which a user creates a ConfigMap with this data, and at most one Lease may exist.
pub(crate) fn scenario_with(data: &[(&str, String)]) -> String {
    let data: String = data.iter().map(|(name, text)| format!("        {name}: '{text}'\n")).collect();
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
{data}invariants:
- name: at most one lease
  always: "size(objects('Lease')) <= 1"
"#
    )
}

/// A scenario that shows an error: the Lease's name is generated, so a crash leads to a second Lease.
pub(crate) fn wrong_scenario() -> String {
    scenario(r#"{"generateName": "any-", "namespace": "default"}"#)
}

/// A scenario that shows no error: the Lease's name is given.
pub(crate) fn right_scenario() -> String {
    scenario(r#"{"name": "one", "namespace": "default"}"#)
}

/// Writes the plugin with its sidecar: the file is called `wasm`, the sidecar `leases.yaml`.
fn write_leases(folder: &Path, wasm: &str) {
    write_guest(folder, wasm, "leases", DESCRIPTOR);
}

/// Writes the plugin and two scenarios, `generated.yaml` and `named.yaml`.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_leases(folder.path(), "leases.wasm");
    fs::write(folder.path().join("generated.yaml"), wrong_scenario()).expect("written");
    fs::write(folder.path().join("named.yaml"), right_scenario()).expect("written");
    folder
}

/// Writes a project with the plugin into the folder `leases`: a command builds it, and `simulations` has these scenarios.
pub(crate) fn write_project(folder: &Path, simulations: &[(&str, &str)]) {
    let project = folder.join("leases");
    fs::create_dir_all(project.join("simulations")).expect("created");
    write_leases(&project, "source");
    let command =
        "build:\n  run: mkdir -p out && cp source out/built.wasm\n  output: out/built.wasm\n  watch: [src]\n";
    fs::write(project.join("pilothouse.yaml"), command).expect("written");
    for (name, text) in simulations {
        fs::write(project.join("simulations").join(name), text).expect("written");
    }
}

pub(crate) fn search(folder: &Path, scenario: &str, more: &[&str]) -> CommandOutput {
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
    // A scenario without the invariant proves nothing.
    let scenario = wrong_scenario();
    let (bare, _) = scenario.split_once("invariants:").expect("an invariant");
    fs::write(folder.path().join("bare.yaml"), bare).expect("written");
    let elsewhere =
        ["sim", "leases.wasm", "--scenario", "bare.yaml", "--replay", "finding-1.trace", "--other-version"];
    let replayed = run(folder.path(), &elsewhere);
    assert_eq!(replayed.code, Some(2), "{replayed:#?}");
    assert!(replayed.stderr.contains("nothing here judges \"at most one lease\""), "{replayed:#?}");
}

#[test]
fn compiled_plugins_are_kept_in_the_directory_that_is_given() {
    let folder = folder();
    let found = search(folder.path(), "named.yaml", &["--cache-dir", "cache"]);
    assert_eq!(found.code, Some(0), "{found:#?}");
    let kept = names(&folder.path().join("cache/compiled"));
    assert!(matches!(&kept[..], [name] if name.ends_with(".cwasm")), "{kept:?}");
}

#[test]
fn the_findings_do_not_depend_on_the_number_of_threads() {
    let folder = folder();
    let findings = |threads: &str| {
        let output = search(folder.path(), "generated.yaml", &["--threads", threads, "-o", "json"]);
        let mut report: Value = serde_json::from_str(&output.stdout).expect("JSON");
        assert!(report["findings"].as_array().is_some_and(|findings| !findings.is_empty()), "{report}");
        let times = report["findingSeconds"].as_array().map(Vec::len);
        assert_eq!(times, report["findings"].as_array().map(Vec::len), "{report}");
        for duration in ["seconds", "findingSeconds"] {
            report.as_object_mut().and_then(|report| report.remove(duration)).expect("a duration");
        }
        report
    };
    assert_eq!(findings("1"), findings("2"));
}

#[test]
fn a_project_is_built_and_simulated_in_its_own_scenarios() {
    let folder = tempfile::tempdir().expect("a folder");
    let (wrong, right) = (wrong_scenario(), right_scenario());
    write_project(folder.path(), &[("generated.yaml", wrong.as_str()), ("named.yaml", right.as_str())]);
    let arguments = ["sim", "leases", "--seeds", "12", "--strategy", "plans", "--traces", "traces"];
    let found = run(folder.path(), &arguments);
    assert_eq!(found.code, Some(1), "{found:#?}");
    let replay = "sim leases --scenario leases/simulations/generated.yaml --seed 0x1 --replay traces/generated-finding-1.trace";
    let command = format!("Replay: pilothouse {replay}");
    for part in [command.as_str(), "named: ", "0 findings in "] {
        assert!(found.stdout.contains(part), "{part:?} is not in\n{}", found.stdout);
    }
    let traces = names(&folder.path().join("traces"));
    assert!(traces.iter().all(|name| name.starts_with("generated-finding-")), "{traces:?}");
    let replayed = run(folder.path(), &replay.split(' ').collect::<Vec<_>>());
    assert_eq!(replayed.code, Some(1), "{replayed:#?}");
    assert!(replayed.stderr.contains(": found again"), "{replayed:#?}");
    assert!(!replayed.stdout.contains("note: "), "the rebuilt plugin is the same: {replayed:#?}");

    let named = "leases/simulations/named.yaml";
    let arguments = ["sim", "leases", "--scenario", named, "--seeds", "3", "--strategy", "plans"];
    let output = assert_succeeds(folder.path(), &arguments);
    assert!(!output.stdout.contains("generated"), "only the named scenario: {output:#?}");
}

#[test]
fn a_folder_without_a_project_cannot_be_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("empty")).expect("created");
    assert_fails(folder.path(), &["sim", "empty"], 2, &["empty", "not a project", "pilothouse new"]);
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
fn two_processes_make_the_same_calls_in_each_scenario() {
    let folder = folder();
    let scenarios = ["--scenario", "named.yaml", "--scenario", "generated.yaml"];
    let arguments = [&["sim", "leases.wasm", "--check-determinism"][..], &scenarios].concat();
    let compared = assert_succeeds(folder.path(), &arguments).stdout;
    let lines: Vec<&str> = compared.lines().collect();
    assert_eq!(lines.len(), 2, "{compared}");
    for line in lines {
        assert!(line.starts_with("deterministic: seed 0x1 gave the hash "), "{line}");
        assert!(line.contains(" in two processes, after "), "{line}");
    }
}

#[test]
fn the_calls_of_a_run_contain_those_of_the_host() {
    let folder = folder();
    let arguments = ["sim", "leases.wasm", "--scenario", "named.yaml", "--print-calls"];
    let calls = assert_succeeds(folder.path(), &[&arguments[..], &["0"]].concat()).stdout;
    assert!(calls.contains("leases calls cache.get"), "{calls}");
    assert!(calls.contains("leases calls client.create"), "{calls}");
    let absent = [&arguments[..], &["1"]].concat();
    assert_fails(folder.path(), &absent, 2, &["--print-calls 1", "no such scenario"]);
}

#[test]
fn the_hashes_of_the_runs_do_not_depend_on_the_number_of_threads() {
    let folder = folder();
    let hashes = |threads: &str| {
        let file = format!("{threads}.hashes");
        let output = search(folder.path(), "named.yaml", &["--threads", threads, "--hashes", &file]);
        assert_eq!(output.code, Some(0), "{output:#?}");
        fs::read_to_string(folder.path().join(file)).expect("hashes")
    };
    let one = hashes("1");
    assert_eq!(one.lines().count(), 12, "{one}");
    for line in one.lines() {
        let (hash, plan) = line.split_once(' ').expect("a hash and a plan");
        assert!(hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok(), "{line}");
        assert!(serde_json::from_str::<Value>(plan).expect("JSON")["seed"].is_u64(), "{line}");
    }
    assert_eq!(one, hashes("2"));
    let refused = |more: &[&str], part: &str| {
        let arguments = [&["sim", "leases.wasm", "--scenario", "named.yaml"], more].concat();
        assert_fails(folder.path(), &arguments, 2, &[part]);
    };
    refused(&["--hashes", "absent/file"], "--hashes absent/file");
    refused(&["--scenario", "named.yaml", "--hashes", "file"], "at most one scenario");
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
