//! The healthy plugin that runs beside every attack.

use serde_json::json;

use crate::harness::{Guest, Host};

/// A plugin that copies the version of an object into another, as often as the object changes.
pub(super) struct HealthyPlugin {
    round: usize,
}

impl HealthyPlugin {
    /// Starts it, and waits for its first piece of work.
    pub(super) async fn start(host: &Host) -> Self {
        host.install_plugin("healthy", &Guest::Conformance.wasm());
        host.wait_for_state("healthy", "running").await;
        host.server.create_script("one", "copy:one-record").await;
        let mut neighbour = Self { round: 0 };
        neighbour.works(host, "nothing").await;
        neighbour
    }

    /// Changes its object, and waits until it has done its work.
    pub(super) async fn works(&mut self, host: &Host, beside: &str) {
        self.round += 1;
        let changed = host.server.set_data("one", "round", &self.round.to_string()).await;
        let version = changed.metadata.resource_version.expect("a version");
        host.wait(&format!("the healthy plugin to reconcile beside {beside}"), || async {
            (host.server.data("one-record").await.get("resourceVersion") == Some(&version)).then_some(())
        })
        .await;
    }

    /// Asserts that nothing that it did has failed.
    pub(super) async fn is_unharmed(&self, host: &Host) {
        let healthy = host.plugin("healthy").await;
        let errors = &healthy["counters"]["errors"];
        assert_eq!((&healthy["state"], errors), (&json!("running"), &json!(0)), "{healthy:#}");
    }
}
