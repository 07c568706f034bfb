//! Compares the JSONPaths of a descriptor's indexes and triggers with the schemas of CRDs. Pure.
//!
//! A path to a field that no object can have finds nothing: the index stays empty, and the trigger queues nothing.

use std::sync::LazyLock;

use pilothouse_model::{JsonPath, JsonPathStep};
use pilothouse_plugin::most_similar;
use serde_json::{Value, json};

use super::descriptor::{Descriptor, Trigger, Watch};

/// The most warnings about one descriptor.
const MAX_WARNINGS: usize = 20;
/// The most fields that are searched for one of the same name, and that are compared with a wrong name.
const MAX_SEARCHED: usize = 1_000;
/// How deep the search goes.
const MAX_DEPTH: usize = 16;
/// The most fields that a warning lists.
const MAX_LISTED: usize = 8;
/// The longest name of a field that a warning proposes, in bytes.
const MAX_NAME: usize = 100;

/// The metadata that every object has. CRDs do not repeat it.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer"});
    let texts = || json!({"type": "object", "additionalProperties": text()});
    json!({"type": "object", "properties": {
        "name": text(), "generateName": text(), "namespace": text(), "uid": text(), "selfLink": text(),
        "resourceVersion": text(), "generation": number(), "creationTimestamp": text(), "deletionTimestamp": text(),
        "deletionGracePeriodSeconds": number(), "labels": texts(), "annotations": texts(),
        "finalizers": {"type": "array", "items": text()},
        "ownerReferences": {"type": "array", "items": {"type": "object", "properties": {
            "apiVersion": text(), "kind": text(), "name": text(), "uid": text(),
            "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
        }}},
        "managedFields": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }})
});
static TEXT: LazyLock<Value> = LazyLock::new(|| json!({"type": "string"}));

/// Returns a warning for each path that leads to no field of the watched kind, as far as a CRD of the descriptor or one of `other_crds` has
/// its schema.
pub(crate) fn warnings(descriptor: &Descriptor, other_crds: &[Value]) -> Vec<String> {
    let mut warnings = Vec::new();
    for watch in &descriptor.watches {
        let mut crds = descriptor.crds.iter().chain(other_crds);
        let Some((crd, schema)) = crds.find_map(|crd| schema_of(crd, watch)) else { continue };
        for (user, text) in paths(watch) {
            let problem = JsonPath::parse(text).ok().and_then(|path| problem(&path, schema));
            let warning = problem.map(|problem| {
                format!("watch {:?}: {user} {text} finds nothing: in the CRD {crd}, {problem}", watch.name)
            });
            warnings.extend(warning);
            if warnings.len() == MAX_WARNINGS {
                return warnings;
            }
        }
    }
    warnings
}

/// Returns the name of a CRD and its schema for the version of the watch, if it defines the watched kind.
fn schema_of<'a>(crd: &'a Value, watch: &Watch) -> Option<(&'a str, &'a Value)> {
    let (group, version) = watch.api_version.split_once('/')?;
    let is_kind =
        crd.pointer("/spec/group")? == group && crd.pointer("/spec/names/kind")? == watch.kind.as_str();
    let versions = crd.pointer("/spec/versions")?.as_array().filter(|_| is_kind)?;
    let version = versions.iter().find(|found| found["name"] == version)?;
    Some((crd.pointer("/metadata/name")?.as_str()?, version.pointer("/schema/openAPIV3Schema")?))
}

/// Returns the paths of a watch, each with what uses it.
fn paths(watch: &Watch) -> Vec<(String, &str)> {
    let mut paths = Vec::new();
    for index in &watch.indexes {
        paths.extend(index.field.as_deref().map(|path| (format!("the index {:?} of", index.name), path)));
    }
    if let Some(Trigger::Field { path, namespace_path, .. }) = &watch.trigger {
        paths.push(("the trigger's path".to_owned(), path));
        paths.extend(namespace_path.as_deref().map(|path| ("the trigger's namespacePath".to_owned(), path)));
    }
    paths
}

/// What a schema says of a member.
enum Member<'a> {
    Schema(&'a Value),
    /// The schema allows any fields there.
    Unchecked,
    Missing,
}

