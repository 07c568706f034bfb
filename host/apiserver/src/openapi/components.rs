//! The schemas of a document: the kinds that are served, and every type that they are made of.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Served;
use crate::schema::definitions;

const REFERENCE: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The name of the schema of what `served` serves, if it has one.
pub(super) fn name(served: &Served<'_>) -> Option<String> {
    if served.is_custom {
        return Some(custom_name(served, served.kind));
    }
    built_in(served.group, served.version, served.kind)
}

/// The name of the schema of its list.
pub(super) fn list_name(served: &Served<'_>) -> Option<String> {
    if served.is_custom {
        return Some(custom_name(served, served.list_kind));
    }
    name(served).map(|name| format!("{name}List"))
}

/// The schema of a built-in kind, by group, version and kind.
pub(super) fn built_in(group: &str, version: &str, kind: &str) -> Option<String> {
    let found = definitions()
        .kinds
        .iter()
        .find(|(known, _)| known.group == group && known.version == version && known.kind == kind);
    found.map(|(_, name)| name.clone())
}

/// `com.example.v1.Foo` for the kind Foo of example.com/v1.
fn custom_name(served: &Served<'_>, kind: &str) -> String {
    let mut parts: Vec<&str> = served.group.split('.').rev().collect();
    parts.extend([served.version, kind]);
    parts.join(".")
}

/// A reference to a schema of the same document.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

/// All schemas that `served` needs, published as Kubernetes publishes them.
pub(super) fn schemas(served: &[Served<'_>]) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut wanted: Vec<String> =
        ["DeleteOptions", "Status", "ListMeta"].map(|name| format!("{META}{name}")).to_vec();
    for one in served {
        let Some(name) = name(one) else { continue };
        if one.is_custom {
            schemas.insert(name.clone(), custom(one));
            wanted.push(format!("{META}ObjectMeta"));
        } else {
            wanted.push(name.clone());
        }
        if one.scale {
            wanted.extend(built_in("autoscaling", "v1", "Scale"));
        }
        if let (Some(list), false) = (list_name(one), one.create_only) {
            schemas.insert(list, self::list(one, &name));
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(definition) = definitions().schemas.get(&name) else { continue };
        references(definition, &mut wanted);
        schemas.insert(name, published(definition));
    }
    for (kind, name) in &definitions().kinds {
        if let Some(schema) = schemas.get_mut(name).and_then(Value::as_object_mut) {
            let own = json!({"group": kind.group, "kind": kind.kind, "version": kind.version});
            schema.insert("x-kubernetes-group-version-kind".into(), json!([own]));
        }
    }
    schemas
}

fn references(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(name) =
                object.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix(REFERENCE))
            {
                names.push(name.to_owned());
            }
            object.values().for_each(|child| references(child, names));
        }
        Value::Array(items) => items.iter().for_each(|child| references(child, names)),
        _ => {}
    }
}

/// A built-in schema in OpenAPI's terms: a reference with a description of its own is an `allOf` of one, and an
/// int-or-string is one of two types.
fn published(schema: &Value) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut result = Map::new();
    for (name, value) in object {
        let value = match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let published = properties.iter().map(|(name, child)| (name.clone(), published(child)));
                Value::Object(published.collect())
            }
            ("items" | "additionalProperties", child) => published(child),
            // Unions with a boolean have no form that all clients read; Kubernetes leaves them open, too.
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

fn custom(served: &Served<'_>) -> Value {
    let mut schema = served
        .custom
        .cloned()
        .unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    if let Some(object) = schema.as_object_mut() {
        object.insert("x-kubernetes-group-version-kind".into(), json!([gvk(served, served.kind)]));
        let properties = object.entry("properties").or_insert(json!({}));
        properties["apiVersion"] = common("apiVersion");
        properties["kind"] = common("kind");
        properties["metadata"] = json!({
            "description": "Standard object's metadata.",
            "allOf": [reference(&format!("{META}ObjectMeta"))],
        });
    }
    schema
}

fn list(served: &Served<'_>, item: &str) -> Value {
    json!({
        "description": format!("{} is a list of {}", served.list_kind, served.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": common("apiVersion"),
            "kind": common("kind"),
            "metadata": {"description": "Standard list metadata.", "allOf": [reference(&format!("{META}ListMeta"))]},
            "items": {"description": format!("List of {}.", served.plural), "type": "array", "items": reference(item)},
        },
        "x-kubernetes-group-version-kind": [gvk(served, served.list_kind)],
    })
}

/// The description of a field that all kinds have.
fn common(name: &str) -> Value {
    definitions()
        .schemas
        .get("io.k8s.api.core.v1.ConfigMap")
        .and_then(|schema| schema["properties"].get(name))
        .cloned()
        .unwrap_or_else(|| json!({"type": "string"}))
}

/// How operations and schemas name a kind.
pub(super) fn gvk(served: &Served<'_>, kind: &str) -> Value {
    json!({"group": served.group, "kind": kind, "version": served.version})
}
