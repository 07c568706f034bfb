//! `grants.watches` in the sidecar: a watch without a grant is not opened, and only its plugin waits.

use serde_json::{Value, json};

use super::cluster::expect_waiting;
use crate::harness::{Guest, Host};

fn granting(namespaces: &Value) -> String {
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "namespaces": namespaces});
    json!({"grants": {"watches": [rule]}}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_waits_for_its_grant_and_is_limited_to_it() {
    let host = Host::start().await;
    let wasm = Guest::Conformance.wasm();
    let namespace = host.server.namespace.as_str();
    let secrets = json!({"grants": {"watches": [{"apiGroups": [""], "resources": ["secrets"]}]}}).to_string();
    host.write_sidecar("narrow", &secrets);
    host.install_plugin("narrow", &wasm);
    let rule = "{\"apiGroups\":[\"\"],\"resources\":[\"configmaps\"]}";
    let lacks = ["watch \"scripts\" is not granted", rule, "the grants.watches of narrow.yaml"];
    expect_waiting(&host, "narrow", &lacks).await;

    host.write_sidecar("narrow", &granting(&json!(["nowhere"])));
    host.wait_for_generation("narrow", 1).await;
    host.server.create_script("one", "copy:record").await;
    host.write_sidecar("narrow", &granting(&json!([namespace])));
    host.wait_for_generation("narrow", 2).await;
    let recorded = async |name: &str| host.server.data(name).await.contains_key("version").then_some(());
    host.wait("the record", || recorded("record")).await;

    // Revoking a grant takes effect at once, although the new version cannot run without it.
    host.write_sidecar("narrow", &secrets);
    expect_waiting(&host, "narrow", &lacks).await;
    let made = host.server.create_script("two", "copy:second").await;
    let version = made.metadata.resource_version.expect("a version");
    // Another plugin reconciles the object, and the waiting plugin does not.
    host.write_sidecar("free", &json!({"grants": {"writes": []}}).to_string());
    host.install_plugin("free", &wasm);
    host.wait("the other plugin to see it", || async {
        let log = String::from_utf8(host.pilothouse(&["logs", "free"]).stdout).expect("text");
        log.lines().any(|line| line.contains(": reconcile") && line.contains(&version)).then_some(())
    })
    .await;
    assert_eq!(host.plugin("narrow").await["generation"], 2);
    assert_eq!(recorded("second").await, None);
    host.write_sidecar("narrow", &granting(&json!([namespace])));
    host.wait_for_state("narrow", "running").await;
    host.wait("the second record", || recorded("second")).await;
    assert_eq!(host.plugin("narrow").await["generation"], 2, "the version that was suspended continues");
}
