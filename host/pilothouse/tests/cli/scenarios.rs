//! `pilothouse test`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::binary::{CommandOutput, assert_fails, names, pilothouse, wait_for};
use crate::check::write_plugin;
use crate::{project, sim};

const HEADER: &str = "apiVersion: pilothouse.dev/v1alpha1\nkind: Scenario\n";
const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: '1'}}";

/// Writes the steps of a scenario to a file below `scenarios` in the folder.
fn write_scenario(folder: &Path, name: &str, rest: &str) {
    let scenarios = folder.join("scenarios");
    fs::create_dir_all(&scenarios).expect("created");
    fs::write(scenarios.join(name), format!("{HEADER}{rest}")).expect("written");
}

/// Returns a folder with a plugin that watches ConfigMaps and does nothing, and with a folder `tmp`.
fn folder_with_plugin() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_plugin(folder.path(), &json!({}), &json!({}));
    fs::create_dir(folder.path().join("tmp")).expect("created");
    folder
}

/// Returns a command that runs the scenarios with the folder `tmp` for temporary files.
fn test_command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = pilothouse(folder);
    command.env("TMPDIR", folder.join("tmp")).args(["test", "--cache-dir", "cache"]).args(arguments);
    command
}

/// Runs the scenarios, and asserts that no temporary file is left.
#[track_caller]
fn run_test(folder: &Path, arguments: &[&str], code: i32, parts: &[&str]) -> CommandOutput {
    let output = CommandOutput::from(test_command(folder, arguments).output().expect("it runs"));
    assert_eq!(output.code, Some(code), "{arguments:?}: {output:#?}");
    for part in parts {
        let is_printed = output.stdout.contains(part) || output.stderr.contains(part);
        assert!(is_printed, "{arguments:?}: {part:?} is not in {output:#?}");
    }
    assert_eq!(names(&folder.join("tmp")), Vec::<String>::new(), "{output:#?}");
    output
}

#[test]
fn every_action_works_and_each_scenario_has_a_cluster_of_its_own() {
    let folder = folder_with_plugin();
    let all = format!(
        "objects:\n- {MAP}\nsteps:\n\
         - expect: {{object: ConfigMap/a, match: {{data: {{size: '1'}}}}, cel: object.metadata.namespace == 'default'}}\n\
         - expectPlugin: {{state: running}}\n\
         - create: {{apiVersion: v1, kind: Namespace, metadata: {{name: shop}}}}\n\
         - apply: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: b, namespace: shop, finalizers: [example.com/a]}}}}\n\
         - patch: {{object: cm/shop/b, merge: {{data: {{size: '2'}}}}}}\n\
         - expect: {{object: cm/shop/b, match: {{data: {{size: '2', absent: null}}}}}}\n\
         - delete: {{object: cm/shop/b, wait: false}}\n\
         - expect: {{object: cm/shop/b, cel: has(object.metadata.deletionTimestamp)}}\n\
         - patch: {{object: cm/shop/b, merge: {{metadata: {{finalizers: null}}}}}}\n\
         - expectAbsent: cm/shop/b\n\
         - delete: ConfigMap/a\n\
         - expectAbsent: ConfigMap/a\n"
    );
    write_scenario(folder.path(), "first.yaml", &all);
    write_scenario(
        folder.path(),
        "second.yaml",
        "steps:\n- expectAbsent: ConfigMap/a\n- expectAbsent: Namespace/shop\n",
    );
    let output = run_test(folder.path(), &["plugin.wasm"], 0, &[]);
    let lines: Vec<_> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("pass  first (") && lines[1].starts_with("pass  second ("), "{output:#?}");
    assert_eq!(lines[2..], ["2 scenarios: 2 passed, 0 failed"], "{output:#?}");
    assert_eq!(output.stderr, "", "the log is off");
}

