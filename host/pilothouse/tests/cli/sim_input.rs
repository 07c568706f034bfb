//! Input that `pilothouse sim` cannot use: one message with file and remedy, and exit code 2.

use std::fs;
use std::path::Path;

use crate::binary::{CommandOutput, assert_fails, run};
use crate::guest::{other_guest, same_behaviour};
use crate::sim::{folder, right_scenario, search, write_project};

const REPLAY: [&str; 6] =
    ["sim", "leases.wasm", "--scenario", "generated.yaml", "--replay", "finding-1.trace"];

/// Asserts that the command is refused with one message, which contains the parts.
#[track_caller]
fn assert_refused(folder: &Path, arguments: &[&str], parts: &[&str]) -> CommandOutput {
    let output = assert_fails(folder, arguments, 2, parts);
    let errors = output.stderr.lines().filter(|line| line.starts_with("error: "));
    assert!(output.stderr.starts_with("error: ") && errors.count() == 1, "{output:#?}");
    output
}

/// Returns a folder with the trace of a finding.
fn folder_with_trace() -> tempfile::TempDir {
    let folder = folder();
    // The answer to the create is lost, so the trace only applies to a plugin that creates something.
    let found = search(folder.path(), "generated.yaml", &["--faults", "unknown"]);
    assert_eq!(found.code, Some(1), "{found:#?}");
    folder
}

fn replay_with_other_version(folder: &Path) -> CommandOutput {
    run(folder, &[&REPLAY[..], &["--other-version"]].concat())
}

#[test]
fn a_trace_of_another_version_is_refused_unless_that_is_intended() {
    let folder = folder_with_trace();
    let file = folder.path().join("leases.wasm");
    let changed = same_behaviour(&fs::read(&file).expect("a plugin"));
    fs::write(&file, changed).expect("written");
    let parts = [
        "--replay finding-1.trace: it was made with leases.wasm with the digest ",
        ", and not with leases.wasm with the digest ",
        "--other-version",
    ];
    assert_refused(folder.path(), &REPLAY, &parts);
    let replayed = replay_with_other_version(folder.path());
    assert_eq!(replayed.code, Some(1), "{replayed:#?}");
    assert!(replayed.stderr.contains(": found again"), "{replayed:#?}");
    assert!(replayed.stdout.contains("in the trace and in this run:\n"), "{replayed:#?}");
    assert!(!replayed.stdout.contains("only in "), "both versions do the same: {replayed:#?}");
    assert_fails(folder.path(), &["sim", "leases.wasm", "--other-version"], 2, &["--replay"]);
    // Another file is refused before anything is compiled.
    fs::write(&file, "not a plugin").expect("written");
    assert_refused(folder.path(), &REPLAY, &parts);
}

#[test]
fn a_trace_that_no_longer_applies_differs_from_an_error_that_is_not_found_again() {
    let folder = folder_with_trace();
    fs::write(folder.path().join("leases.wasm"), other_guest()).expect("written");
    let arguments = [&REPLAY[..], &["--other-version"]].concat();
    let parts = [
        "--replay finding-1.trace: the trace no longer applies",
        "differs first at event ",
        "this never comes: ",
        "search for the error again",
    ];
    let refused = assert_refused(folder.path(), &arguments, &parts);
    let parts = [
        "the run differs from the recorded one at event ",
        "  recorded: ",
        "  replayed: ",
        "in the trace and in this run:\n",
        "only in the trace, which was made with leases.wasm with the digest ",
    ];
    for part in parts {
        assert!(refused.stdout.contains(part), "{refused:#?}");
    }

    let folder = folder_with_trace();
    fs::write(folder.path().join("generated.yaml"), right_scenario()).expect("written");
    assert_refused(folder.path(), &REPLAY, &["generated.yaml with the digest "]);
    let fixed = replay_with_other_version(folder.path());
    assert_eq!(fixed.code, Some(0), "{fixed:#?}");
    assert!(fixed.stdout.contains(": not found again"), "{fixed:#?}");
    assert!(fixed.stdout.contains("the run differs from the recorded one at event "), "{fixed:#?}");
    let (_, stories) = fixed
        .stdout
        .split_once("only in the trace, which was made with generated.yaml with the ")
        .expect("what the trace has");
    let (of_trace, of_run) =
        stories.split_once("only in this run, with generated.yaml with the ").expect("what this run has");
    assert!(of_trace.contains("oracle  at most one lease") && !of_run.contains("oracle"), "{fixed:#?}");
}

#[test]
fn a_damaged_trace_is_refused_with_its_line() {
    let folder = folder_with_trace();
    let trace = folder.path().join("finding-1.trace");
    let text = fs::read_to_string(&trace).expect("a trace");
    let lines: Vec<_> = text.lines().take(3).collect();
    fs::write(&trace, lines.join("\n")).expect("written");
    let parts = ["--replay finding-1.trace: line 3: it is no trace", "find the error again"];
    assert_refused(folder.path(), &REPLAY, &parts);
}

