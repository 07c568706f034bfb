//! A file that cannot be loaded leaves the running version in place and is reported, on one line, in the log and the status.

use std::fs;

use serde_json::Value;

use crate::harness::{Guest, Host, wat};

/// Writes a file and asserts that the host rejects it with `reason` in the status and the log.
async fn assert_rejected(host: &Host, wasm: &[u8], reason: &str) {
    let refused_loads = |plugin: &Value| plugin["counters"]["refusedLoads"].as_u64().expect("a count");
    let before = refused_loads(&host.plugin("conformance").await);
    fs::write(host.plugins().join("conformance.wasm"), wasm).expect("written");
    let plugin = host
        .wait_for_plugin("conformance", reason, |plugin| {
            refused_loads(plugin) > before
                && plugin["error"].as_str().is_some_and(|error| error.contains(reason))
        })
        .await;
    assert_eq!(
        (&plugin["state"], &plugin["generation"]),
        (&Value::from("running"), &Value::from(1)),
        "{plugin:#}"
    );
    assert!(!plugin["error"].as_str().unwrap_or_default().contains('\n'), "{plugin:#}");
    assert!(
        plugin["error"].as_str().unwrap_or_default().contains("generation 1 keeps running"),
        "{plugin:#}"
    );
    let is_report =
        |line: &str| line.contains("the running version stays installed") && line.contains(reason);
    host.wait("the line in the log", || async { host.log().lines().any(is_report).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_running_version_survives_every_kind_of_bad_file() {
    let host = Host::start().await;
    let good = Guest::Conformance.wasm();
    host.install_plugin("conformance", &good);
    host.wait_for_generation("conformance", 1).await;
    for (wasm, reason) in [
        (&good[..good.len() / 2], "ends early"),
        (b"".as_slice(), "the file is empty"),
        (b"#!/bin/sh\necho no\n", "found a script, expected a WebAssembly"),
        (b"\x7fELF\x02\x01\x01", "found an ELF file, which is native code, expected a WebAssembly"),
        (b"\0asm\x01\0\0\0", "expected pilothouse:controller/plugin"),
    ] {
        assert_rejected(&host, wasm, reason).await;
    }
    host.server.create_script("still", "copy:still-record").await;
    host.wait("the old version to reconcile", || async {
        host.server.data("still-record").await.contains_key("version").then_some(())
    })
    .await;

    // Restoring the good file clears the error without a reload.
    fs::write(host.plugins().join("conformance.wasm"), &good).expect("written");
    host.wait_for_plugin("conformance", "no error", |plugin| {
        plugin["error"] == "" && plugin["generation"] == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_not_loaded_while_it_is_being_written() {
    use std::io::Write;
    let host = Host::start().await;
    let good = Guest::Conformance.wasm();
    let mut file = fs::File::create(host.plugins().join("conformance.wasm")).expect("made");
    for (number, chunk) in good.chunks(good.len() / 10).enumerate() {
        file.write_all(chunk).expect("written");
        // Pauses for longer than a scan, and sometimes for longer than the settle time. The file stays open throughout.
        let pause = if number % 4 == 2 { 500 } else { 60 };
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
    }
    drop(file);
    let plugin = host.wait_for_state("conformance", "running").await;
    assert_eq!(
        (&plugin["generation"], &plugin["counters"]["refusedLoads"]),
        (&Value::from(1), &Value::from(0))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_plugin_does_not_stop_others_from_starting() {
    let host = Host::start().await;
    host.install_plugin("broken", b"nothing of the kind");
    host.install_plugin("Not_A_Label", &wat("done"));
    host.write_sidecar("confused", "workers: none\n");
    host.install_plugin("confused", &wat("done"));
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    let broken = host.wait_for_state("broken", "failed").await;
    assert!(broken["error"].as_str().unwrap_or_default().contains("expected a WebAssembly"), "{broken:#}");
    let confused = host.wait_for_state("confused", "failed").await;
    let error = confused["error"].as_str().unwrap_or_default();
    assert!(error.contains("confused.yaml") && error.contains("workers"), "{error}");
    let is_warning = |line: &str| line.contains("Not_A_Label.wasm") && line.contains("rename it");
    host.wait("the warning about the name", || async { host.log().lines().any(is_warning).then_some(()) })
        .await;
    let (status, _) = host.get("/readyz").await;
    assert_eq!(status, 200, "a broken plugin does not make the host unready");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_waiting_for_a_kind_starts_once_it_is_served() {
    let host = Host::start().await;
    if host.server.skip_if_crds_exist() {
        return;
    }
    host.write_sidecar("sample", "grants: {crds: false}\n");
    host.install_plugin("sample", &Guest::SampleController.wasm());
    let plugin = host.wait_for_state("sample", "waiting").await;
    let error = plugin["error"].as_str().unwrap_or_default();
    for part in [
        "does not serve kind \"Foo\"",
        "the plugin brings the CRD \"foos.samplecontroller.k8s.io\"",
        "write `grants: {crds: true}` into sample.yaml",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    host.write_sidecar("sample", "grants: {crds: true}\n");
    host.wait_for_state("sample", "running").await;
}
