//! The healthy plugin that runs next to every attack.

use serde_json::json;

use crate::harness::{Guest, Host};

/// A plugin that copies an object's resource version into another object whenever the object changes.
pub(super) struct HealthyPlugin {
    round: usize,
}

impl HealthyPlugin {
    /// Starts the plugin and waits for its first reconcile.
    pub(super) async fn start(host: &Host) -> Self {
        host.install_plugin("healthy", &Guest::Conformance.wasm());
        host.wait_for_state("healthy", "running").await;
        host.server.create_script("one", "copy:one-record").await;
        let mut plugin = Self { round: 0 };
        plugin.run_round(host, "nothing").await;
        plugin
    }

    /// Changes the plugin's object and waits until the plugin has reconciled it.
    pub(super) async fn run_round(&mut self, host: &Host, attack: &str) {
        self.round += 1;
        let changed = host.server.set_data("one", "round", &self.round.to_string()).await;
        let version = changed.metadata.resource_version.expect("a version");
        host.wait(&format!("the healthy plugin to reconcile during {attack}"), || async {
            (host.server.data("one-record").await.get("resourceVersion") == Some(&version)).then_some(())
        })
        .await;
    }

    /// Asserts that the plugin is running and has had no errors.
    pub(super) async fn assert_unaffected(&self, host: &Host) {
        let healthy = host.plugin("healthy").await;
        let errors = &healthy["counters"]["errors"];
        assert_eq!((&healthy["state"], errors), (&json!("running"), &json!(0)), "{healthy:#}");
    }
}
