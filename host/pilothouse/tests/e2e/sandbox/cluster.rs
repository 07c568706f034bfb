//! Verbs and namespaces beyond the grant.

use super::is_said;
use crate::harness::{Guest, Host};

fn grant(verbs: &str, namespace: &str) -> String {
    format!(
        "grants: {{writes: [{{apiGroups: [''], resources: [configmaps], verbs: [{verbs}], namespaces: [{namespace}]}}]}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verb_or_a_namespace_beyond_the_grant_is_denied_with_the_missing_rule_and_nothing_is_sent() {
    let host = Host::start().await;
    let namespace = &host.server.namespace;
    host.sidecar("verbs", &grant("get, create, update, patch", namespace));
    host.sidecar("places", &grant("'*'", "elsewhere"));
    for name in ["verbs", "places"] {
        host.drop_in(name, &Guest::Conformance.wasm());
        host.wait_for_state(name, "running").await;
    }
    host.server.observed("victim", serde_json::json!({})).await;
    host.server.script("one", "delete:victim").await;
    let need = format!("need delete on configmaps of the core group in {namespace}");
    for name in ["verbs", "places"] {
        is_said(&host, name, &need).await;
    }
    host.server.script("two", "copy:record").await;
    is_said(&host, "places", &format!("on configmaps of the core group in {namespace}")).await;
    // What is granted is done.
    host.wait("the copy", || async {
        host.server.data("record").await.contains_key("version").then_some(())
    })
    .await;
    assert!(host.server.config_maps().get_opt("victim").await.expect("answered").is_some(), "it was deleted");
}
