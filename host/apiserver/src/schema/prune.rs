//! Dropping what a schema does not know, and naming it for `fieldValidation`.

use serde_json::{Map, Value};

use super::node::{Additional, SchemaRef, Type};
use super::{Schema, field, object_meta};

const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes the fields that the schema does not know and returns their paths, sorted.
    ///
    /// For built-in kinds this also does what a round trip through Go's types does: `null`, and lists and maps without
    /// entries, are left out where the field is optional. In custom resources, `apiVersion`, `kind` and `metadata` of
    /// the object and of embedded resources are always kept, and `x-kubernetes-preserve-unknown-fields` is honoured as
    /// `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning` does.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruner = Pruner { removed: Vec::new(), built_in: self.is_built_in() };
        pruner.node(object, Some(self.root()), true, "");
        pruner.removed.sort();
        pruner.removed
    }

    /// The unknown fields of `object` in the words that clients see: `unknown field "spec.foo"`.
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
                let of_items = schema.and_then(SchemaRef::items);
                if of_items.is_none() && schema.is_none_or(preserves) {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    self.node(item, of_items, false, &field::index(path, index));
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
        let whole = (root && !self.built_in) || schema.node().embedded;
        let names: Vec<String> = object.keys().cloned().collect();
        for name in names {
            let at = field::child(path, &name);
            if whole && OBJECT_FIELDS.contains(&name.as_str()) {
                if name == "metadata" {
                    let mut meta = Pruner { removed: Vec::new(), built_in: true };
                    meta.node(&mut object[&name], Some(object_meta()), false, &at);
                    self.removed.append(&mut meta.removed);
                }
                continue;
            }
            if let Some(child) = schema.field(&name) {
                if self.built_in && omitted(schema, &name, &object[&name], child) {
                    object.remove(&name);
                    continue;
                }
                let below = if schema.is_map() { field::key(path, &name) } else { at };
                self.node(&mut object[&name], Some(child), false, &below);
            } else if !preserves(schema) && schema.node().additional == Additional::Unknown {
                object.remove(&name);
                self.removed.push(at);
            }
        }
    }
}

/// Whether data that the schema does not name is kept here.
fn preserves(schema: SchemaRef<'_>) -> bool {
    let node = schema.node();
    node.preserve_unknown || (node.ty == Type::Any && !node.int_or_string)
}

/// Whether Go's encoder leaves a field with this value out.
fn omitted(parent: SchemaRef<'_>, name: &str, value: &Value, child: SchemaRef<'_>) -> bool {
    if parent.is_map() {
        return false;
    }
    match value {
        Value::Null => true,
        Value::Array(items) => {
            items.is_empty() && !parent.node().required.iter().any(|required| required == name)
        }
        Value::Object(entries) => entries.is_empty() && child.is_map(),
        _ => false,
    }
}
