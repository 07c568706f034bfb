//! A changed file replaces the running version without losing any change of an object.

use crate::harness::{Guest, Host, Options, another_version};

const OBJECTS: usize = 40;
const ROUNDS: u8 = 12;

/// The reload does not requeue all objects in this test. A key that the swap lost would therefore never be reconciled again, and its
/// record would keep an older version than the object has.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_during_a_stream_of_changes_loses_no_event() {
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    let server = &host.server;
    let wasm = Guest::Conformance.wasm();
    host.install_plugin("conformance", &wasm);
    host.wait_for_generation("conformance", 1).await;
    for object in 0..OBJECTS {
        server.create_script(&format!("script-{object}"), &format!("copy:record-{object}")).await;
    }
    for round in 0..ROUNDS {
        // Installs the new file in the middle of the changes, at another position in each round.
        let position = usize::from(round) * OBJECTS / usize::from(ROUNDS);
        for object in 0..OBJECTS {
            if object == position {
                host.install_plugin("conformance", &another_version(&wasm, round));
            }
            server.set_data(&format!("script-{object}"), "round", &round.to_string()).await;
        }
        host.wait_for_generation("conformance", u64::from(round) + 2).await;
    }
    for object in 0..OBJECTS {
        let name = format!("script-{object}");
        let script = server.config_maps().get(&name).await.expect("it is there");
        let last = script.metadata.resource_version.expect("a version");
        let condition = format!("a reconcile of {name} at version {last}");
        host.wait(&condition, || async {
            (server.data(&format!("record-{object}")).await.get("resourceVersion") == Some(&last))
                .then_some(())
        })
        .await;
    }
    let plugin = host.plugin("conformance").await;
    assert_eq!(plugin["counters"]["errors"], 0, "{plugin:#}");
    assert_eq!(plugin["counters"]["loads"], u64::from(ROUNDS) + 1, "{plugin:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_keys_survive_a_reload() {
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    let server = &host.server;
    let wasm = Guest::Conformance.wasm();
    host.install_plugin("conformance", &wasm);
    host.wait_for_generation("conformance", 1).await;
    // One key waits for its requeue-after and the other for a retry. Both become due under the new version.
    server.create_script("later", "copy:later-record\nrequeue:3000").await;
    server.create_script("again", "copy:again-record\nretry-until:8").await;
    for record in ["later-record", "again-record"] {
        host.wait(record, || async { server.data(record).await.contains_key("attempt").then_some(()) }).await;
    }
    host.install_plugin("conformance", &another_version(&wasm, 2));
    host.wait_for_generation("conformance", 2).await;
    host.wait("the retries by the new version", || async {
        (server.data("again-record").await.get("attempt").map(String::as_str) == Some("8")).then_some(())
    })
    .await;
    host.wait("the requeue", || async {
        server
            .data("later-record")
            .await
            .get("reasons")
            .is_some_and(|reasons| reasons.contains("requeue"))
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_starts_the_backoff_of_failing_keys_again() {
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    let wasm = Guest::Conformance.wasm();
    host.install_plugin("conformance", &wasm);
    host.wait_for_generation("conformance", 1).await;
    host.server.create_script("one", "copy:record\nretry:never").await;
    let attempt = async || host.server.data("record").await.get("attempt")?.parse::<u32>().ok();
    host.wait("eleven attempts", || async { attempt().await.filter(|attempt| *attempt >= 11) }).await;
    host.install_plugin("conformance", &another_version(&wasm, 2));
    host.wait_for_generation("conformance", 2).await;
    // The old backoff would continue with greater numbers.
    host.wait("a first attempt of the new version", || async {
        attempt().await.filter(|attempt| *attempt < 11)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_requeues_every_object() {
    let host = Host::start().await;
    let wasm = Guest::Conformance.wasm();
    host.install_plugin("conformance", &wasm);
    host.wait_for_generation("conformance", 1).await;
    for object in 0..5 {
        host.server.create_script(&format!("script-{object}"), "").await;
    }
    let before = host
        .wait_for_plugin("conformance", "five reconciles", |plugin| {
            plugin["counters"]["reconciles"].as_u64() >= Some(5)
        })
        .await;
    host.install_plugin("conformance", &another_version(&wasm, 2));
    let expected = before["counters"]["reconciles"].as_u64().expect("a count") + 5;
    host.wait_for_plugin("conformance", "five more reconciles", |plugin| {
        plugin["counters"]["reconciles"].as_u64() >= Some(expected)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_sidecar_reloads_the_plugin() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_generation("conformance", 1).await;
    host.write_sidecar("conformance", "workers: 3\n");
    host.wait_for_generation("conformance", 2).await;
    let (_, metrics) = host.get("/metrics").await;
    assert!(
        metrics.contains("controller_runtime_max_concurrent_reconciles{controller=\"conformance\"} 3"),
        "{metrics}"
    );
    host.write_sidecar("conformance", "enabled: false\n");
    host.wait_for_state("conformance", "stopped").await;
    host.write_sidecar("conformance", "enabled: true\n");
    host.wait_for_state("conformance", "running").await;
}