#[test]
fn an_invalid_sidecar_is_named_and_not_its_plugin() {
    let folder = folder();
    let arguments = ["sim", "leases.wasm", "--scenario", "named.yaml"];
    let sidecar = folder.path().join("leases.yaml");
    for (text, part) in
        [("workers: many\n", "line 1"), ("config: {}\nworker: 2\n", "line 2"), ("config: [\n", "line")]
    {
        fs::write(&sidecar, text).expect("written");
        let parts = ["error: leases.yaml: the sidecar of leases.wasm is invalid: ", part, "; correct it"];
        assert_refused(folder.path(), &arguments, &parts);
    }
    fs::remove_file(sidecar).expect("removed");
    let plugins = "plugins: [{file: leases.wasm, sidecar: {workers: many}}]\n";
    fs::write(folder.path().join("with-plugin.yaml"), right_scenario() + plugins).expect("written");
    let parts = ["error: with-plugin.yaml: plugins: the sidecar of leases.wasm is invalid: ", "; correct it"];
    assert_refused(folder.path(), &["sim", "--scenario", "with-plugin.yaml"], &parts);
}

#[test]
fn a_damaged_plugin_is_refused() {
    let folder = folder();
    let file = folder.path().join("leases.wasm");
    let wasm = fs::read(&file).expect("a plugin");
    fs::write(&file, &wasm[..wasm.len() / 2]).expect("written");
    let parts = ["error: leases.wasm: ", "build it again", "pilothouse check"];
    assert_refused(folder.path(), &["sim", "leases.wasm", "--scenario", "named.yaml"], &parts);
}

#[test]
fn an_error_in_a_file_of_objects_has_its_line() {
    let folder = folder();
    let objects = folder.path().join("objects");
    fs::create_dir(&objects).expect("created");
    let arguments = ["sim", "leases.wasm", "--objects", "objects"];
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n";
    fs::write(objects.join("a.yaml"), good).expect("written");
    for (bad, parts) in [
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", ["objects/b.yaml: line 5: ", "metadata.name"]),
        ("apiVersion: v1\nkind: Foo\nmetadata: {name: a}\n", ["objects/b.yaml: line 5: ", "Foo"]),
        ("apiVersion: v1\nkind: [ConfigMap\n", ["objects/b.yaml: ", "line "]),
    ] {
        fs::write(objects.join("b.yaml"), format!("{good}{bad}")).expect("written");
        assert_refused(folder.path(), &arguments, &[&parts[..], &["; correct it"]].concat());
    }
}

#[test]
fn a_scenario_is_checked_before_a_plugin_is_loaded_or_built() {
    let folder = folder();
    let scenario = folder.path().join("generated.yaml");
    // A kind that is not built in may be one of the plugin's.
    let custom = "objects: [{apiVersion: example.com/v1, kind: Zoo, metadata: {name: a}}]\n";
    for (invalid, parts) in [
        ("oracle: {}\n", ["generated.yaml: line ", "oracle"]),
        ("oracles: {orphans: {off: Why.}}\n", ["generated.yaml: line ", "did you mean orphan?"]),
        ("controllers: [jobz]\n", ["generated.yaml: line ", "jobz"]),
        ("faults: {crash: many}\n", ["generated.yaml: line ", "crash: expected a whole number"]),
    ] {
        fs::write(&scenario, right_scenario() + custom + invalid).expect("written");
        fs::write(folder.path().join("leases.wasm"), "no plugin").expect("written");
        assert_refused(folder.path(), &["sim", "leases.wasm", "--scenario", "generated.yaml"], &parts);
    }
    fs::write(&scenario, right_scenario() + custom).expect("written");
    let arguments = ["sim", "leases.wasm", "--scenario", "generated.yaml"];
    assert_refused(folder.path(), &arguments, &["error: leases.wasm: "]);
    let arguments = ["sim", "generated.yaml"];
    assert_refused(
        folder.path(),
        &arguments,
        &["error: generated.yaml: ", "name a scenario with --scenario"],
    );
    let arguments = ["sim", "leases.wasm", "--seeds", "0"];
    assert_fails(folder.path(), &arguments, 2, &["--seeds"]);

    let invalid = right_scenario().replace("objects('Lease')", "objects('Lease'");
    write_project(folder.path(), &[("a.yaml", invalid.as_str())]);
    assert_refused(
        folder.path(),
        &["sim", "leases"],
        &["leases/simulations/a.yaml: line ", "at most one lease"],
    );
    assert!(!folder.path().join("leases/out").exists(), "the project was built");
}

#[test]
fn two_plugins_of_one_name_are_refused() {
    let folder = folder();
    fs::create_dir(folder.path().join("other")).expect("created");
    fs::copy(folder.path().join("leases.wasm"), folder.path().join("other/leases.wasm")).expect("copied");
    for other in ["leases.wasm", "other/leases.wasm"] {
        let parts = ["error: leases.wasm and ", other, " are two plugins of the name leases"];
        assert_refused(folder.path(), &["sim", "leases.wasm", other], &parts);
    }
}

#[test]
fn an_invariant_on_the_writes_of_nobody_is_refused() {
    let folder = folder();
    let invariant = "- {name: nobody, onWrite: {by: lease}, expect: 'true'}\n";
    let scenario = right_scenario().replace("invariants:\n", &format!("invariants:\n{invariant}"));
    fs::write(folder.path().join("generated.yaml"), scenario).expect("written");
    let parts = ["error: generated.yaml: line ", "unknown plugin or actor \"lease\"; did you mean leases?"];
    assert_refused(folder.path(), &["sim", "leases.wasm", "--scenario", "generated.yaml"], &parts);
}
