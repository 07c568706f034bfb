//! Pruning: removes unknown fields and reports them for `fieldValidation`.

use serde_json::{Map, Value};

use super::node::{AdditionalProperties, Arena, NodeId, SchemaRef, Type};
use super::path::Path;
use super::protobuf::is_value_field;
use super::{Schema, object_meta};
use crate::go;

/// The most unknown fields of a built-in kind that are reported, as in `sigs.k8s.io/json`.
const MAX_UNKNOWN: usize = 100;

const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes unknown fields and returns their paths. Those of a built-in kind have the order of sorted JSON. Of a custom resource, those of the
    /// metadata come first, in that order, and those of the metadata of embedded resources come last; the others are sorted.
    ///
    /// Built-in kinds also lose what a round trip through Go's types loses: `null`, and empty texts, lists and maps, 0 and `false` in optional
    /// fields that are not pointers. Custom resources keep `apiVersion`, `kind` and `metadata` of the object and of embedded resources, and
    /// `x-kubernetes-preserve-unknown-fields` is honoured, as in
    /// `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruner = Pruner::new(self.is_built_in());
        pruner.node(object, Some(self.root()), true, Path::Root);
        pruner.paths()
    }

    /// Removes unknown fields as [`Self::prune`] does. Returns what is wrong with them: `unknown field "spec.foo"`. As in Kubernetes, it is limited
    /// for built-in kinds.
    pub(crate) fn prune_strictly(&self, object: &mut Value) -> Vec<String> {
        let paths = self.prune(object).into_iter();
        if self.is_built_in() {
            return paths
                .take(MAX_UNKNOWN)
                .map(|path| format!("unknown field {}", go::quoted(&path)))
                .collect();
        }
        paths.map(|path| format!("unknown field \"{path}\"")).collect()
    }

    /// Removes unknown fields, but keeps what Go's encoder omits. The manager of an applied configuration owns that, too.
    pub(crate) fn remove_unknown_fields(&self, object: &mut Value) {
        let mut pruner = Pruner { keeps_zero: true, ..Pruner::new(self.is_built_in()) };
        pruner.node(object, Some(self.root()), true, Path::Root);
    }

    /// Whether a value of a part of a custom resource has unknown fields.
    pub(super) fn has_unknown_fields(&self, value: &Value, schema: SchemaRef<'_>) -> bool {
        let mut pruner = Pruner::new(false);
        pruner.node(&mut value.clone(), Some(schema), schema.node().custom_root, Path::Root);
        !pruner.paths().is_empty()
    }
}

#[derive(Default)]
struct Pruner {
    removed: Vec<String>,
    /// The unknown fields in the metadata of a custom resource.
    of_metadata: Vec<String>,
    /// The unknown fields in the metadata of embedded resources.
    of_embedded: Vec<String>,
    built_in: bool,
    /// Whether fields stay that Go's encoder omits.
    keeps_zero: bool,
    /// Whether only the metadata of embedded resources is pruned.
    metadata_only: bool,
}

/// Removes unknown fields of the metadata of embedded resources from the defaults of the schema of a custom resource. As in Kubernetes, they are
/// no errors.
pub(super) fn prune_metadata_of_defaults(arena: &mut Arena) {
    for index in 0..arena.nodes.len() {
        let node = &arena.nodes[index];
        if let Some(default) = &node.default {
            let mut default = default.clone();
            let schema =
                SchemaRef::new(arena, NodeId(u32::try_from(index).expect("nodes have 32-bit indexes")));
            let mut pruner = Pruner { metadata_only: true, ..Pruner::new(false) };
            pruner.node(&mut default, Some(schema), false, Path::Root);
            arena.nodes[index].default = Some(default);
        }
        let node = &arena.nodes[index];
        if let Some(metadata) = node.properties.get("metadata").filter(|_| node.embedded) {
            prune_defaults_of_metadata(arena, metadata.node);
        }
    }
}

/// Prunes the default of an embedded resource's metadata, and removes the defaults of fields that metadata does not have.
fn prune_defaults_of_metadata(arena: &mut Arena, NodeId(metadata): NodeId) {
    let node = &mut arena.nodes[metadata as usize];
    if let Some(default) = &mut node.default {
        let mut pruner = Pruner::new(true);
        pruner.node(default, Some(object_meta()), false, Path::Root);
    }
    let unknown = node.properties.iter().filter(|(name, _)| object_meta().field(name).is_none());
    let unknown: Vec<NodeId> = unknown.map(|(_, property)| property.node).collect();
    for NodeId(index) in unknown {
        arena.nodes[index as usize].default = None;
    }
}

/// Fields that Go writes even if they are zero, although they are optional: the definition without its package, and the field.
const ALWAYS_WRITTEN: [(&str, &str); 12] = [
    ("Event", "reportingComponent"),
    ("Event", "reportingInstance"),
    ("NodeRuntimeHandler", "name"),
    ("PodDisruptionBudgetStatus", "currentHealthy"),
    ("PodDisruptionBudgetStatus", "desiredHealthy"),
    ("PodDisruptionBudgetStatus", "disruptionsAllowed"),
    ("PodDisruptionBudgetStatus", "expectedPods"),
    ("PriorityClass", "value"),
    ("RoleRef", "apiGroup"),
    ("StatefulSetOrdinals", "start"),
    ("StatefulSetSpec", "serviceName"),
    ("StatefulSetStatus", "availableReplicas"),
];

