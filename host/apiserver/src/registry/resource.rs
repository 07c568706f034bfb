use std::sync::Arc;

use serde_json::Value;

use crate::storage::{Draft, Table};

/// A resource as it is stored. One or several endpoints serve it.
#[derive(Debug)]
pub(crate) struct Resource {
    /// The group that it is stored under, empty for core.
    pub group: String,
    pub names: Names,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Field paths, besides `metadata.name` and `metadata.namespace`, that field selectors may use.
    pub selectable: Vec<String>,
    pub rules: Rules,
    /// The CRD that defines it, if it is a custom resource.
    pub custom: Option<Custom>,
    pub table: Arc<Table>,
}

/// How a resource is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short: Vec<String>,
    pub categories: Vec<String>,
}

/// In what the kinds' registry strategies of Kubernetes differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// PUT creates what is not there (`AllowCreateOnUpdate`).
    pub create_on_update: bool,
    /// PUT needs a resourceVersion (`AllowUnconditionalUpdate` is false).
    pub conditional_update: bool,
    /// `metadata.generation` counts changes of the specification.
    pub generation: bool,
    /// Objects are answers to questions and are not kept.
    pub review: bool,
    /// A deletion that does not say otherwise orphans the dependents.
    pub orphans_by_default: bool,
    /// A deletion answers with the object rather than a Status.
    pub returns_deleted: bool,
}

/// What is only known of custom resources.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    /// The CRD's name.
    pub crd: String,
    /// Whether the CRD is being deleted.
    pub terminating: bool,
}

impl Resource {
    /// Prepares an object for its table.
    pub(crate) fn draft(&self, value: Value) -> Draft {
        let fields = self.selectable.iter().map(|path| select(&value, path).into_boxed_str()).collect();
        Draft { value, fields }
    }
}

/// The text that a field selector compares: "" for what is absent, as Go's zero values print.
pub(crate) fn select(value: &Value, path: &str) -> String {
    let mut found = value;
    for part in path.split('.') {
        found = &found[part];
    }
    match found {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => found.to_string(),
        // The selectable flags and counters of built-in kinds are never absent in Go.
        _ if path == "spec.unschedulable" || path == "spec.hostNetwork" => "false".into(),
        _ if path == "status.successful" || path == "status.replicas" => "0".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selected_fields_are_text() {
        let pod = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        assert_eq!(select(&pod, "spec.nodeName"), "n");
        assert_eq!(select(&pod, "spec.hostNetwork"), "false");
        assert_eq!(select(&pod, "spec.restartPolicy"), "");
    }
}