#[test]
fn a_failure_shows_the_object_the_difference_and_the_plugin() {
    let folder = folder_with_plugin();
    let wrong = format!(
        "timeout: 100ms\nobjects:\n- {MAP}\nsteps:\n- expect:\n    object: ConfigMap/a\n    match: {{data: {{size: '3'}}}}\n"
    );
    write_scenario(folder.path(), "wrong.yaml", &wrong);
    write_scenario(folder.path(), "right.yaml", "steps:\n- expectAbsent: ConfigMap/a\n");
    let place = "scenarios/wrong.yaml:7: expect ConfigMap/a: the object is not as expected (waited 0.1 s)";
    let parts = [
        "pass  right (",
        "FAIL  wrong (",
        place,
        "data.size: expected \"3\", but it is \"1\"",
        "the object:",
        "kind: ConfigMap",
        "the plugin is running",
        "2 scenarios: 1 passed, 1 failed",
        "error: 1 of 2 scenarios failed",
    ];
    run_test(folder.path(), &["plugin.wasm"], 1, &parts);
    run_test(folder.path(), &["plugin.wasm", "--run", "r*"], 0, &["1 scenario: 1 passed, 0 failed"]);
    let output = run_test(folder.path(), &["plugin.wasm", "-o", "junit"], 1, &["<failure message=\""]);
    assert!(output.stdout.starts_with("<?xml") && !output.stdout.contains("FAIL  wrong"), "{output:#?}");

    let absent = "timeout: 100ms\nsteps:\n- delete: ConfigMap/absent\n";
    write_scenario(folder.path(), "wrong.yaml", absent);
    run_test(folder.path(), &["plugin.wasm"], 1, &["there is no such object; expect it in a step before"]);
    let unserved = "timeout: 100ms\nsteps:\n- expect: {object: Foo/a}\n";
    write_scenario(folder.path(), "wrong.yaml", unserved);
    run_test(folder.path(), &["plugin.wasm"], 1, &["the API server does not serve Foo"]);
    let event = "timeout: 100ms\nsteps:\n- expectEvent: {reason: Synced}\n";
    write_scenario(folder.path(), "wrong.yaml", event);
    run_test(folder.path(), &["plugin.wasm"], 1, &["there is no such Event among"]);
    let refused = "objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: nowhere}}]\nsteps:\n- expectLog: a\n";
    write_scenario(folder.path(), "wrong.yaml", refused);
    run_test(folder.path(), &["plugin.wasm"], 1, &["cannot apply ConfigMap/nowhere/a: ", "nowhere"]);
}

#[test]
fn a_plugin_that_does_not_load_fails_its_scenarios_unless_they_expect_it() {
    let folder = folder_with_plugin();
    fs::write(folder.path().join("text.wasm"), "not WebAssembly").expect("written");
    write_scenario(folder.path(), "a.yaml", "steps:\n- expectAbsent: ConfigMap/a\n");
    let parts = ["FAIL  a (", "a.yaml: the plugin does not run", "the plugin is failed"];
    run_test(folder.path(), &["text.wasm"], 1, &parts);
    write_scenario(folder.path(), "a.yaml", "steps:\n- expectPlugin: {state: failed, error: WebAssembly}\n");
    run_test(folder.path(), &["text.wasm"], 0, &["pass  a ("]);
}

#[test]
fn invalid_usage_exits_with_2_before_anything_is_built() {
    let folder = folder_with_plugin();
    let fails = |arguments: &[&str], parts: &[&str]| {
        let arguments = [&["test"][..], arguments].concat();
        assert_fails(folder.path(), &arguments, 2, parts);
    };
    fails(&["absent"], &["absent: ", "give the folder of a project, or a plugin's .wasm file"]);
    fails(&["plugin.yaml"], &["plugin.yaml: it is neither"]);
    fails(&["plugin.wasm"], &["scenarios: ", "or name one with --scenario FILE"]);
    fails(&["plugin.wasm", "--scenario", "absent.yaml"], &["absent.yaml: ", "give a scenario file"]);
    write_scenario(folder.path(), "bad.yaml", "steps:\n- exepct: {object: ConfigMap/a}\n");
    fails(&["plugin.wasm"], &["scenarios/bad.yaml: ", "unknown field `exepct`, expected one of", "line 4"]);
    write_scenario(
        folder.path(),
        "bad.yaml",
        "steps:\n- expect: {object: ConfigMap/a, cel: object.data ==}\n",
    );
    fails(&["plugin.wasm"], &["scenarios/bad.yaml: line 4: expect.cel: "]);
    write_scenario(folder.path(), "bad.yaml", "steps:\n- expectLog: hello\n");
    fails(&["plugin.wasm", "--run", "good"], &["--run good: no scenario has this name; there are bad"]);
}

#[test]
fn a_project_is_built_with_its_sidecar_and_left_as_it_was() {
    let folder = folder_with_plugin();
    let project = folder.path().join("project");
    project::write(&project, "logging", &project::source("1"));
    write_scenario(
        &project,
        "log.yaml",
        "steps:\n- expectLog: described as 1\n- expectPlugin: {state: running}\n",
    );
    run_test(folder.path(), &["project"], 0, &["pass  log ("]);
    let left = names(&project);
    assert!(!left.iter().any(|name| name.ends_with(".wasm") || name.starts_with(".pilothouse")), "{left:?}");

    fs::write(project.join("logging.yaml"), "worker: 3\n").expect("written");
    run_test(folder.path(), &["project"], 1, &["logging", "expected one of enabled, config, workers"]);
}

