//! The schemas of a document: the served kinds and every type that they refer to.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{ServedResource, corrections};
use crate::registry::SELECTABLE_FIELDS;
use crate::schema::definitions;

const SCHEMA_PREFIX: &str = "#/components/schemas/";
const META_PREFIX: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Returns the name of the schema of a served kind, if it has one.
pub(super) fn name(served: &ServedResource<'_>) -> Option<String> {
    if served.is_custom {
        return Some(custom_name(served, served.kind));
    }
    built_in(served.group, served.version, served.kind)
}

/// Returns the name of the schema of a served kind's list.
pub(super) fn list_name(served: &ServedResource<'_>) -> Option<String> {
    if served.is_custom {
        return Some(custom_name(served, served.list_kind));
    }
    name(served).map(|name| format!("{name}List"))
}

/// Returns the name of the schema of a built-in kind.
pub(super) fn built_in(group: &str, version: &str, kind: &str) -> Option<String> {
    let definition = definitions()
        .kinds
        .iter()
        .find(|(known, _)| known.group == group && known.version == version && known.kind == kind);
    definition.map(|(_, name)| name.clone())
}

/// Returns the schema name of a custom resource: `com.example.v1.Foo` for the kind Foo of example.com/v1.
fn custom_name(served: &ServedResource<'_>, kind: &str) -> String {
    let mut parts: Vec<&str> = served.group.split('.').rev().collect();
    parts.extend([served.version, kind]);
    parts.join(".")
}

/// Returns a reference to a schema of the same document.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{SCHEMA_PREFIX}{name}")})
}

/// Returns the schemas of the served kinds and everything that they refer to, in the form that Kubernetes publishes.
pub(super) fn schemas(served: &[ServedResource<'_>]) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut pending: Vec<String> =
        ["DeleteOptions", "Status", "ListMeta"].map(|name| format!("{META_PREFIX}{name}")).to_vec();
    for resource in served {
        let Some(name) = name(resource) else { continue };
        if resource.is_custom {
            schemas.insert(name.clone(), custom_resource_schema(resource));
            pending.push(format!("{META_PREFIX}ObjectMeta"));
        } else {
            pending.push(name.clone());
        }
        if resource.has_scale {
            pending.extend(built_in("autoscaling", "v1", "Scale"));
        }
        if let (Some(list_name), false) = (list_name(resource), resource.create_only) {
            schemas.insert(list_name, list_schema(resource, &name));
        }
    }
    let mut visited = BTreeSet::new();
    while let Some(name) = pending.pop() {
        if !visited.insert(name.clone()) {
            continue;
        }
        let Some(definition) = definitions().schemas.get(&name) else { continue };
        collect_references(definition, &mut pending);
        let mut schema = to_openapi(definition);
        if let Some(schema) = schema.as_object_mut() {
            corrections::correct(&name, schema);
        }
        schemas.insert(name, schema);
    }
    for (kind, name) in &definitions().kinds {
        if let Some(schema) = schemas.get_mut(name).and_then(Value::as_object_mut) {
            let gvk = json!({"group": kind.group, "kind": kind.kind, "version": kind.version});
            schema.insert("x-kubernetes-group-version-kind".into(), json!([gvk]));
        }
    }
    schemas
}

fn collect_references(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(name) =
                object.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix(SCHEMA_PREFIX))
            {
                names.push(name.to_owned());
            }
            object.values().for_each(|child| collect_references(child, names));
        }
        Value::Array(items) => items.iter().for_each(|child| collect_references(child, names)),
        _ => {}
    }
}

/// Rewrites a built-in schema as Kubernetes publishes it: a reference with a description becomes an `allOf` with one
/// entry, and an int-or-string a `oneOf` of both types.
fn to_openapi(schema: &Value) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut result = Map::new();
    for (name, value) in object {
        let value = match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let properties = properties.iter().map(|(name, child)| (name.clone(), to_openapi(child)));
                Value::Object(properties.collect())
            }
            ("items" | "additionalProperties", child) => to_openapi(child),
            // Some clients do not support unions with a boolean. Kubernetes also publishes them without a type.
            ("oneOf", _) => continue,
            _ => value.clone(),
        };
        result.insert(name.clone(), value);
    }
    if result.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        result.insert("oneOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
        result.insert("format".into(), "int-or-string".into());
    }
    if result.len() > 1
        && let Some(reference) = result.remove("$ref")
    {
        result.insert("allOf".into(), json!([{"$ref": reference}]));
    }
    Value::Object(result)
}

fn custom_resource_schema(served: &ServedResource<'_>) -> Value {
    let mut schema = served
        .crd_schema
        .cloned()
        .unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    if let Some(object) = schema.as_object_mut() {
        object.insert("x-kubernetes-group-version-kind".into(), json!([gvk(served, served.kind)]));
        let properties = object.entry("properties").or_insert(json!({}));
        properties["apiVersion"] = type_meta_schema("apiVersion");
        properties["kind"] = type_meta_schema("kind");
        properties["metadata"] = json!({
            "description": "Standard object's metadata.",
            "allOf": [reference(&format!("{META_PREFIX}ObjectMeta"))],
        });
    }
    schema
}

fn list_schema(served: &ServedResource<'_>, item: &str) -> Value {
    let mut schema = json!({
        "description": format!("{} is a list of {}", served.list_kind, served.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": type_meta_schema("apiVersion"),
            "kind": type_meta_schema("kind"),
            "metadata": {"description": "Standard list metadata.", "allOf": [reference(&format!("{META_PREFIX}ListMeta"))]},
            "items": {"description": format!("List of {}.", served.plural), "type": "array", "items": reference(item)},
        },
        "x-kubernetes-group-version-kind": [gvk(served, served.list_kind)],
    });
    if let Some(fields) = served.crd_schema.and_then(|schema| schema.get(SELECTABLE_FIELDS)) {
        schema[SELECTABLE_FIELDS] = fields.clone();
    }
    schema
}

/// Returns the schema of `apiVersion` or `kind`, which all kinds have.
fn type_meta_schema(name: &str) -> Value {
    definitions()
        .schemas
        .get("io.k8s.api.core.v1.ConfigMap")
        .and_then(|schema| schema["properties"].get(name))
        .cloned()
        .unwrap_or_else(|| json!({"type": "string"}))
}

/// Returns the value of `x-kubernetes-group-version-kind` for a kind of the served group and version.
pub(super) fn gvk(served: &ServedResource<'_>, kind: &str) -> Value {
    json!({"group": served.group, "kind": kind, "version": served.version})
}
