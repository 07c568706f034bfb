//! Create, update and delete.

#[path = "../api/mod.rs"]
mod api;
mod bodies;
mod creations;
mod deletions;
mod kinds;
mod updates;

use serde_json::{Value, json};

fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}
