//! Objects of all common kinds, from which the bodies of requests are made.

use std::sync::LazyLock;

use serde_json::Value;

/// A resource, and an object of it that the server accepts.
pub(crate) struct Sample {
    pub api_version: String,
    pub plural: String,
    pub is_namespaced: bool,
    pub subresources: Vec<String>,
    pub object: Value,
}

pub(crate) struct Samples {
    pub resources: Vec<Sample>,
    /// Bodies of requests for subresources, such as evictions.
    pub subresource_bodies: Vec<Value>,
}

impl Sample {
    /// Returns the path of the collection; `namespace` is ignored if the resource has none.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let (version, plural) = (&self.api_version, &self.plural);
        if self.is_namespaced && !namespace.is_empty() {
            format!("/{root}/{version}/namespaces/{namespace}/{plural}")
        } else {
            format!("/{root}/{version}/{plural}")
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().expect("each sample has a name")
    }
}

pub(crate) fn samples() -> &'static Samples {
    static SAMPLES: LazyLock<Samples> = LazyLock::new(|| {
        let document: Value = serde_json::from_str(include_str!("samples.json")).expect("JSON");
        let list = |name: &str| document[name].as_array().expect("a list").clone();
        Samples {
            resources: list("samples").iter().map(sample).collect(),
            subresource_bodies: list("subresourceBodies"),
        }
    });
    &SAMPLES
}

fn sample(row: &Value) -> Sample {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    Sample {
        api_version: text(&row["apiVersion"]),
        plural: text(&row["plural"]),
        is_namespaced: row["namespaced"] == true,
        subresources: row["subresources"].as_array().expect("a list").iter().map(text).collect(),
        object: row["object"].clone(),
    }
}