/// Returns why no object of the schema has a scalar at the path.
fn problem(path: &JsonPath, root: &Value) -> Option<String> {
    let (mut node, mut place) = (root, String::new());
    for step in path.steps() {
        let kind = node["type"].as_str().unwrap_or_default();
        node = match (step, kind) {
            (JsonPathStep::Member(name), "object" | "") => match member(node, name, place.is_empty()) {
                Member::Schema(schema) => schema,
                Member::Unchecked => return None,
                Member::Missing => {
                    let shown = if place.is_empty() { "the object" } else { &place };
                    return Some(format!(
                        "{shown} has no field {name:?}{}",
                        remedy(root, node, &place, name)
                    ));
                }
            },
            (JsonPathStep::Member(name), "array") => {
                return Some(format!("{place} is an array; write {place}[*]{}", member_step(name)));
            }
            (JsonPathStep::Index(_) | JsonPathStep::All, "array") => node.get("items")?,
            (JsonPathStep::All, "object") => {
                node.get("additionalProperties").filter(|any| any.is_object())?
            }
            (_, "") => return None,
            (_, kind) => {
                let shown = if place.is_empty() { "the object" } else { &place };
                return Some(format!(
                    "{shown} has the type {kind}, in which there is no {}",
                    step_text(step)
                ));
            }
        };
        place += &step_text(step);
    }
    let kind = node["type"].as_str().filter(|kind| matches!(*kind, "object" | "array"))?;
    let fields = fields(node);
    let remedy = if fields.is_empty() { String::new() } else { format!("; it has {fields}") };
    Some(format!("{place} has the type {kind}, and only texts, numbers and booleans are values{remedy}"))
}

fn member<'a>(node: &'a Value, name: &str, is_root: bool) -> Member<'a> {
    if is_root || node["x-kubernetes-embedded-resource"] == true {
        match name {
            "metadata" => return Member::Schema(&METADATA),
            "apiVersion" | "kind" => return Member::Schema(&TEXT),
            _ => {}
        }
    }
    if let Some(schema) = node.get("properties").and_then(|properties| properties.get(name)) {
        return Member::Schema(schema);
    }
    match node.get("additionalProperties") {
        Some(schema @ Value::Object(_)) => Member::Schema(schema),
        Some(Value::Bool(true)) => Member::Unchecked,
        _ if node["x-kubernetes-preserve-unknown-fields"] == true || node["type"] != "object" => {
            Member::Unchecked
        }
        _ => Member::Missing,
    }
}

/// Returns the nearest field that exists, as the end of a warning: a similar name in the same object, else the same name elsewhere, else the
/// fields of the object.
fn remedy(root: &Value, node: &Value, place: &str, name: &str) -> String {
    let known = properties(node).map(|(known, _)| known.as_str()).take(MAX_SEARCHED);
    if let Some(similar) = most_similar(name, known) {
        return format!("; did you mean {place}{}?", member_step(similar));
    }
    if let Some(found) = find_field(root, "", name, MAX_DEPTH, &mut { MAX_SEARCHED }) {
        return format!("; did you mean {found}?");
    }
    let fields = fields(node);
    if fields.is_empty() { "; it has no fields".to_owned() } else { format!("; it has {fields}") }
}

/// Returns the path of the first field with this name, apart from upper and lower case.
fn find_field(node: &Value, place: &str, name: &str, depth: usize, budget: &mut usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    for (found, below) in properties(node).filter(|(found, _)| found.len() <= MAX_NAME) {
        *budget = budget.checked_sub(1)?;
        let place = format!("{place}{}", member_step(found));
        if found.eq_ignore_ascii_case(name) {
            return Some(place);
        }
        if let Some(found) = find_field(below, &place, name, depth, budget) {
            return Some(found);
        }
    }
    let items = node.get("items")?;
    find_field(items, &format!("{place}[*]"), name, depth, budget)
}

