//! Fields that are named as a kind: `deployment`, `deploymentName`, `deploymentRef.name`, `deployments[*]`. They probably name objects of that kind.

use serde_json::Value;

use super::schema::{NOT_WRITTEN, sorted};

/// The most levels of a schema that are searched.
const MAX_DEPTH: usize = 8;
/// The most fields for one kind.
const MAX_FIELDS: usize = 20;

/// Whether a member is named as one of the kinds, whose names are in lower case.
pub(super) fn is_kind(member: &str, kinds: &[String]) -> bool {
    let lower = member.to_lowercase();
    kinds.iter().any(|kind| Form::of(&lower, kind).is_some())
}

/// Returns the JSONPaths of the fields in which objects of a schema name one of another kind, in the order of the fields. A field that names a
/// namespace says where something is, and is none.
pub(super) fn fields(schema: &Value, kind: &str) -> Vec<String> {
    let kind = kind.to_lowercase();
    let mut found = Vec::new();
    if kind != "namespace"
        && let Some(properties) = schema["properties"].as_object()
    {
        for (member, schema) in sorted(properties) {
            if !NOT_WRITTEN.contains(&member.as_str()) {
                search(schema, member, "", &kind, 0, &mut found);
            }
        }
    }
    found.truncate(MAX_FIELDS);
    found.into_iter().map(|path| format!("{{{path}}}")).collect()
}

/// How a member is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `secret`, `secretName` or `secretRef`.
    One,
    /// `secrets`, `secretNames` or `secretRefs`.
    Several,
}

impl Form {
    /// Both names are in lower case.
    fn of(member: &str, kind: &str) -> Option<Self> {
        match member.strip_prefix(kind)? {
            "" | "name" | "ref" => Some(Self::One),
            "s" | "es" | "names" | "refs" => Some(Self::Several),
            _ => None,
        }
    }
}

fn search(schema: &Value, member: &str, parent: &str, kind: &str, depth: usize, found: &mut Vec<String>) {
    // Such a member cannot be a part of a simple JSONPath.
    if depth > MAX_DEPTH || !member.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    {
        return;
    }
    let path = format!("{parent}.{member}");
    let form = Form::of(&member.to_lowercase(), kind);
    let items = &schema["items"];
    match form {
        Some(Form::One) => found.extend(named_text(schema, &path)),
        Some(Form::Several) => found.extend(named_text(items, &format!("{path}[*]"))),
        None => {}
    }
    for (schema, path) in [(schema, path.clone()), (items, format!("{path}[*]"))] {
        for (member, schema) in schema["properties"].as_object().into_iter().flat_map(sorted) {
            search(schema, member, &path, kind, depth + 1, found);
        }
    }
}

/// Returns the path of the text that names an object: the value itself, or its member `name`.
fn named_text(schema: &Value, path: &str) -> Option<String> {
    if schema["type"] == "string" {
        return Some(path.to_owned());
    }
    (schema["properties"]["name"]["type"] == "string").then(|| format!("{path}.name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        let text = || json!({"type": "string"});
        let reference = || json!({"type": "object", "properties": {"name": text(), "namespace": text()}});
        json!({"type": "object", "properties": {
            "status": {"type": "object", "properties": {"secretName": text()}},
            "spec": {"type": "object", "properties": {
                "deployment": text(),
                "secretName": text(),
                "configMapRef": reference(),
                "SECRETS": {"type": "array", "items": text()},
                "nested": {"type": "array", "items": {"type": "object", "properties": {"secretRef": reference(), "a.secret": text()}}},
                "secretRefs": {"type": "array", "items": reference()},
                "secretKey": text(),
                "configMap": {"type": "integer"},
                "namespace": text(),
            }},
        }})
    }

    #[test]
    fn fields_named_as_a_kind_are_found() {
        let found = |kind: &str| fields(&schema(), kind);
        assert_eq!(found("Deployment"), ["{.spec.deployment}"]);
        assert_eq!(found("ConfigMap"), ["{.spec.configMapRef.name}"]);
        assert_eq!(
            found("Secret"),
            [
                "{.spec.SECRETS[*]}",
                "{.spec.nested[*].secretRef.name}",
                "{.spec.secretName}",
                "{.spec.secretRefs[*].name}"
            ]
        );
        assert_eq!(found("Namespace"), [""; 0]);
        assert_eq!(found("Zoo"), [""; 0]);
    }

    #[test]
    fn members_are_compared_in_lower_case() {
        let kinds = ["deployment".to_owned(), "configmap".to_owned()];
        for (member, expected) in
            [("Deployment", true), ("configMaps", true), ("configMapKey", false), ("map", false)]
        {
            assert_eq!(is_kind(member, &kinds), expected, "{member}");
        }
    }
}
