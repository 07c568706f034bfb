//! OpenAPI v2 (Swagger), derived from the v3 schemas: one document for all groups, for clients without v3 support.

use serde_json::{Map, Value, json};

use super::{ServedResource, components, paths};

/// Builds the document of all served resources.
pub(super) fn document(served: &[ServedResource<'_>]) -> Value {
    let definitions: Map<String, Value> = components::schemas(served)
        .into_iter()
        .map(|(name, mut schema)| {
            downgrade(&mut schema);
            (name, schema)
        })
        .collect();
    let operations: Map<String, Value> =
        paths::paths(served).into_iter().map(|(path, item)| (path, path_item(&item))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": concat!("pilothouse-", env!("CARGO_PKG_VERSION"))},
        "paths": operations,
        "definitions": definitions,
    })
}

/// Rewrites a v3 schema to v2 in place. v2 has neither `oneOf`, `anyOf` and `not` nor `nullable`, and its references
/// point to `#/definitions/`.
fn downgrade(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for name in ["oneOf", "anyOf", "not", "nullable"] {
        object.remove(name);
    }
    if object.get("format").is_some_and(|format| format == "int-or-string") {
        object.insert("type".into(), "string".into());
    }
    // In v3, a reference with a description is an `allOf` with one entry.
    let single = object.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1);
    if let Some(reference) = single.and_then(|all| all[0].get("$ref")).cloned() {
        object.remove("allOf");
        object.insert("$ref".into(), reference);
    }
    if let Some(Value::String(target)) = object.get_mut("$ref") {
        *target = target.replace("#/components/schemas/", "#/definitions/");
    }
    for (name, value) in object.iter_mut() {
        match (name.as_str(), value) {
            // A property may be called "not" or "oneOf": only the schemas of properties are rewritten, not their names.
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(downgrade),
            ("allOf", Value::Array(all)) => all.iter_mut().for_each(downgrade),
            ("items" | "additionalProperties", value) => downgrade(value),
            _ => {}
        }
    }
}

fn path_item(item: &Value) -> Value {
    let Some(object) = item.as_object() else { return Value::Null };
    let converted = object.iter().map(|(method, operation)| {
        let value = match operation {
            Value::Array(parameters) => parameters.iter().map(parameter).collect(),
            operation => self::operation(operation),
        };
        (method.clone(), value)
    });
    Value::Object(converted.collect())
}

fn operation(operation: &Value) -> Value {
    let mut parameters: Vec<Value> =
        operation["parameters"].as_array().into_iter().flatten().map(parameter).collect();
    let mut result = json!({
        "responses": {"200": {"description": "OK"}},
        "produces": ["application/json"],
        "x-kubernetes-action": operation["x-kubernetes-action"],
        "x-kubernetes-group-version-kind": operation["x-kubernetes-group-version-kind"],
    });
    let body = operation.pointer("/requestBody/content").and_then(Value::as_object);
    if let Some((_, first)) = body.and_then(|content| content.iter().next()) {
        let mut schema = first["schema"].clone();
        downgrade(&mut schema);
        parameters.insert(0, json!({"name": "body", "in": "body", "required": true, "schema": schema}));
        result["consumes"] = body.into_iter().flatten().map(|(ty, _)| ty.as_str()).collect();
    }
    if let Some(schema) = operation.pointer("/responses/200/content/application~1json/schema") {
        let mut schema = schema.clone();
        downgrade(&mut schema);
        result["responses"]["200"]["schema"] = schema;
    }
    result["parameters"] = Value::Array(parameters);
    result
}

/// Rewrites a parameter: v2 has its type beside its name instead of in a schema.
fn parameter(parameter: &Value) -> Value {
    let mut result = parameter.clone();
    if let Some(object) = result.as_object_mut() {
        object.remove("schema");
        object.insert("type".into(), parameter["schema"]["type"].clone());
    }
    result
}
