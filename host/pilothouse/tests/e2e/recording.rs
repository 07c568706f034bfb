//! `--record` writes what reconciles read and do, without Secrets, and a recording replays without a difference.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, PostParams};
use pilothouse_controller::limits::SidecarLimits;
use pilothouse_controller::recording::{RecordedReconcile, RecordingReader, Replayed, Replayer};
use pilothouse_plugin::{Engine, EngineOptions};
use serde_json::json;

use crate::harness::{Guest, Host, Options, binary, wat};

/// Starts a host that records in this folder.
async fn start(folder: &Path, options: &str) -> Host {
    // A few bytes for each test.
    let flag: &'static str = Box::leak(format!("{}{options}", folder.display()).into_boxed_str());
    Host::start_with(Options { flags: vec!["--record", flag], ..Options::default() }).await
}

/// Runs `secret-replicator` with a Secret until it has copied that, and stops the host.
async fn replicate(host: Host) {
    let target = format!("{}-a", host.server.namespace);
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": target}})).expect("a namespace");
    let namespaces = Api::<Namespace>::all(host.server.client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.expect("created");
    host.install_plugin("secret-replicator", &Guest::SecretReplicator.wasm());
    host.wait_for_state("secret-replicator", "running").await;
    let secrets = |namespace: &str| Api::<Secret>::namespaced(host.server.client.clone(), namespace);
    let manifest = json!({
        "metadata": {"name": "token", "annotations": {"replicator.example.com/to": target}},
        "stringData": {"token": "swordfish"},
    });
    let source: Secret = serde_json::from_value(manifest).expect("a secret");
    secrets(&host.server.namespace).create(&PostParams::default(), &source).await.expect("created");
    let copies = secrets(&target);
    host.wait("the copy", || async {
        let copy = copies.get_opt("token").await.expect("answered")?;
        (copy.data?.get("token")?.0 == b"swordfish").then_some(())
    })
    .await;
    assert!(host.terminate().await.success());
}

/// Returns the files of the plugin's recording, the oldest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("secret-replicator")).expect("a recording");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn writes(reconcile: &RecordedReconcile) -> bool {
    let writes = ["client.create", "client.update", "client.patch"];
    reconcile.calls.iter().any(|call| writes.contains(&call.function.as_str()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_has_no_secrets_and_replays_without_a_difference() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = start(folder.path(), "").await;
    if host.server.skip_if_external("the test creates namespaces") {
        return;
    }
    replicate(host).await;
    let plugin = folder.path().join("secret-replicator.wasm");
    fs::write(&plugin, Guest::SecretReplicator.wasm()).expect("written");
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let (mut with_writes, limits) = (0, SidecarLimits::default());
    for file in files(folder.path()) {
        let text = fs::read_to_string(&file).expect("a recording");
        // The value, and its Base64.
        assert!(!text.contains("swordfish") && !text.contains("c3dvcmRmaXNo"), "{text}");
        let mut reader = RecordingReader::open(&file).expect("a recording");
        let head = reader.head().clone();
        let replayer = Replayer::load(&engine, &plugin, &limits, &head).await.expect("a plugin");
        assert_eq!(replayer.digest(), head.digest);
        while let Some(reconcile) = reader.next_reconcile().expect("a reconcile") {
            let replayed = replayer.replay(&head, &reconcile).await.expect("a replay");
            assert!(matches!(replayed, Replayed::Equal { .. }), "{reconcile:?}: {replayed:?}");
            with_writes += u32::from(writes(&reconcile));
        }
    }
    assert!(with_writes > 0, "no reconcile with a write was recorded");
}

/// Runs `sim --recording` with a plugin's file. Returns the exit code, standard output and standard error.
fn sim(plugin: &Path, recording: &Path) -> (Option<i32>, String, String) {
    let output =
        binary().arg("sim").arg(plugin).arg("--recording").arg(recording).output().expect("the command runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn sim_replays_a_recording_and_shows_the_first_difference() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = start(folder.path(), "").await;
    if host.server.skip_if_external("the test creates namespaces") {
        return;
    }
    replicate(host).await;
    let recording = folder.path().join("secret-replicator");
    let write = |name: &str, wasm: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, wasm).expect("written");
        path
    };
    let same = write("same.wasm", &Guest::SecretReplicator.wasm());
    // The host was killed before it had written the head.
    let incomplete = recording.join("00000000.jsonl");
    fs::write(&incomplete, "").expect("written");
    let (code, output, errors) = sim(&same, &recording);
    assert_eq!(code, Some(0), "{output}{errors}");
    assert!(
        output.contains("recorded with the same version") && output.contains("reconciles are equal"),
        "{output}"
    );
    assert!(output.contains("00000000.jsonl: skipped, because its first line is not complete"), "{output}");
    let (code, _, errors) = sim(&same, &incomplete);
    assert!(code == Some(2) && errors.contains("there is no complete line"), "{errors}");

    let other = write("other.wasm", &wat("done"));
    let (code, output, errors) = sim(&other, &recording);
    assert_eq!(code, Some(1), "{output}{errors}");
    for expected in ["DIFFERS", "  recorded  cache.get", "  replayed  returns \"done\""] {
        assert!(output.contains(expected), "{expected}: {output}");
    }

    let (code, _, errors) = sim(&other, &folder.path().join("none"));
    assert!(code == Some(2) && errors.contains("--recording"), "{errors}");
    let (code, _, errors) = sim(&other, &other);
    assert!(code == Some(2) && errors.contains("pilothouse.dev/recording/v1"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_recorded_as_they_are_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = start(folder.path(), ",secrets=plain").await;
    if host.server.skip_if_external("the test creates namespaces") {
        return;
    }
    replicate(host).await;
    let is_plain = |file: &PathBuf| fs::read_to_string(file).expect("a recording").contains("c3dvcmRmaXNo");
    assert!(files(folder.path()).iter().any(is_plain));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_last_reconciles_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = start(folder.path(), ",last=1").await;
    if host.server.skip_if_external("the test creates namespaces") {
        return;
    }
    replicate(host).await;
    let lines: usize = files(folder.path())
        .iter()
        .map(|file| fs::read_to_string(file).expect("a recording").lines().count())
        .sum();
    assert_eq!(lines, 2, "a head and a reconcile");
}
