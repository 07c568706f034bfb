//! Stored resources: their names, their registry strategy and the fields that selectors may use.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use super::ServiceAddresses;
use crate::storage::{ObjectDraft, Table};

/// A stored resource of one server. One or several endpoints serve it.
#[derive(Debug)]
pub(crate) struct Resource {
    definition: Arc<ResourceDefinition>,
    /// The addresses of the objects; `None` unless the resource is that of Services.
    pub addresses: Option<ServiceAddresses>,
    pub table: Arc<Table>,
}

/// What a resource is, without its objects.
#[derive(Debug)]
pub(crate) struct ResourceDefinition {
    /// The API group that the objects are stored under, empty for core.
    pub group: String,
    pub names: Names,
    /// Whether the objects are namespaced.
    pub namespaced: bool,
    /// The field paths that field selectors may use, besides `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<String>,
    pub strategy: Strategy,
    /// The CRD that defines the resource; `None` for a built-in one.
    pub custom: Option<CrdInfo>,
}

impl Deref for Resource {
    type Target = ResourceDefinition;

    fn deref(&self) -> &ResourceDefinition {
        &self.definition
    }
}

/// The names of a resource, as in a CRD's `spec.names`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short: Vec<String>,
    pub categories: Vec<String>,
}

/// The settings in which the kinds' registry strategies differ (`k8s.io/kubernetes/pkg/registry/*/*/strategy.go`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Strategy {
    /// PUT creates an object that does not exist (`AllowCreateOnUpdate`).
    pub create_on_update: bool,
    /// PUT requires a resourceVersion (`AllowUnconditionalUpdate` is false).
    pub conditional_update: bool,
    /// `metadata.generation` counts changes of the spec.
    pub tracks_generation: bool,
    /// The kind is a review, such as SubjectAccessReview, or a Binding: objects can only be created and are not stored.
    pub is_review: bool,
    /// A deletion without a propagation policy orphans the dependents.
    pub orphans_by_default: bool,
    /// A deletion returns the deleted object rather than a Status.
    pub returns_deleted: bool,
    /// Objects can only be read, with `get` and `list`.
    pub is_read_only: bool,
}

/// The CRD that defines a custom resource.
#[derive(Clone, Debug)]
pub(crate) struct CrdInfo {
    /// The name of the CRD.
    pub crd: String,
    /// Whether the CRD is being deleted.
    pub terminating: bool,
    /// The `apiVersion` that objects are stored in.
    pub storage_version: String,
    /// Identifies the specification and the names with which the resource is served.
    pub definition: u64,
}

impl Resource {
    /// Creates a resource whose objects are in `table`.
    pub(crate) fn new(definition: Arc<ResourceDefinition>, table: Arc<Table>) -> Self {
        let has_addresses = definition.group.is_empty() && definition.names.plural == "services";
        Self { addresses: has_addresses.then(ServiceAddresses::default), definition, table }
    }

    /// Creates the draft of an object that is to be stored, with the values of its selectable fields.
    pub(crate) fn draft(&self, mut value: Value) -> ObjectDraft {
        // Built-in kinds are always stored in the same version.
        if self.custom.is_none()
            && let Some(object) = value.as_object_mut()
        {
            object.remove("apiVersion");
        }
        let fields =
            self.selectable.iter().map(|path| field_selector_value(&value, path).into_boxed_str()).collect();
        ObjectDraft { value, fields, schema: 0 }
    }
}

/// Returns the text that a field selector compares. An absent field has the text of Go's zero value.
pub(crate) fn field_selector_value(value: &Value, path: &str) -> String {
    let mut field = value;
    for name in path.split('.') {
        field = &field[name];
    }
    match field {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => field.to_string(),
        // These fields of built-in kinds are plain bools and integers in Go, so they are never absent there.
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
    fn absent_selectable_fields_have_gos_zero_value() {
        let pod = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        assert_eq!(field_selector_value(&pod, "spec.nodeName"), "n");
        assert_eq!(field_selector_value(&pod, "spec.hostNetwork"), "false");
        assert_eq!(field_selector_value(&pod, "spec.restartPolicy"), "");
    }
}
