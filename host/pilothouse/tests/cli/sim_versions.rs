//! `pilothouse sim` with generated objects, with two versions of a plugin, and as an XML document.

use std::fs;
use std::path::Path;

use crate::binary::{CommandOutput, assert_fails, assert_succeeds, run};
use crate::guest::{guest, other_guest, same_behaviour, write_guest};
use crate::sim::{DESCRIPTOR, folder, lease, scenario_with, search};

const PLANS: [&str; 4] = ["--seeds", "40", "--strategy", "plans"];

/// The descriptor of a plugin that creates Secrets. Leases do not count in comparisons.
fn secrets_descriptor() -> String {
    DESCRIPTOR.replace("coordination.k8s.io", "").replace(r#"["leases"]"#, r#"["secrets"]"#)
}

/// Returns a Secret with this metadata, in JSON.
fn secret(metadata: &str) -> String {
    format!(r#"{{"apiVersion": "v1", "kind": "Secret", "metadata": {metadata}}}"#)
}

#[track_caller]
fn assert_contains(output: &CommandOutput, parts: &[&str]) {
    for part in parts {
        assert!(output.stdout.contains(part), "{part:?} is not in\n{}", output.stdout);
    }
}

#[test]
fn a_junit_document_has_the_findings_and_the_situations() {
    let folder = folder();
    let found = search(folder.path(), "generated.yaml", &["-o", "junit"]);
    assert_eq!(found.code, Some(1), "{found:#?}");
    let suite = "<testsuite name=\"generated\" tests=\"";
    let parts = ["<?xml ", suite, "<failure message=\"", "FOUND at most one lease", "<system-out>"];
    assert_contains(&found, &parts);
    assert!(found.stdout.trim_end().ends_with("</testsuites>"), "{found:#?}");

    let clean = search(folder.path(), "named.yaml", &["-o", "junit"]);
    assert_eq!(clean.code, Some(0), "{clean:#?}");
    assert!(!clean.stdout.contains("<failure"), "{clean:#?}");
    assert_contains(&clean, &["failures=\"0\"", "<system-out>0 findings in ", "\nsituations:\n"]);
}

#[test]
fn without_a_scenario_objects_are_generated_or_taken_from_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    write_guest(folder.path(), "secrets.wasm", "secrets", &secrets_descriptor());
    let arguments = [&["sim", "secrets.wasm"][..], &PLANS].concat();
    let clean = assert_succeeds(folder.path(), &arguments);
    assert_contains(&clean, &["0 findings in ", "situations:"]);
    assert!(!clean.stdout.contains("create secrets"), "no generated ConfigMap has a Secret: {clean:#?}");

    let objects = folder.path().join("objects");
    fs::create_dir(&objects).expect("created");
    let data = secret(r#"{"generateName": "any-", "namespace": "default"}"#);
    let manifest = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: default}}\ndata:\n  first: '{data}'\n"
    );
    fs::write(objects.join("a.yaml"), manifest).expect("written");
    let found = run(folder.path(), &[&arguments[..], &["--objects", "objects"]].concat());
    assert_eq!(found.code, Some(1), "{found:#?}");
    assert_contains(&found, &["FOUND ", "create secrets", "--objects objects"]);
    let replay = ["sim", "secrets.wasm", "--objects", "objects", "--replay", "finding-1.trace"];
    let replayed = run(folder.path(), &replay);
    assert_eq!(replayed.code, Some(1), "{replayed:#?}");
}

