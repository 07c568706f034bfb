//! A changed file replaces the running version, and no change of an object is lost on the way.

use crate::harness::{Guest, Host, Options, another_version};

const OBJECTS: usize = 40;
const ROUNDS: u8 = 12;

/// With the requeue-everything of a reload switched off, a key that the swap lost would never be reconciled again: the
/// record would keep an older version than the object has.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_under_a_stream_of_changes_loses_nothing() {
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    let server = &host.server;
    let wasm = Guest::Conformance.wasm();
    host.drop_in("conformance", &wasm);
    host.wait_for_generation("conformance", 1).await;
    for object in 0..OBJECTS {
        server.script(&format!("script-{object}"), &format!("copy:record-{object}")).await;
    }
    for round in 0..ROUNDS {
        // The new file lands in the middle of the changes, at another place in each round.
        let moment = usize::from(round) * OBJECTS / usize::from(ROUNDS);
        for object in 0..OBJECTS {
            if object == moment {
                host.drop_in("conformance", &another_version(&wasm, round));
            }
            server.set_data(&format!("script-{object}"), "round", &round.to_string()).await;
        }
        host.wait_for_generation("conformance", u64::from(round) + 2).await;
    }
    for object in 0..OBJECTS {
        let name = format!("script-{object}");
        let script = server.config_maps().get(&name).await.expect("it is there");
        let last = script.metadata.resource_version.expect("a version");
        let what = format!("the last reconcile of {name} to have read version {last}");
        host.wait(&what, || async {
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
async fn what_waits_in_the_queue_survives_a_reload() {
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    let server = &host.server;
    let wasm = Guest::Conformance.wasm();
    host.drop_in("conformance", &wasm);
    host.wait_for_generation("conformance", 1).await;
    // One waits for its requeue-after, the other for a retry: both come under the new version.
    server.script("later", "copy:later-record\nrequeue:3000").await;
    server.script("again", "copy:again-record\nretry-until:8").await;
    for record in ["later-record", "again-record"] {
        host.wait(record, || async { server.data(record).await.contains_key("attempt").then_some(()) }).await;
    }
    host.drop_in("conformance", &another_version(&wasm, 2));
    host.wait_for_generation("conformance", 2).await;
    host.wait("the attempts to be counted on", || async {
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
async fn without_the_hook_a_reload_looks_at_every_object_again() {
    let host = Host::start().await;
    let wasm = Guest::Conformance.wasm();
    host.drop_in("conformance", &wasm);
    host.wait_for_generation("conformance", 1).await;
    for object in 0..5 {
        host.server.script(&format!("script-{object}"), "").await;
    }
    let before = host
        .wait_for_plugin("conformance", "five reconciles", |plugin| {
            plugin["counters"]["reconciles"].as_u64() >= Some(5)
        })
        .await;
    host.drop_in("conformance", &another_version(&wasm, 2));
    let wanted = before["counters"]["reconciles"].as_u64().expect("a count") + 5;
    host.wait_for_plugin("conformance", "five more", |plugin| {
        plugin["counters"]["reconciles"].as_u64() >= Some(wanted)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_sidecar_reloads_too() {
    let host = Host::start().await;
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_generation("conformance", 1).await;
    host.sidecar("conformance", "workers: 3\n");
    host.wait_for_generation("conformance", 2).await;
    let (_, metrics) = host.get("/metrics").await;
    assert!(
        metrics.contains("controller_runtime_max_concurrent_reconciles{controller=\"conformance\"} 3"),
        "{metrics}"
    );
    host.sidecar("conformance", "enabled: false\n");
    host.wait_for_state("conformance", "stopped").await;
    host.sidecar("conformance", "enabled: true\n");
    host.wait_for_state("conformance", "running").await;
}
