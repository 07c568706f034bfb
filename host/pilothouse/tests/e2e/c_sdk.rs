//! What the C SDK promises and only a real instance shows.

use serde_json::{Value, json};

use crate::harness::Host;

const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target/guests/acceptance-c.wasm");

/// A call's memory is freed when it ends. What the WASI adapter took in a call must not be: the next call would overwrite it.
#[tokio::test(flavor = "multi_thread")]
async fn the_wasi_adapters_memory_outlives_a_call() {
    let host = Host::start().await;
    let wasm = std::fs::read(GUEST).unwrap_or_else(|error| {
        panic!("{GUEST}: {error}; run `cargo xtask build-guests acceptance-c`");
    });
    host.sidecar("acceptance-c", "workers: 1\n");
    host.drop_in("acceptance-c", &wasm);
    host.wait_for_state("acceptance-c", "running").await;
    for round in 0..5 {
        let manifest = json!({
            "metadata": {"name": format!("round{round}"), "labels": {"test": "acceptance"}},
            "data": {"op": "scribble", "a": format!("{round}")},
        });
        let script = serde_json::from_value(manifest).expect("a config map");
        let made = host.server.config_maps().create(&kube::api::PostParams::default(), &script).await;
        made.expect("created");
        host.wait_until_said("acceptance-c", &format!("after {round}"), 1).await;
    }
    let plugin = host.plugin("acceptance-c").await;
    let trapped: Value = plugin["counters"]["traps"].clone();
    assert_eq!((&plugin["counters"]["errors"], trapped), (&json!(0), json!(0)), "{plugin:#}");
}
