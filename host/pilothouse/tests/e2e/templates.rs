//! From an empty folder, in each language: new, build, check, run, and what the template's README promises, seen with kubectl.
//!
//! All templates do the same (templates/README.md), so one list of steps covers them. The language's tools must be there.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::harness::{Host, binary};

/// Runs the binary in a folder and wants success. Rust's compiled dependencies are shared with the examples'.
fn pilothouse(folder: &Path, arguments: &[&str]) -> Output {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target");
    let mut command = binary();
    command.current_dir(folder).env("CARGO_TARGET_DIR", shared).args(arguments);
    let output = command.output().expect("it runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "pilothouse {}: {stdout}\n{stderr}", arguments.join(" "));
    output
}

/// A new project, built and checked; the path of its .wasm.
fn make(folder: &Path, language: &str, name: &str) -> PathBuf {
    pilothouse(folder, &["new", name, "--lang", language]);
    pilothouse(folder, &["build", name]);
    let wasm = format!("{name}/{name}.wasm");
    let report = pilothouse(folder, &["check", &wasm, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["runs"], true, "{language}: {report:#}");
    assert_eq!(report["crds"], serde_json::json!(["foos.samplecontroller.k8s.io"]), "{language}");
    folder.join(wasm)
}

async fn deployment(host: &Host, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let path = host.server.path("/apis/apps/v1", "deployments", "example-foo");
    host.wait(what, || async {
        let found = host.server.get(&path).await;
        (found.is_object() && wanted(&found)).then_some(found)
    })
    .await
}

async fn works(language: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("made-in-{language}");
    let wasm = make(folder.path(), language, &name);

    let host = Host::start().await;
    host.sidecar(&name, "grants: {crds: true}\n");
    host.drop_in(&name, &std::fs::read(wasm).expect("built"));
    host.wait_for_state(&name, "running").await;
    let example =
        std::fs::read_to_string(folder.path().join(&name).join("manifests/foo.yaml")).expect("an example");
    // The test has a namespace of its own.
    let example = example.replace("  namespace: default\n", "");
    let server = &host.server;
    if server.kubectl_with(&["apply", "-f", "-"], &example).is_none() {
        return;
    }
    let made = deployment(&host, "the Deployment", |_| true).await;
    assert_eq!(made["spec"]["replicas"], 1, "{language}");
    assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "Foo", "{language}");
    assert_eq!(made["metadata"]["ownerReferences"][0]["controller"], true, "{language}");

    server.kubectl(&["delete", "deployment", "example-foo"]);
    deployment(&host, "another Deployment", |found| found["metadata"]["uid"] != made["metadata"]["uid"])
        .await;
    server.kubectl(&["patch", "foo", "example-foo", "--type", "merge", "-p", r#"{"spec":{"replicas":3}}"#]);
    deployment(&host, "3 replicas", |found| found["spec"]["replicas"] == 3).await;
    server.kubectl(&["scale", "deployment", "example-foo", "--replicas", "5"]);
    deployment(&host, "repaired replicas", |found| {
        found["spec"]["replicas"] == 3
            && found["metadata"]["generation"].as_u64() > made["metadata"]["generation"].as_u64()
    })
    .await;
    if !server.skips_pods().await {
        server.kubectl(&[
            "wait",
            "foo/example-foo",
            "--for=jsonpath={.status.availableReplicas}=3",
            "--timeout=300s",
        ]);
    }
    server.kubectl(&["delete", "foo", "example-foo"]);
    server.kubectl(&["wait", "deployment/example-foo", "--for=delete", "--timeout=300s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_template_in_rust_works() {
    works("rust").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_template_in_javascript_works() {
    works("js").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_template_in_python_works() {
    works("python").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_template_in_go_works() {
    works("go").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_template_in_c_works() {
    works("c").await;
}
