//! The template of each language: `new`, `build`, `check`, `test` with its simulation, then the behaviour that its README describes, tested with kubectl.
//!
//! All templates behave the same (templates/README.md), so they share one test. The tools of each language must be installed.

use std::path::{Path, PathBuf};
use std::process::Output;

use pilothouse_toolchain::Language;
use serde_json::Value;

use crate::harness::{CACHE, Host, binary};

/// The largest plugin in bytes that is simulated by a debug build, which takes minutes to compile a larger one.
const MAX_SIMULATED_SIZE: u64 = 2 << 20;
/// The number of runs of the simulation, fewer than by default, because a debug build is slow.
const SIMULATED_RUNS: &str = "20";

/// Runs the binary in a folder and asserts that it succeeds. Rust projects share the examples' target directory.
fn pilothouse(folder: &Path, arguments: &[&str]) -> Output {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target");
    let mut command = binary();
    command.current_dir(folder).env("CARGO_TARGET_DIR", shared).args(arguments);
    let output = command.output().expect("it runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "pilothouse {}: {stdout}\n{stderr}", arguments.join(" "));
    output
}

/// Creates, builds, checks and tests a project. Returns the path of its .wasm file, and the names of its CRDs.
fn build_template(folder: &Path, language: &str, name: &str, flags: &[&str]) -> (PathBuf, Value) {
    pilothouse(folder, &[&["new", name, "--lang", language][..], flags].concat());
    pilothouse(folder, &["build", name]);
    let wasm = format!("{name}/{name}.wasm");
    let report = pilothouse(folder, &["check", &wasm, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["runs"], true, "{language}: {report:#}");
    test_and_simulate(folder, name, &wasm);
    (folder.join(wasm), report["crds"].clone())
}

/// Runs the scenarios and the simulations of a project, in which nothing may be found.
fn test_and_simulate(folder: &Path, name: &str, wasm: &str) {
    let size = std::fs::metadata(folder.join(wasm)).expect("built").len();
    let is_simulated = !cfg!(debug_assertions) || size <= MAX_SIMULATED_SIZE;
    let flags: &[&str] = if is_simulated { &["--sim-seeds", SIMULATED_RUNS] } else { &["--no-sim"] };
    let output = pilothouse(folder, &[&["test", wasm, "--cache-dir", CACHE][..], flags].concat());
    if is_simulated {
        let printed = String::from_utf8_lossy(&output.stdout);
        let line = format!("pass  simulation recreation ({SIMULATED_RUNS} runs, ");
        assert!(printed.contains(&line), "{name}: {line:?} is not in\n{printed}");
    }
}

/// Waits until the Deployment exists and satisfies the predicate.
async fn wait_for_deployment(host: &Host, condition: &str, predicate: impl Fn(&Value) -> bool) -> Value {
    let path = host.server.path("/apis/apps/v1", "deployments", "example-foo");
    host.wait(condition, || async {
        let found = host.server.get(&path).await;
        (found.is_object() && predicate(&found)).then_some(found)
    })
    .await
}

async fn test_template(language: Language) {
    let language = language.name();
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("made-in-{language}");
    let (_, crds) = build_template(folder.path(), language, "empty", &["--empty"]);
    assert_eq!(crds, serde_json::json!([]), "{language}");
    let (wasm, crds) = build_template(folder.path(), language, &name, &[]);
    // The full name, because a cluster may have a Foo of another group.
    let foos = format!("foos.{name}.example.com");
    assert_eq!(crds, serde_json::json!([foos]), "{language}");

    let host = Host::start().await;
    host.write_sidecar(&name, "grants: {crds: true}\n");
    host.install_plugin(&name, &std::fs::read(wasm).expect("built"));
    host.wait_for_state(&name, "running").await;
    let example =
        std::fs::read_to_string(folder.path().join(&name).join("manifests/foo.yaml")).expect("an example");
    // The test has its own namespace.
    let example = example.replace("  namespace: default\n", "");
    let server = &host.server;
    if server.kubectl_with(&["apply", "-f", "-"], &example).is_none() {
        return;
    }
    let made = wait_for_deployment(&host, "the Deployment", |_| true).await;
    assert_eq!(made["spec"]["replicas"], 1, "{language}");
    assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "Foo", "{language}");
    assert_eq!(made["metadata"]["ownerReferences"][0]["controller"], true, "{language}");

    server.kubectl(&["delete", "deployment", "example-foo"]);
    wait_for_deployment(&host, "another Deployment", |found| {
        found["metadata"]["uid"] != made["metadata"]["uid"]
    })
    .await;
    server.kubectl(&["patch", &foos, "example-foo", "--type", "merge", "-p", r#"{"spec":{"replicas":3}}"#]);
    wait_for_deployment(&host, "3 replicas", |found| found["spec"]["replicas"] == 3).await;
    server.kubectl(&["scale", "deployment", "example-foo", "--replicas", "5"]);
    wait_for_deployment(&host, "repaired replicas", |found| {
        found["spec"]["replicas"] == 3
            && found["metadata"]["generation"].as_u64() > made["metadata"]["generation"].as_u64()
    })
    .await;
    if !server.skip_without_nodes().await {
        server.kubectl(&[
            "wait",
            &format!("{foos}/example-foo"),
            "--for=jsonpath={.status.availableReplicas}=3",
            "--timeout=300s",
        ]);
    }
    server.kubectl(&["delete", &foos, "example-foo"]);
    server.kubectl(&["wait", "deployment/example-foo", "--for=delete", "--timeout=300s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_template_works() {
    test_template(Language::Rust).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_template_works() {
    test_template(Language::Js).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_template_works() {
    test_template(Language::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_go_template_works() {
    test_template(Language::Go).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_c_template_works() {
    test_template(Language::C).await;
}
