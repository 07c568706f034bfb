//! Pruning: removes unknown fields and reports them for `fieldValidation`.

use serde_json::{Map, Value};

use super::node::{AdditionalProperties, SchemaRef, Type};
use super::{Schema, field, object_meta};

const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes unknown fields and returns their paths, sorted.
    ///
    /// Built-in kinds also lose what a round trip through Go's types loses: `null` and empty lists and maps in optional
    /// fields. Custom resources keep `apiVersion`, `kind` and `metadata` of the object and of embedded resources, and
    /// `x-kubernetes-preserve-unknown-fields` is honoured, as in
    /// `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruner = Pruner { removed: Vec::new(), built_in: self.is_built_in() };
        pruner.node(object, Some(self.root()), true, "");
        pruner.removed.sort();
        pruner.removed
    }

    /// Returns the warnings or errors about the unknown fields of `object`: `unknown field "spec.foo"`.
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let removed = self.prune(&mut object.clone());
        removed.into_iter().map(|path| format!("unknown field \"{path}\"")).collect()
    }
}

struct Pruner {
    removed: Vec<String>,
    built_in: bool,
}

impl Pruner {
    fn node(&mut self, value: &mut Value, schema: Option<SchemaRef<'_>>, root: bool, path: &str) {
        match value {
            Value::Object(object) => self.object(object, schema, root, path),
            Value::Array(items) => {
                let item_schema = schema.and_then(SchemaRef::items);
                if item_schema.is_none() && schema.is_none_or(preserves_unknown) {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    self.node(item, item_schema, false, &field::index(path, index));
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
        path: &str,
    ) {
        let Some(schema) = schema else { return };
        let is_custom_object = (root && !self.built_in) || schema.node().embedded;
        let names: Vec<String> = object.keys().cloned().collect();
        for name in names {
            let at = field::child(path, &name);
            if is_custom_object && OBJECT_FIELDS.contains(&name.as_str()) {
                if name == "metadata" {
                    let mut meta = Pruner { removed: Vec::new(), built_in: true };
                    meta.node(&mut object[&name], Some(object_meta()), false, &at);
                    self.removed.append(&mut meta.removed);
                }
                continue;
            }
            if let Some(child) = schema.field(&name) {
                if self.built_in && is_omitted(schema, &name, &object[&name], child) {
                    object.remove(&name);
                    continue;
                }
                let child_path = if schema.is_map() { field::key(path, &name) } else { at };
                self.node(&mut object[&name], Some(child), false, &child_path);
            } else if !preserves_unknown(schema)
                && schema.node().additional == AdditionalProperties::Forbidden
            {
                object.remove(&name);
                self.removed.push(at);
            }
        }
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
            items.is_empty() && !parent.node().required.iter().any(|required| required == name)
        }
        Value::Object(entries) => entries.is_empty() && child.is_map(),
        // Of the other zero values, only this one is known to be in manifests.
        Value::Bool(false) => name == "preserveUnknownFields" && child.node().definition.is_none(),
        _ => false,
    }
}
