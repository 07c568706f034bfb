//! Compares `values.schema.json` with `values.yaml`, and with what the host accepts in its configuration file and in sidecars.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::CHART;
use super::values::Value;

/// Returns a line for each value that the schema does not have, and for each property of the schema that `values.yaml` does not have.
pub(super) fn differences(values: &[Value], schema: &Json) -> Vec<String> {
    let mut found = Vec::new();
    for value in values {
        if value.path.split('.').try_fold(schema, |object, key| property(schema, object, key)).is_none() {
            found.push(format!("{CHART}/values.schema.json: has no property for the value {}", value.path));
        }
    }
    // Of a documented value, values.yaml has the default only.
    let groups = values.iter().filter(|value| value.description.is_none()).map(|value| value.path.as_str());
    for group in std::iter::once("").chain(groups) {
        let mut keys = group.split('.').filter(|key| !key.is_empty());
        let object = keys.try_fold(schema, |object, key| property(schema, object, key));
        for key in object.map(|object| names(resolve(schema, object))).unwrap_or_default() {
            let path = if group.is_empty() { key.to_owned() } else { format!("{group}.{key}") };
            if !values.iter().any(|value| value.path == path) {
                found.push(format!("{CHART}/values.yaml: has no default and no comment for {path}"));
            }
        }
    }
    found
}

/// Returns a line for each object of the schema that lists its properties and accepts others.
pub(super) fn open_objects(schema: &Json) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![(String::new(), schema)];
    while let Some((path, value)) = pending.pop() {
        if value["properties"].is_object() && value["additionalProperties"] != false {
            found.push(format!(
                "{CHART}/values.schema.json: set additionalProperties of {path}/ to false, or a misspelled value is ignored"
            ));
        }
        match value {
            Json::Object(members) => {
                pending.extend(members.iter().map(|(key, value)| (format!("{path}/{key}"), value)));
            }
            Json::Array(items) => {
                let items = items.iter().enumerate();
                pending.extend(items.map(|(position, value)| (format!("{path}/{position}"), value)));
            }
            _ => {}
        }
    }
    found.sort();
    found
}

/// Returns a line for each object whose properties are not those of the host. `members` is the snapshot of the members that the host accepts.
pub(super) fn unlike_host(schema: &Json, members: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in members.lines() {
        let Some((path, expected)) = line.split_once(": ") else { continue };
        let (document, path) = path.split_once(' ').unwrap_or((path, ""));
        let start = match document {
            "sidecar" => &schema["definitions"]["sidecar"],
            "--config" => &schema["properties"]["config"],
            // Files that are not a part of the chart.
            _ => continue,
        };
        let keys = path.split('.').filter(|key| !key.is_empty());
        let object = keys.fold(start, |object, key| match key.strip_suffix("[]") {
            Some(key) => &object["properties"][key]["items"],
            None => &object["properties"][key],
        });
        let expected: BTreeSet<&str> = expected.split(", ").collect();
        if names(object) != expected {
            found.push(format!(
                "{CHART}/values.schema.json: `{document} {path}` of the host has {expected:?}, and the schema {:?}",
                names(object)
            ));
        }
    }
    found
}

/// Returns the schema of a property.
fn property<'a>(root: &'a Json, object: &'a Json, key: &str) -> Option<&'a Json> {
    resolve(root, object)["properties"].get(key)
}

/// Follows a reference to `definitions`.
fn resolve<'a>(root: &'a Json, value: &'a Json) -> &'a Json {
    let name = value["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/definitions/"));
    name.map_or(value, |name| &root["definitions"][name])
}

fn names(object: &Json) -> BTreeSet<&str> {
    object["properties"]
        .as_object()
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::values::parse;
    use super::*;

    fn schema() -> Json {
        json!({
            "additionalProperties": false,
            "properties": {
                "image": {"additionalProperties": false, "properties": {"tag": {}}},
                "probe": {"$ref": "#/definitions/probe"},
                "config": {"additionalProperties": false, "properties": {"grants": {}}},
            },
            "definitions": {
                "probe": {"additionalProperties": false, "properties": {"period": {}}},
                "sidecar": {"additionalProperties": false, "properties": {
                    "grants": {"additionalProperties": false, "properties": {
                        "watches": {"items": {"additionalProperties": false, "properties": {"resources": {}}}},
                    }},
                }},
            },
        })
    }

    const VALUES: &str =
        "image:\n  # -- Tag.\n  tag: a\nprobe:\n  # -- Period.\n  period: 1\n# -- Config.\nconfig: {}\n";

    #[test]
    fn values_and_schema_have_the_same_names() {
        let found = |text: &str| differences(&parse(text).expect("values"), &schema());
        assert_eq!(found(VALUES), Vec::<String>::new());
        let other = found(&VALUES.replace("tag:", "tags:").replace("period:", "periods:"));
        assert_eq!(other.len(), 4, "{other:?}");
        assert!(
            other[0].ends_with("the value image.tags") && other[2].ends_with("for image.tag"),
            "{other:?}"
        );
    }

    #[test]
    fn an_object_that_accepts_other_properties_is_found() {
        assert_eq!(open_objects(&schema()), Vec::<String>::new());
        let mut open = schema();
        open["properties"]["image"]["additionalProperties"] = true.into();
        let found = open_objects(&open);
        assert!(found.len() == 1 && found[0].contains(" /properties/image/ "), "{found:?}");
    }

    #[test]
    fn sidecars_and_configuration_have_the_members_of_the_host() {
        let members = "sidecar: grants\nsidecar grants: watches\nsidecar grants.watches[]: resources\n--config: grants\nother: x\n";
        assert_eq!(unlike_host(&schema(), members), Vec::<String>::new());
        let more = "sidecar grants.watches[]: resources, namespaces\n--config: grants, lists\n";
        assert_eq!(unlike_host(&schema(), more).len(), 2);
    }
}
