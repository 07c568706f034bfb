//! Guarantees of the C SDK that can only be tested with a real instance.

use serde_json::{Value, json};

use crate::harness::Host;

const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target/guests/acceptance-c.wasm");

/// The C SDK frees a call's memory when the call ends. Memory that the WASI adapter allocated during the call must be excluded, because
/// the adapter keeps using it.
#[tokio::test(flavor = "multi_thread")]
async fn memory_of_the_wasi_adapter_is_not_freed_after_a_call() {
    let host = Host::start().await;
    let wasm = std::fs::read(GUEST).unwrap_or_else(|error| {
        panic!("{GUEST}: {error}; run `cargo xtask build-guests acceptance-c`");
    });
    host.write_sidecar("acceptance-c", "workers: 1\n");
    host.install_plugin("acceptance-c", &wasm);
    host.wait_for_state("acceptance-c", "running").await;
    for round in 0..5 {
        let manifest = json!({
            "metadata": {"name": format!("round{round}"), "labels": {"test": "acceptance"}},
            "data": {"op": "scribble", "a": format!("{round}")},
        });
        let script = serde_json::from_value(manifest).expect("a config map");
        let made = host.server.config_maps().create(&kube::api::PostParams::default(), &script).await;
        made.expect("created");
        host.wait_for_message("acceptance-c", &format!("after {round}"), 1).await;
    }
    let plugin = host.plugin("acceptance-c").await;
    let traps: Value = plugin["counters"]["traps"].clone();
    assert_eq!((&plugin["counters"]["errors"], traps), (&json!(0), json!(0)), "{plugin:#}");
}