/// Writes `old.wasm`, `new.wasm` with this content, and a scenario with a Lease for each: `one` of the old version and `two` of the other
/// guest. At most one may exist.
fn versions(new: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for plugin in ["old", "new"] {
        write_guest(folder.path(), &format!("{plugin}.wasm"), plugin, DESCRIPTOR);
    }
    fs::write(folder.path().join("new.wasm"), new).expect("written");
    let lease = |name: &str| lease(&format!(r#"{{"name": "{name}", "namespace": "default"}}"#));
    let scenario = scenario_with(&[("first", lease("one")), ("other", lease("two"))]);
    fs::write(folder.path().join("one.yaml"), scenario).expect("written");
    folder
}

/// As [`versions`], with Secrets in place of the Leases.
fn secret_versions(new: &[u8]) -> tempfile::TempDir {
    let folder = versions(new);
    for plugin in ["old", "new"] {
        let sidecar = format!("{{\"config\": {}}}", secrets_descriptor()).replace('\n', "");
        fs::write(folder.path().join(format!("{plugin}.yaml")), sidecar).expect("written");
    }
    let secret = |name: &str| secret(&format!(r#"{{"name": "{name}", "namespace": "default"}}"#));
    let scenario = scenario_with(&[("first", secret("one")), ("other", secret("two"))]);
    fs::write(folder.path().join("one.yaml"), scenario).expect("written");
    folder
}

fn diff(folder: &Path, more: &[&str]) -> CommandOutput {
    let arguments = ["sim", "--diff", "old.wasm", "new.wasm", "--scenario", "one.yaml"];
    run(folder, &[&arguments[..], &PLANS, more].concat())
}

#[test]
fn versions_with_different_writes_differ() {
    let folder = secret_versions(&other_guest());
    let different = diff(folder.path(), &[]);
    assert_eq!(different.code, Some(1), "{different:#?}");
    let parts = [
        " runs, 0 of them equal",
        "DIFFERENT writes of secrets default/one (in ",
        "  old: create secrets: ",
        "  new: no further write",
        "DIFFERENT at the end, secrets default/two",
        "first seen with no fault",
    ];
    assert_contains(&different, &parts);
    let json = diff(folder.path(), &["-o", "json"]);
    assert_eq!(json.code, Some(1), "{json:#?}");
    let report: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(report["differences"][0]["resource"], "secrets", "{report}");
}

#[test]
fn versions_with_the_same_writes_are_equal() {
    let folder = secret_versions(&same_behaviour(&guest(&[])));
    let equal = diff(folder.path(), &[]);
    assert_eq!(equal.code, Some(0), "{equal:#?}");
    assert!(!equal.stdout.contains("DIFFERENT"), "{equal:#?}");
    let line = equal.stdout.lines().next().unwrap_or_default();
    let (runs, equal_runs) = line.split_once(" runs, ").expect("counts");
    assert_eq!(equal_runs, format!("{runs} of them equal"), "{line}");
    assert_ne!(runs, "0");
}

#[test]
fn an_error_that_only_the_upgrade_causes_is_found_with_it() {
    let folder = versions(&other_guest());
    let arguments = ["sim", "old.wasm", "--scenario", "one.yaml"];
    let alone = assert_succeeds(folder.path(), &[&arguments[..], &PLANS].concat());
    assert_contains(&alone, &["0 findings in "]);

    let upgrade = [&arguments[..], &["--upgrade", "new.wasm"]].concat();
    let found = run(folder.path(), &[&upgrade[..], &PLANS].concat());
    assert_eq!(found.code, Some(1), "{found:#?}");
    assert_contains(&found, &["FOUND at most one lease", "[H2: ", "--upgrade new.wasm"]);

    let replay = ["--replay", "finding-1.trace"];
    let replayed = run(folder.path(), &[&upgrade[..], &replay].concat());
    assert_eq!(replayed.code, Some(1), "{replayed:#?}");
    let parts = ["it was made with new.wasm with the digest ", ", too; ", "--other-version"];
    assert_fails(folder.path(), &[&arguments[..], &replay].concat(), 2, &parts);
    let fixed = same_behaviour(&guest(&[]));
    fs::write(folder.path().join("new.wasm"), fixed).expect("written");
    let refuted = run(folder.path(), &[&upgrade[..], &replay, &["--other-version"]].concat());
    assert_eq!(refuted.code, Some(0), "{refuted:#?}");
}
