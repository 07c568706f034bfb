//! Rights that the operator takes away, and a plugin that wants to keep them.

use serde_json::json;

use super::{Arena, Attack};

/// A plugin that writes again and again, and whose new version cannot be loaded.
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

async fn is_stopped_by(name: &'static str, sidecar: impl FnOnce(&Attack, &str) -> String) {
    let mut arena = Arena::start().await;
    let attack = writer(name);
    attack.begin(&arena.host).await;
    arena.host.wait_for_message(name, "client.patch: ok", 3).await;
    arena.host.write_sidecar(name, &sidecar(&attack, &arena.host.server.namespace));
    // Held, or refused: what must not happen is that writes go on.
    let stopped = |said: &[String]| said.iter().rposition(|line| line == "client.patch: ok");
    arena
        .host
        .wait(&format!("{name} to write no more"), || async {
            let plugin = arena.host.plugin(name).await;
            let error = plugin["error"].as_str().unwrap_or_default().to_owned();
            let said = arena.host.log_messages(name).await;
            let is_refused =
                said.last().is_some_and(|line| line.contains("denied") || line.starts_with("done"))
                    && said.iter().any(|line| line.contains("client.patch: denied"));
            (is_refused || (!error.is_empty() && plugin["state"] != "running")).then_some(())
        })
        .await;
    let before = stopped(&arena.host.log_messages(name).await);
    for _ in 0..10 {
        arena.goes_on(name).await;
    }
    assert_eq!(stopped(&arena.host.log_messages(name).await), before, "{name} wrote after its rights were gone");
    let plugin = arena.host.plugin(name).await;
    assert!(plugin["error"].as_str().is_some_and(|error| !error.is_empty()), "{plugin:#}");
    arena.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn narrowed_grants_apply_even_if_describe_of_the_new_version_fails() {
    is_stopped_by("fails-describe", |attack, namespace| {
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
    is_stopped_by("traps-describe", |attack, namespace| {
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
    is_stopped_by("broken-sidecar", |_, _| "grants: {writes: [\n".to_owned()).await;
}
