//! What a plugin cannot reach: the machine that the host runs on, the plugins beside it, and the cluster beyond its grants.

mod cluster;
mod machine;
mod neighbours;

use serde_json::{Value, json};

use crate::harness::Host;

/// A sidecar with the descriptor of a guest that describes itself by its config: one watch of the ConfigMaps labelled `test=sandbox`.
fn sidecar(host: &Host, watch: &str, members: &Value) -> String {
    let mut described = json!({
        "name": watch, "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "test=sandbox",
        "namespaces": [host.server.namespace], "trigger": "self"
    });
    described.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
    let descriptor =
        json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": [described]});
    json!({"config": descriptor}).to_string()
}

/// Waits for a line in the plugin's log that has this text.
async fn is_said(host: &Host, plugin: &str, text: &str) -> String {
    host.wait(&format!("{plugin} to say {text:?}"), || async {
        host.said(plugin).await.into_iter().find(|line| line.contains(text))
    })
    .await
}
