//! The operator revokes permissions, and the plugin tries to keep them.

use serde_json::json;

use super::{Attack, HostUnderAttack};

/// Returns an attack by a plugin that keeps writing.
fn writer(name: &'static str) -> Attack {
    let write = json!({
        "do": "client.patch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "{namespace}",
        "name": format!("{name}-record"), "form": "apply",
        "body": json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("{name}-record"), "namespace": "{namespace}"}
        }).to_string()
    });
    Attack::new(name).script(json!([write, {"do": "requeue", "milliseconds": 20}]))
}

/// Asserts that a writing plugin stops when its sidecar is replaced, although the new version cannot be loaded.
async fn assert_writes_stop(name: &'static str, sidecar: impl FnOnce(&Attack, &str) -> String) {
    let mut target = HostUnderAttack::start().await;
    let attack = writer(name);
    attack.start(&target.host).await;
    target.host.wait_for_message(name, "client.patch: ok", 3).await;
    target.host.write_sidecar(name, &sidecar(&attack, &target.host.server.namespace));
    // The plugin may be held or its writes denied, but no further write may succeed.
    let last_write = |messages: &[String]| messages.iter().rposition(|line| line == "client.patch: ok");
    target
        .host
        .wait(&format!("{name} to stop writing"), || async {
            let plugin = target.host.plugin(name).await;
            let error = plugin["error"].as_str().unwrap_or_default().to_owned();
            let messages = target.host.log_messages(name).await;
            let is_denied =
                messages.last().is_some_and(|line| line.contains("denied") || line.starts_with("done"))
                    && messages.iter().any(|line| line.contains("client.patch: denied"));
            (is_denied || (!error.is_empty() && plugin["state"] != "running")).then_some(())
        })
        .await;
    let before = last_write(&target.host.log_messages(name).await);
    for _ in 0..10 {
        target.assert_healthy(name).await;
    }
    let after = last_write(&target.host.log_messages(name).await);
    assert_eq!(after, before, "{name} wrote after its permissions were revoked");
    let plugin = target.host.plugin(name).await;
    assert!(plugin["error"].as_str().is_some_and(|error| !error.is_empty()), "{plugin:#}");
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn narrowed_grants_apply_even_if_describe_of_the_new_version_fails() {
    assert_writes_stop("fails-describe", |attack, namespace| {
        let mut sidecar: serde_json::Value =
            serde_json::from_str(&attack.sidecar_text(namespace)).expect("JSON");
        sidecar["grants"] = json!({"writes": []});
        sidecar["config"]["inDescribe"] = json!([{"do": "fail", "message": "not today"}]);
        sidecar.to_string()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn narrowed_grants_apply_even_if_the_new_version_traps_in_describe() {
    assert_writes_stop("traps-describe", |attack, namespace| {
        let mut sidecar: serde_json::Value =
            serde_json::from_str(&attack.sidecar_text(namespace)).expect("JSON");
        sidecar["grants"] = json!({"writes": []});
        sidecar["config"]["inDescribe"] = json!([{"do": "trap"}]);
        sidecar.to_string()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_cannot_be_read_grants_nothing() {
    assert_writes_stop("broken-sidecar", |_, _| "grants: {writes: [\n".to_owned()).await;
}
