//! Command-line errors name the subject and the remedy, and have the documented exit code.

use std::fs;

use crate::harness::{Guest, binary, wat};

/// Runs the binary. Returns its exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = binary().args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// Runs the binary and asserts that it exits with `code` and that standard error contains each of `parts`.
fn assert_fails(arguments: &[&str], code: i32, parts: &[&str]) {
    let (actual, _, stderr) = run(arguments);
    assert_eq!(actual, code, "{arguments:?}: {stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{arguments:?}: {part:?} is not in: {stderr}");
    }
}

#[test]
fn invalid_flags_exit_with_2() {
    assert_fails(&["dev", "--colour", "red"], 2, &["--colour"]);
    assert_fails(&["dev", "--listen", "nowhere"], 2, &["nowhere", "--listen"]);
    assert_fails(&["fly"], 2, &["fly"]);
    assert_fails(&["status", "--server", "ftp://x"], 2, &["ftp://x", "http://127.0.0.1:9464"]);
    assert_fails(&["logs", "Not/A/Name"], 2, &["Not/A/Name", "pilothouse status"]);
}

#[test]
fn an_address_in_use_exits_with_2() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let kubeconfig = kubeconfig.to_str().expect("text");
    assert_fails(
        &["dev", "--listen", &address, "--kubeconfig-out", kubeconfig],
        2,
        &["--listen", &address, "port 0"],
    );
}

#[test]
fn invalid_kubeconfigs_exit_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let text = path.to_str().expect("text");
    assert_fails(&["run", "--kubeconfig", text], 2, &["kubeconfig", text, "kubectl"]);
    fs::write(&path, "{not yaml").expect("written");
    assert_fails(&["run", "--kubeconfig", text], 2, &["kubeconfig", text]);
    fs::write(&path, "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n")
        .expect("written");
    assert_fails(&["run", "--kubeconfig", text, "--context", "nowhere"], 2, &["nowhere", "--context"]);
}

#[test]
fn a_plugins_directory_that_does_not_exist_exits_with_2_and_is_not_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let typo = folder.path().join("plugns");
    let text = typo.to_str().expect("text");
    let kubeconfig = folder.path().join("kubeconfig");
    let config = "{apiVersion: v1, kind: Config, current-context: c, users: [], contexts: [{name: c, context: {cluster: c}}], \
                  clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}";
    fs::write(&kubeconfig, config).expect("written");
    let run = ["run", "--kubeconfig", kubeconfig.to_str().expect("text"), "--plugins", text];
    for arguments in [&run[..], &["dev", "--plugins", text]] {
        assert_fails(arguments, 2, &["--plugins", text, "give the directory with the plugins' .wasm files"]);
        assert!(!typo.exists(), "{arguments:?}");
    }
}

#[test]
fn an_invalid_configuration_file_exits_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.yaml");
    let text = path.to_str().expect("text");
    assert_fails(&["run", "--config", text], 2, &["--config", text]);
    fs::write(&path, "grantCrd: true\n").expect("written");
    assert_fails(&["run", "--config", text], 2, &["grantCrd", "grantCrds"]);
    fs::write(&path, "cache:\n  compression: gzip\n").expect("written");
    assert_fails(&["run", "--config", text], 2, &["gzip", "none", "zstd", "docs/cli.md"]);
    fs::write(&path, "lists: paged\n").expect("written");
    assert_fails(&["run", "--config", text], 2, &["paged", "streaming", "plain"]);
    assert_fails(&["run", "--cache-compression", "gzip"], 2, &["gzip", "none", "zstd"]);
}

#[test]
fn an_unreachable_host_exits_with_1() {
    assert_fails(&["status", "--server", "http://127.0.0.1:1"], 1, &["127.0.0.1:1", "--server"]);
}

#[test]
fn check_reports_watches_crds_and_exports() {
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
        "installs",
    ] {
        assert!(stdout.contains(part), "{part}\n{stdout}");
    }
    let (_, stdout, _) = run(&["check", path.to_str().expect("text"), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(report["watches"][0]["served"], "byOwnCrd");
    assert_eq!(report["exports"], serde_json::json!(["reconcile"]));
}

#[test]
fn check_rejects_files_that_cannot_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    assert_fails(&["check", &path("absent.wasm")], 2, &["absent.wasm", "no such file"]);
    fs::write(path("text.wasm"), "hello").expect("written");
    assert_fails(&["check", &path("text.wasm")], 1, &["text.wasm", "expected a WebAssembly"]);
    fs::write(path("half.wasm"), &wat("done")[..60]).expect("written");
    assert_fails(&["check", &path("half.wasm")], 1, &["half.wasm", "ends early"]);
    fs::write(path("good.yaml"), "limits: {memory: lots}\n").expect("written");
    fs::write(path("good.wasm"), wat("done")).expect("written");
    assert_fails(&["check", &path("good.wasm")], 1, &["good.yaml", "limits.memory", "16Mi"]);
}
