//! The sandbox: a plugin has no access to the host's machine, to other plugins, or to the cluster beyond its grants.

mod cluster;
mod machine;
mod other_plugins;

use serde_json::{Value, json};

use crate::harness::Host;

/// Returns a sidecar for a guest that uses its `config` as its descriptor. The descriptor has one watch, on ConfigMaps with the label
/// `test=sandbox`, with additional members.
fn sidecar(host: &Host, watch: &str, members: &Value) -> String {
    let mut watch = json!({
        "name": watch, "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "test=sandbox",
        "namespaces": [host.server.namespace], "trigger": "self"
    });
    watch.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
    let descriptor = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": [watch]});
    json!({"config": descriptor}).to_string()
}

/// Waits for a line in the plugin's log that contains the text, and returns the line.
async fn wait_for_log(host: &Host, plugin: &str, text: &str) -> String {
    host.wait(&format!("{plugin} to log {text:?}"), || async {
        host.log_messages(plugin).await.into_iter().find(|line| line.contains(text))
    })
    .await
}
