//! What is refused is refused with one line that names the thing and the remedy, and with the right exit code.

use std::fs;

use crate::harness::{Guest, binary, wat};

/// Runs the binary; its exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = binary().args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

fn refused(arguments: &[&str], code: i32, parts: &[&str]) {
    let (found, _, stderr) = run(arguments);
    assert_eq!(found, code, "{arguments:?}: {stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{arguments:?}: {part:?} is not in: {stderr}");
    }
}

#[test]
fn bad_flags_end_with_2() {
    refused(&["dev", "--colour", "red"], 2, &["--colour"]);
    refused(&["dev", "--listen", "nowhere"], 2, &["nowhere", "--listen"]);
    refused(&["fly"], 2, &["fly"]);
    refused(&["status", "--server", "ftp://x"], 2, &["ftp://x", "http://127.0.0.1:9464"]);
    refused(&["logs", "Not/A/Name"], 2, &["Not/A/Name", "pilothouse status"]);
}

#[test]
fn an_address_in_use_ends_with_2() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let kubeconfig = kubeconfig.to_str().expect("text");
    refused(
        &["dev", "--listen", &address, "--kubeconfig-out", kubeconfig],
        2,
        &["--listen", &address, "port 0"],
    );
}

#[test]
fn bad_kubeconfigs_end_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let text = path.to_str().expect("text");
    refused(&["run", "--kubeconfig", text], 2, &["kubeconfig", text, "kubectl"]);
    fs::write(&path, "{not yaml").expect("written");
    refused(&["run", "--kubeconfig", text], 2, &["kubeconfig", text]);
    fs::write(&path, "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n")
        .expect("written");
    refused(&["run", "--kubeconfig", text, "--context", "nowhere"], 2, &["nowhere", "--context"]);
}

#[test]
fn a_bad_configuration_file_ends_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.yaml");
    let text = path.to_str().expect("text");
    refused(&["run", "--config", text], 2, &["--config", text]);
    fs::write(&path, "grantCrd: true\n").expect("written");
    refused(&["run", "--config", text], 2, &["grantCrd", "grantCrds"]);
    fs::write(&path, "cache:\n  compression: gzip\n").expect("written");
    refused(&["run", "--config", text], 2, &["gzip", "none", "zstd", "cache.compression"]);
    fs::write(&path, "lists: paged\n").expect("written");
    refused(&["run", "--config", text], 2, &["paged", "streaming", "plain"]);
    refused(&["run", "--cache-compression", "gzip"], 2, &["gzip", "none", "zstd"]);
}

#[test]
fn a_host_that_is_not_there_ends_with_1() {
    refused(&["status", "--server", "http://127.0.0.1:1"], 1, &["127.0.0.1:1", "is the host running there?"]);
}

#[test]
fn check_tells_what_a_plugin_wants() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sample-controller.wasm");
    fs::write(&path, Guest::SampleController.wasm()).expect("written");
    let (code, stdout, stderr) = run(&["check", path.to_str().expect("text")]);
    assert_eq!(code, 0, "{stderr}");
    for part in [
        "sample-controller",
        "foos: Foo in samplecontroller.k8s.io/v1alpha1",
        "deployments",
        "unverified",
        "brings",
    ] {
        assert!(stdout.contains(part), "{part}\n{stdout}");
    }
    let (_, stdout, _) = run(&["check", path.to_str().expect("text"), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(report["watches"][0]["served"], "byOwnCrd");
    assert_eq!(report["exports"], serde_json::json!(["reconcile"]));
}

#[test]
fn check_refuses_what_cannot_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    refused(&["check", &path("absent.wasm")], 2, &["absent.wasm", "no such file"]);
    fs::write(path("text.wasm"), "hello").expect("written");
    refused(&["check", &path("text.wasm")], 1, &["text.wasm", "expected a WebAssembly"]);
    fs::write(path("half.wasm"), &wat("done")[..60]).expect("written");
    refused(&["check", &path("half.wasm")], 1, &["half.wasm", "ends early"]);
    fs::write(path("good.yaml"), "limits: {memory: lots}\n").expect("written");
    fs::write(path("good.wasm"), wat("done")).expect("written");
    refused(&["check", &path("good.wasm")], 1, &["good.yaml", "limits.memory", "16Mi"]);
}