#[test]
fn the_simulations_of_a_project_run_after_its_scenarios() {
    let folder = folder_with_plugin();
    let project = folder.path().join("leases");
    let wrong = sim::wrong_scenario();
    sim::write_project(folder.path(), &[("generated.yaml", wrong.as_str())]);
    write_scenario(&project, "starts.yaml", "steps:\n- expectPlugin: {state: running}\n");
    let runs = ["leases", "--sim-seeds", "40"];
    let replay = "sim leases --scenario leases/simulations/generated.yaml --seed 0x1 --replay leases/.pilothouse/finding-1.trace";
    let command = format!("Replay: pilothouse {replay}");
    let parts = [
        "pass  starts (",
        "FAIL  simulation generated (",
        "FOUND at most one lease",
        command.as_str(),
        "1 scenario, 1 simulation: 1 passed, 1 failed",
        "error: 1 of 2 scenarios and simulations failed",
    ];
    run_test(folder.path(), &runs, 1, &parts);
    let arguments: Vec<_> = replay.split(' ').collect();
    assert_fails(folder.path(), &arguments, 1, &[": found again"]);
    let failure = ["name=\"simulation generated\"", "<failure message=\"", ">FOUND "];
    run_test(folder.path(), &[&runs[..], &["-o", "junit"]].concat(), 1, &failure);

    run_test(folder.path(), &["leases", "--no-sim"], 0, &["1 scenario: 1 passed, 0 failed"]);
    run_test(folder.path(), &["leases", "--run", "starts"], 0, &["1 scenario: 1 passed, 0 failed"]);
    let single = ["leases", "--scenario", "leases/scenarios/starts.yaml"];
    run_test(folder.path(), &single, 0, &["1 scenario: 1 passed, 0 failed"]);
}

#[test]
fn a_simulation_passes_is_left_out_after_a_failure_or_is_invalid() {
    let folder = folder_with_plugin();
    let project = folder.path().join("leases");
    let right = sim::right_scenario();
    sim::write_project(folder.path(), &[("named.yaml", right.as_str())]);
    write_scenario(&project, "starts.yaml", "steps:\n- expectPlugin: {state: running}\n");
    let only = ["leases", "--run", "named", "--sim-seeds", "8"];
    let parts = [
        "pass  simulation named (8 runs, ",
        "\n      crashed before ",
        "\n      oracles that had nothing to judge: ",
        "1 simulation: 1 passed, 0 failed",
    ];
    let output = run_test(folder.path(), &only, 0, &parts);
    assert_eq!(output.stderr, "", "the log is off");
    assert!(!project.join(".pilothouse").exists(), "nothing was found");
    let situations = "<system-out>crashed before ";
    run_test(folder.path(), &[&only[..], &["-o", "junit"]].concat(), 0, &[situations]);

    fs::write(project.join("simulations/named.yaml"), right.replace("actors:", "actorz:")).expect("written");
    fs::remove_dir_all(project.join("out")).expect("removed");
    run_test(folder.path(), &only, 2, &["leases/simulations/named.yaml: line 3", "did you mean actors?"]);
    assert!(!project.join("out").exists(), "the project was built before the simulation was checked");

    fs::write(project.join("simulations/named.yaml"), right).expect("written");
    write_scenario(&project, "starts.yaml", "timeout: 100ms\nsteps:\n- expectPlugin: {state: failed}\n");
    let parts = [
        "simulations are left out, because a scenario has failed",
        "1 of 1 scenarios and simulations failed",
    ];
    run_test(folder.path(), &["leases"], 1, &parts);
}

#[tokio::test]
async fn an_interruption_ends_the_scenario_and_leaves_no_file() {
    let folder = folder_with_plugin();
    write_scenario(folder.path(), "endless.yaml", "timeout: 60m\nsteps:\n- expectLog: never\n");
    let mut command = test_command(folder.path(), &["plugin.wasm"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let temporary = folder.path().join("tmp");
    wait_for("the temporary folder", String::new, || async { (!names(&temporary).is_empty()).then_some(()) })
        .await;
    let interrupt = ["-INT".to_owned(), child.id().to_string()];
    assert!(Command::new("kill").args(interrupt).status().expect("kill runs").success());
    let output = CommandOutput::from(child.wait_with_output().expect("it ends"));
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.stderr.contains("interrupted"), "{output:#?}");
    assert_eq!(names(&temporary), Vec::<String>::new());
}
