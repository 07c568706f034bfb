//! `grants.watches` in the sidecar: what is not granted is not watched, and its plugin waits alone.

use serde_json::{Value, json};

use super::cluster::waiting;
use crate::harness::{Guest, Host};

fn granting(namespaces: &Value) -> String {
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "namespaces": namespaces});
    json!({"grants": {"watches": [rule]}}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_waits_for_its_grant_and_works_as_far_as_that_goes() {
    let host = Host::start().await;
    let wasm = Guest::Conformance.wasm();
    let namespace = host.server.namespace.as_str();
    let secrets = json!({"grants": {"watches": [{"apiGroups": [""], "resources": ["secrets"]}]}}).to_string();
    host.sidecar("narrow", &secrets);
    host.drop_in("narrow", &wasm);
    let rule = "{\"apiGroups\":[\"\"],\"resources\":[\"configmaps\"]}";
    let lacks = ["watch \"scripts\" is not granted", rule, "the grants.watches of narrow.yaml"];
    waiting(&host, "narrow", &lacks).await;

    host.sidecar("narrow", &granting(&json!(["nowhere"])));
    host.wait_for_generation("narrow", 1).await;
    host.server.script("one", "copy:record").await;
    host.sidecar("narrow", &granting(&json!([namespace])));
    host.wait_for_generation("narrow", 2).await;
    let recorded = async |name: &str| host.server.data(name).await.contains_key("version").then_some(());
    host.wait("the record", || recorded("record")).await;

    // What is taken away counts at once, though there is no version yet that could do without.
    host.sidecar("narrow", &secrets);
    waiting(&host, "narrow", &lacks).await;
    let made = host.server.script("two", "copy:second").await;
    let version = made.metadata.resource_version.expect("a version");
    // The other plugin has seen it, and the one that waits has not.
    host.sidecar("free", &json!({"grants": {"writes": []}}).to_string());
    host.drop_in("free", &wasm);
    host.wait("the other plugin to see it", || async {
        let log = String::from_utf8(host.pilothouse(&["logs", "free"]).stdout).expect("text");
        log.lines().any(|line| line.contains(": reconcile") && line.contains(&version)).then_some(())
    })
    .await;
    assert_eq!(host.plugin("narrow").await["generation"], 2);
    assert_eq!(recorded("second").await, None);
    host.sidecar("narrow", &granting(&json!([namespace])));
    host.wait_for_state("narrow", "running").await;
    host.wait("the second record", || recorded("second")).await;
    assert_eq!(host.plugin("narrow").await["generation"], 2, "the version that was held goes on");
}
