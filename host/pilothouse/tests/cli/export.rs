//! `pilothouse sim --replay --export`: the exported script provokes a finding on a server that is not simulated.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::binary::{CommandOutput, assert_fails, names, pilothouse, run, wait_for};
use crate::guest::write_guest;

/// Creates the object in `data.first` of each ConfigMap.
const DESCRIPTOR: &str = r#"{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","name":"secrets","version":"1.0.0",
"watches":[{"name":"maps","apiVersion":"v1","kind":"ConfigMap","namespaces":["default"],"labelSelector":"use=it","trigger":"self"}],
"writes":[{"apiGroups":[""],"resources":["secrets"],"verbs":["create"]}]}"#;

/// After a crash, the plugin creates a second Secret.
const SCENARIO: &str = r#"apiVersion: pilothouse.dev/v1alpha1
kind: Simulation
actors:
- name: user
  steps:
  - create:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: a, namespace: default, labels: {use: it}}
      data:
        first: '{"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "any-", "namespace": "default"}}'
faults: {crash: 1}
invariants:
- name: at most one secret
  always: "size(objects('Secret')) <= 1"
"#;

/// An embedded API server. Dropping this ends the process.
struct Server(Child);

impl Server {
    async fn start(folder: &Path) -> Self {
        let mut command = pilothouse(folder);
        command.args(["apiserver", "--kubeconfig-out", "kubeconfig"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(command.spawn().expect("the server"));
        let kubeconfig = folder.join("kubeconfig");
        wait_for("the kubeconfig", String::new, || {
            let is_complete = fs::read_to_string(&kubeconfig).is_ok_and(|text| !text.is_empty());
            async move { is_complete.then_some(()) }
        })
        .await;
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes the plugin and the scenario, searches, and exports the first finding to `exported`.
fn exported() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_guest(folder.path(), "secrets.wasm", "secrets", DESCRIPTOR);
    fs::write(folder.path().join("twice.yaml"), SCENARIO).expect("written");
    let search = ["sim", "secrets.wasm", "--scenario", "twice.yaml", "--seeds", "12", "--strategy", "plans"];
    assert_eq!(run(folder.path(), &search).code, Some(1));
    let again = ["sim", "secrets.wasm", "--scenario", "twice.yaml", "--replay", "finding-1.trace"];
    let export = run(folder.path(), &[&again[..], &["--export", "exported"]].concat());
    assert_eq!(export.code, Some(1), "{export:#?}");
    assert!(export.stdout.contains("exported to exported"), "{export:#?}");
    folder
}

fn reproduce(folder: &Path) -> CommandOutput {
    let mut command = Command::new("python3");
    command.args(["-B", "exported/reproduce.py", "--kubeconfig", "kubeconfig", "--pilothouse"]);
    command.arg(env!("CARGO_BIN_EXE_pilothouse")).current_dir(folder);
    command.output().expect("the script").into()
}

fn is_installed(program: &str, argument: &str) -> bool {
    let status = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn an_exported_finding_consists_of_the_script_the_plugin_and_what_is_expected() {
    let folder = exported();
    let exported = folder.path().join("exported");
    let files = [
        "README.md",
        "finding.json",
        "finding.trace",
        "proxy.py",
        "reproduce.py",
        "secrets.wasm",
        "secrets.yaml",
    ];
    assert_eq!(names(&exported), files);
    let finding = fs::read_to_string(exported.join("finding.json")).expect("a finding");
    let finding: Value = serde_json::from_str(&finding).expect("JSON");
    let expected = &finding["expected"];
    assert_eq!((&expected["verb"], &expected["object"]), (&"create".into(), &"secrets default/any-*".into()));
    assert_eq!(expected["occurrence"], 2);
    let readme = fs::read_to_string(exported.join("README.md")).expect("a README");
    assert!(readme.contains("oracle   summary") && readme.contains("--kubeconfig"), "{readme}");
}

#[tokio::test]
async fn the_script_reproduces_a_finding_and_does_not_report_one_that_is_fixed() {
    if !is_installed("python3", "--version") || !is_installed("kubectl", "--help") {
        eprintln!("skipped: python3 or kubectl is not installed");
        return;
    }
    let folder = exported();
    let _server = Server::start(folder.path()).await;
    let reproduced = reproduce(folder.path());
    assert_eq!(reproduced.code, Some(1), "{reproduced:#?}");
    assert!(reproduced.stdout.contains("\nreproduced: summary: "), "{reproduced:#?}");
    // The plugin creates what the user's ConfigMap contains. With a fixed name, the second create is refused.
    let file = folder.path().join("exported/finding.json");
    let finding = fs::read_to_string(&file).expect("a finding");
    let fixed = finding.replace(r#"\"generateName\": \"any-\""#, r#"\"name\": \"any\""#);
    assert_ne!(finding, fixed);
    fs::write(&file, fixed).expect("written");
    let refuted = reproduce(folder.path());
    assert_eq!(refuted.code, Some(0), "{refuted:#?}");
    assert!(refuted.stdout.contains("\nnot reproduced: the plugin did not create"), "{refuted:#?}");
}

#[test]
fn a_finding_without_the_guarantees_of_the_host_is_not_exported() {
    let folder = exported();
    let again = ["sim", "secrets.wasm", "--scenario", "twice.yaml", "--replay", "finding-1.trace"];
    let export = ["--guarantees", "none", "--export", "other"];
    let parts = ["cannot be exported", "guarantees are off"];
    assert_fails(folder.path(), &[&again[..], &export].concat(), 2, &parts);
    assert!(!folder.path().join("other").exists());
}
