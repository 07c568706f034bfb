//! A file that cannot run leaves what ran running, and says so: in the log, in the status, in one line.

use std::fs;

use serde_json::Value;

use crate::harness::{Guest, Host, wat};

/// What the host must say of a file, as the reason in the status and as a line of the log.
async fn is_refused(host: &Host, wasm: &[u8], reason: &str) {
    let refused = |plugin: &Value| plugin["counters"]["refusedLoads"].as_u64().expect("a count");
    let before = refused(&host.plugin("conformance").await);
    fs::write(host.plugins().join("conformance.wasm"), wasm).expect("written");
    let plugin = host
        .wait_for_plugin("conformance", reason, |plugin| {
            refused(plugin) > before && plugin["error"].as_str().is_some_and(|error| error.contains(reason))
        })
        .await;
    assert_eq!(
        (&plugin["state"], &plugin["generation"]),
        (&Value::from("running"), &Value::from(1)),
        "{plugin:#}"
    );
    assert!(!plugin["error"].as_str().unwrap_or_default().contains('\n'), "{plugin:#}");
    assert!(plugin["error"].as_str().unwrap_or_default().contains("generation 1 goes on"), "{plugin:#}");
    let says = |line: &str| line.contains("the version that runs goes on") && line.contains(reason);
    host.wait("the line in the log", || async { host.log().lines().any(says).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_goes_on_after_every_kind_of_bad_file() {
    let host = Host::start().await;
    let good = Guest::Conformance.wasm();
    host.drop_in("conformance", &good);
    host.wait_for_generation("conformance", 1).await;
    for (wasm, reason) in [
        (&good[..good.len() / 2], "ends early"),
        (b"".as_slice(), "the file is empty"),
        (b"#!/bin/sh\necho no\n", "found a script, expected a WebAssembly"),
        (b"\x7fELF\x02\x01\x01", "found an ELF file, which is native code, expected a WebAssembly"),
        (b"\0asm\x01\0\0\0", "expected pilothouse:controller/plugin"),
    ] {
        is_refused(&host, wasm, reason).await;
    }
    host.server.script("still", "copy:still-record").await;
    host.wait("the old version to reconcile", || async {
        host.server.data("still-record").await.contains_key("version").then_some(())
    })
    .await;

    // The good file back in its place is no reload, and takes the complaint away.
    fs::write(host.plugins().join("conformance.wasm"), &good).expect("written");
    host.wait_for_plugin("conformance", "no error", |plugin| {
        plugin["error"] == "" && plugin["generation"] == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_grows_is_not_taken_half_way() {
    use std::io::Write;
    let host = Host::start().await;
    let good = Guest::Conformance.wasm();
    let mut file = fs::File::create(host.plugins().join("conformance.wasm")).expect("made");
    for (number, chunk) in good.chunks(good.len() / 10).enumerate() {
        file.write_all(chunk).expect("written");
        // Longer than a scan, and now and then longer than the settling time: it is open all the while.
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
async fn a_bad_plugin_does_not_keep_the_others_from_starting() {
    let host = Host::start().await;
    host.drop_in("broken", b"nothing of the kind");
    host.drop_in("Not_A_Label", &wat("done"));
    host.sidecar("confused", "workers: none\n");
    host.drop_in("confused", &wat("done"));
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    let broken = host.wait_for_state("broken", "failed").await;
    assert!(broken["error"].as_str().unwrap_or_default().contains("expected a WebAssembly"), "{broken:#}");
    let confused = host.wait_for_state("confused", "failed").await;
    let error = confused["error"].as_str().unwrap_or_default();
    assert!(error.contains("confused.yaml") && error.contains("workers"), "{error}");
    let says = |line: &str| line.contains("Not_A_Label.wasm") && line.contains("rename it");
    host.wait("the word about the name", || async { host.log().lines().any(says).then_some(()) }).await;
    let (status, _) = host.get("/readyz").await;
    assert_eq!(status, 200, "a broken plugin does not make the host unready");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_waits_for_its_kind_starts_when_it_comes() {
    let host = Host::start().await;
    if host.server.skips_absent_kinds() {
        return;
    }
    host.sidecar("sample", "grants: {crds: false}\n");
    host.drop_in("sample", &Guest::SampleController.wasm());
    let plugin = host.wait_for_state("sample", "waiting").await;
    let error = plugin["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("does not serve kind \"Foo\"") && error.contains("CustomResourceDefinition"),
        "{error}"
    );
    host.sidecar("sample", "grants: {crds: true}\n");
    host.wait_for_state("sample", "running").await;
}
