//! Tests of schemas: built-in kinds, custom resources and CEL rules.

mod builtin;
mod crd_checks;
mod custom;
mod rules;
mod semantic;
mod upstream;

use serde_json::{Value, json};

use super::Schema;

fn crd(properties: &Value) -> Schema {
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    Schema::from_crd(&schema).expect("the schema is structural")
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec})
}

fn errors(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<String> {
    schema.validate(new, old).iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}