fn properties(node: &Value) -> impl Iterator<Item = (&String, &Value)> {
    node.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Returns the first fields of an object, separated by commas.
fn fields(node: &Value) -> String {
    let names = properties(node).map(|(name, _)| name.as_str()).filter(|name| name.len() <= MAX_NAME);
    let mut names: Vec<_> = names.take(MAX_LISTED + 1).collect();
    if names.len() > MAX_LISTED {
        names[MAX_LISTED] = "…";
    }
    names.join(", ")
}

fn step_text(step: JsonPathStep<'_>) -> String {
    match step {
        JsonPathStep::Member(name) => member_step(name),
        JsonPathStep::Index(index) => format!("[{index}]"),
        _ => "[*]".to_owned(),
    }
}

/// Returns the step to a member in kubectl's notation.
fn member_step(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.bytes().all(is_plain) { format!(".{name}") } else { format!("['{name}']") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd() -> Value {
        let text = json!({"type": "string"});
        json!({
            "metadata": {"name": "foos.example.com"},
            "spec": {"group": "example.com", "names": {"plural": "foos", "kind": "Foo"}, "versions": [{
                "name": "v1",
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "configMapName": text,
                        "refs": {"type": "array", "items": {"type": "object", "properties": {"name": text, "namespace": text}}},
                        "labels": {"type": "object", "additionalProperties": text},
                        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "port": {"x-kubernetes-int-or-string": true},
                        "template": {"type": "object", "x-kubernetes-embedded-resource": true},
                    }},
                    "status": {"type": "object", "properties": {"phase": text}},
                }}},
            }]},
        })
    }

    fn watch(path: &str) -> Value {
        json!({"name": "foos", "apiVersion": "example.com/v1", "kind": "Foo", "trigger": "self",
            "indexes": [{"name": "by", "field": path}]})
    }

    fn warnings_of(watch: &Value, own: &[Value], others: &[Value]) -> Vec<String> {
        let descriptor = json!({
            "apiVersion": crate::config::descriptor::API_VERSION, "kind": "Plugin", "watches": [watch], "crds": own,
        });
        warnings(&serde_json::from_value(descriptor).expect("a descriptor"), others)
    }

    #[test]
    fn a_path_to_a_field_of_the_schema_is_accepted() {
        for path in [
            "{.spec.configMapName}",
            ".spec.refs[*].name",
            ".spec.refs[0].namespace",
            ".spec.labels.app",
            ".spec.labels[*]",
            ".spec.anything.at.all",
            ".spec.port",
            ".spec[*].name",
            ".spec.template.metadata.name",
            ".metadata.labels['a/b']",
            ".metadata.ownerReferences[*].uid",
            ".kind",
            "$.status.phase",
        ] {
            assert_eq!(warnings_of(&watch(path), &[crd()], &[]), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn a_path_that_no_object_has_is_a_warning_with_the_nearest_field() {
        for (path, problem) in [
            (
                ".spec.configmapName",
                ".spec has no field \"configmapName\"; did you mean .spec.configMapName?",
            ),
            (".spec.configMapNam", "did you mean .spec.configMapName?"),
            (
                ".configMapName",
                "the object has no field \"configMapName\"; did you mean .spec.configMapName?",
            ),
            (".spec.refs[*].phase", "did you mean .status.phase?"),
            (".spec.secret", "it has anything, configMapName, labels, port, refs, template"),
            (".spec.refs.name", ".spec.refs is an array; write .spec.refs[*].name"),
            (".spec.configMapName.key", ".spec.configMapName has the type string, in which there is no .key"),
            (
                ".spec.refs[*]",
                ".spec.refs[*] has the type object, and only texts, numbers and booleans are values",
            ),
            (".metadata.labels", ".metadata.labels has the type object"),
            (".metadata.lables", "did you mean .metadata.labels?"),
        ] {
            let warnings = warnings_of(&watch(path), &[], &[crd()]);
            assert_eq!(warnings.len(), 1, "{path}");
            let start = format!(
                "watch \"foos\": the index \"by\" of {path} finds nothing: in the CRD foos.example.com, "
            );
            assert!(warnings[0].starts_with(&start) && warnings[0].contains(problem), "{path}: {warnings:?}");
        }
    }

    #[test]
    fn both_paths_of_a_trigger_are_compared_and_only_with_a_schema_of_the_same_version() {
        let mut watch = watch(".spec.configMapName");
        watch["trigger"] =
            json!({"field": {"path": ".spec.refs[*].nam", "namespacePath": ".spec.ns", "watch": "foos"}});
        let warnings = warnings_of(&watch, &[crd()], &[]);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("the trigger's path .spec.refs[*].nam"), "{warnings:?}");
        assert!(warnings[0].ends_with("did you mean .spec.refs[*].name?"), "{warnings:?}");
        assert!(warnings[1].contains("the trigger's namespacePath .spec.ns"), "{warnings:?}");
        for (member, other) in [("apiVersion", "example.com/v2"), ("apiVersion", "v1"), ("kind", "Bar")] {
            let mut watch = watch.clone();
            watch[member] = json!(other);
            assert_eq!(warnings_of(&watch, &[crd()], &[]), Vec::<String>::new(), "{other}");
        }
    }

    #[test]
    fn the_warnings_about_a_large_schema_are_bounded() {
        let fields: serde_json::Map<_, _> = (0..5000)
            .map(|number| (format!("{}{number}", "f".repeat(90)), json!({"type": "string"})))
            .collect();
        let mut large = crd();
        large["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
            fields.into();
        let mut watch = watch(".spec.absent");
        let indexes: Vec<_> =
            (0..32).map(|number| json!({"name": format!("i{number}"), "field": ".spec.absent"})).collect();
        watch["indexes"] = indexes.into();
        let warnings = warnings_of(&watch, &[large], &[]);
        assert_eq!(warnings.len(), MAX_WARNINGS);
        assert!(
            warnings.iter().all(|warning| warning.len() < 1500 && warning.ends_with('…')),
            "{warnings:?}"
        );
    }
}
