//! Admission through the REST API: webhooks behind TLS, ValidatingAdmissionPolicies and MutatingAdmissionPolicies.

#[path = "../api/mod.rs"]
mod api;
mod audit;
mod conversion;
mod mutating_policies;
mod policies;
mod server;
mod webhooks;

use serde_json::{Value, json};

/// Returns a ConfigMap.
fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}