impl Pruner {
    fn new(built_in: bool) -> Self {
        Self { built_in, ..Self::default() }
    }

    /// Returns the paths of what was removed.
    fn paths(mut self) -> Vec<String> {
        if self.built_in {
            return self.removed;
        }
        // The metadata of a custom resource is decoded before the rest, and the metadata of embedded resources after it.
        self.removed.sort();
        self.of_embedded.sort();
        let mut paths = self.of_metadata;
        paths.append(&mut self.removed);
        paths.append(&mut self.of_embedded);
        paths
    }

    fn node(&mut self, value: &mut Value, schema: Option<SchemaRef<'_>>, root: bool, path: Path<'_>) {
        match value {
            Value::Object(object) => self.object(object, schema, root, path),
            Value::Array(items) => {
                let item_schema = schema.and_then(SchemaRef::items);
                if item_schema.is_none() && schema.is_none_or(preserves_unknown) {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    self.node(item, item_schema, false, Path::Index(&path, index));
                }
            }
            _ => {}
        }
    }

    fn object(
        &mut self,
        object: &mut Map<String, Value>,
        schema: Option<SchemaRef<'_>>,
        root: bool,
        path: Path<'_>,
    ) {
        let Some(schema) = schema else { return };
        let is_custom_object = (root && !self.built_in) || schema.node().embedded;
        object.retain(|name, value| {
            let at = Path::Field(&path, name);
            if is_custom_object && OBJECT_FIELDS.contains(&name.as_str()) {
                if name == "metadata" {
                    let mut meta = Pruner { keeps_zero: self.keeps_zero, ..Pruner::new(true) };
                    meta.node(value, Some(object_meta()), false, at);
                    let of_metadata =
                        if path.is_root() { &mut self.of_metadata } else { &mut self.of_embedded };
                    of_metadata.append(&mut meta.removed);
                }
                return true;
            }
            if let Some(child) = schema.field(name) {
                if self.built_in && !self.keeps_zero && is_omitted(schema, name, value, child) {
                    return false;
                }
                self.node(value, Some(child), false, at);
                return true;
            }
            let is_known = self.metadata_only
                || preserves_unknown(schema)
                || schema.node().additional != AdditionalProperties::Forbidden;
            if !is_known {
                self.removed.push(at.to_string());
            }
            is_known
        });
    }
}

/// Returns whether unknown fields are preserved.
pub(crate) fn preserves_unknown(schema: SchemaRef<'_>) -> bool {
    let node = schema.node();
    node.preserve_unknown || (node.ty == Type::Any && !node.int_or_string)
}

/// Returns whether Go's encoder omits a field with this value (`omitempty`).
fn is_omitted(parent: SchemaRef<'_>, name: &str, value: &Value, child: SchemaRef<'_>) -> bool {
    if parent.is_map() {
        return false;
    }
    match value {
        Value::Null => true,
        Value::Array(items) => {
            items.is_empty()
                && child.node().ty == Type::Array
                // An empty list of managed fields clears them.
                && name != "managedFields"
                && !parent.node().required.iter().any(|required| required == name)
                && !(name == "rules" && is_role(parent))
                // Without this list, an autoscaler gets the default policies; an empty one is invalid.
                && !(name == "policies" && has_definition(parent, &["io.k8s.api.autoscaling.v2.HPAScalingRules"]))
        }
        Value::Object(entries) => entries.is_empty() && child.is_map(),
        Value::String(text) => text.is_empty() && is_zero_omitted(parent, name, child),
        Value::Bool(false) => is_zero_omitted(parent, name, child),
        Value::Number(number) => number.as_f64() == Some(0.0) && is_zero_omitted(parent, name, child),
        Value::Bool(true) => false,
    }
}

/// Whether a schema is that of a Role or a ClusterRole, whose rules Go writes even if there are none.
fn is_role(schema: SchemaRef<'_>) -> bool {
    has_definition(schema, &["io.k8s.api.rbac.v1.Role", "io.k8s.api.rbac.v1.ClusterRole"])
}

fn has_definition(schema: SchemaRef<'_>, names: &[&str]) -> bool {
    schema.node().definition.as_deref().is_some_and(|definition| names.contains(&definition))
}

/// Whether Go's encoder omits a scalar field that is zero.
fn is_zero_omitted(parent: SchemaRef<'_>, name: &str, child: SchemaRef<'_>) -> bool {
    let node = parent.node();
    let Some(definition) = node.definition.as_deref() else { return false };
    let type_name = definition.rsplit('.').next().unwrap_or_default();
    !child.node().int_or_string
        && !node.required.iter().any(|required| required == name)
        && !ALWAYS_WRITTEN.contains(&(type_name, name))
        && is_value_field(definition, name)
}
