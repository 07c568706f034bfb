//! Verbs and namespaces that are not granted.

use super::wait_for_log;
use crate::harness::{Guest, Host};

fn grant(verbs: &str, namespace: &str) -> String {
    format!(
        "grants: {{writes: [{{apiGroups: [''], resources: [configmaps], verbs: [{verbs}], namespaces: [{namespace}]}}]}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verb_or_namespace_beyond_the_grant_is_denied_without_a_request() {
    let host = Host::start().await;
    let namespace = &host.server.namespace;
    host.write_sidecar("verbs", &grant("get, create, update, patch", namespace));
    host.write_sidecar("places", &grant("'*'", "elsewhere"));
    for name in ["verbs", "places"] {
        host.install_plugin(name, &Guest::Conformance.wasm());
        host.wait_for_state(name, "running").await;
    }
    host.server.create_observed("victim", serde_json::json!({})).await;
    host.server.create_script("one", "delete:victim").await;
    let need = format!("need delete on configmaps of the core group in {namespace}");
    for name in ["verbs", "places"] {
        wait_for_log(&host, name, &need).await;
    }
    host.server.create_script("two", "copy:record").await;
    wait_for_log(&host, "places", &format!("on configmaps of the core group in {namespace}")).await;
    // Granted writes succeed.
    host.wait("the copy", || async {
        host.server.data("record").await.contains_key("version").then_some(())
    })
    .await;
    assert!(host.server.config_maps().get_opt("victim").await.expect("answered").is_some(), "it was deleted");
}
