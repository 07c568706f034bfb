//! Validation of embedded resources in custom resources, after `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.

use serde_json::Value;

use super::field;
use super::node::SchemaRef;
use crate::status::Cause;

/// Adds what is wrong with the types of the resources that are embedded in `value`. Their metadata is validated with the schema.
pub(super) fn validate(value: &Value, schema: SchemaRef<'_>, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(object) => {
            if schema.node().embedded {
                for name in ["apiVersion", "kind"] {
                    let at = field::child(path, name);
                    match object.get(name) {
                        None => causes.push(field::required(&at, "")),
                        Some(Value::String(text)) if text.is_empty() => {
                            causes.push(field::invalid(&at, &object[name], "must not be empty"));
                        }
                        Some(_) => {}
                    }
                }
            }
            for (name, child) in object {
                if let Some(child_schema) = schema.field(name) {
                    let at = if schema.is_map() { field::key(path, name) } else { field::child(path, name) };
                    validate(child, child_schema, &at, causes);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                validate(item, item_schema, &field::index(path, index), causes);
            }
        }
        _ => {}
    }
}
