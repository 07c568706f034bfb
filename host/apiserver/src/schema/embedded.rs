//! Validation of embedded resources in custom resources, after `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.

use serde_json::{Map, Value};

use super::node::SchemaRef;
use super::{field, names, semantic};
use crate::status::Causes;

/// Adds what is wrong with the resources that are embedded in `value`. The types of their metadata are validated with the schema.
pub(super) fn validate(value: &Value, schema: SchemaRef<'_>, path: &str, causes: &mut Causes) {
    match value {
        Value::Object(object) => {
            if schema.node().embedded {
                validate_resource(object, path, causes);
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

fn validate_resource(object: &Map<String, Value>, path: &str, causes: &mut Causes) {
    for name in ["apiVersion", "kind"] {
        let at = field::child(path, name);
        match object.get(name) {
            None => causes.push(field::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(field::invalid(&at, &object[name], "must not be empty"));
            }
            Some(Value::String(text)) => {
                causes.extend(
                    type_problem(name, text).map(|detail| field::invalid(&at, &object[name], &detail)),
                );
            }
            Some(_) => {}
        }
    }
    if let Some(Value::Object(metadata)) = object.get("metadata") {
        semantic::validate_embedded_metadata(metadata, &field::child(path, "metadata"), causes);
    }
}

/// Returns what is wrong with the `apiVersion` or the `kind` of a resource, which is not empty.
fn type_problem(name: &str, text: &str) -> Option<String> {
    if name == "apiVersion" {
        let is_malformed = text.matches('/').count() > 1;
        return is_malformed.then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let errors = names::service_name_errors(&text.to_lowercase());
    (!errors.is_empty())
        .then(|| format!("may have mixed case, but should otherwise match: {}", errors.join(",")))
}
