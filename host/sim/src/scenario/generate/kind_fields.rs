//! Fields that are named as a kind: `deployment`, `deploymentName`, `deploymentRef.name`, `deployments[*]`, `existingSecret`, `tlsSecretName`. They
//! probably name objects of that kind.

use serde_json::Value;

use super::schema::{NOT_WRITTEN, sorted};

/// The most levels of a schema that are searched.
const MAX_DEPTH: usize = 8;
/// The most fields for one kind.
const MAX_FIELDS: usize = 20;
/// The most members of a schema that are searched.
const MAX_MEMBERS: usize = 20_000;

/// Whether a member is named as one of the kinds, whose names are in lower case.
pub(super) fn is_kind(member: &str, kinds: &[String]) -> bool {
    kinds.iter().any(|kind| Form::of(member, kind).is_some())
}

/// Returns the JSONPaths of the fields in which objects of a schema name one of another kind, in the order of the fields. A field that names a
/// namespace says where something is, and is none.
pub(super) fn fields(schema: &Value, kind: &str) -> Vec<String> {
    let kind = kind.to_lowercase();
    let mut search = Search { kind: &kind, path: Vec::new(), left: MAX_MEMBERS, found: Vec::new() };
    if kind != "namespace"
        && let Some(properties) = schema["properties"].as_object()
    {
        for (member, schema) in sorted(properties) {
            if !NOT_WRITTEN.contains(&member.as_str()) {
                search.member(schema, member);
            }
        }
    }
    search.found.into_iter().map(|path| format!("{{{path}}}")).collect()
}

/// How a member is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `secret`, `secretName`, `secretRef` or `secretKeyRef`.
    One,
    /// `secrets`, `secretNames` or `secretRefs`.
    Several,
}

/// The items of a list in a JSONPath.
const ITEMS: &str = "[*]";

impl Form {
    /// `kind` is in lower case. Other words may come first if the kind begins with a capital letter.
    fn of(member: &str, kind: &str) -> Option<Self> {
        let lower = member.to_lowercase();
        let form = |rest: &str| match rest {
            "" | "name" | "ref" | "keyref" => Some(Self::One),
            "s" | "es" | "names" | "refs" => Some(Self::Several),
            _ => None,
        };
        if let Some(found) = lower.strip_prefix(kind).and_then(form) {
            return Some(found);
        }
        let (at, _) = lower.rmatch_indices(kind).next().filter(|_| member.is_ascii())?;
        let is_word = member.as_bytes()[at].is_ascii_uppercase();
        form(&lower[at + kind.len()..]).filter(|_| is_word)
    }
}

struct Search<'a> {
    /// In lower case.
    kind: &'a str,
    /// The members that lead to the current one. `[*]` stands for the items of a list.
    path: Vec<&'a str>,
    /// How many more members are searched.
    left: usize,
    found: Vec<String>,
}

impl<'a> Search<'a> {
    fn member(&mut self, schema: &'a Value, member: &'a str) {
        let depth = self.path.iter().filter(|part| **part != ITEMS).count();
        // A member with other characters cannot be a part of a simple JSONPath.
        let is_plain = member.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if depth > MAX_DEPTH || !is_plain || self.left == 0 {
            return;
        }
        self.left -= 1;
        self.path.push(member);
        let items = &schema["items"];
        let name = match Form::of(member, self.kind) {
            Some(Form::One) => named_text(schema),
            Some(Form::Several) => named_text(items).map(|name| format!("{ITEMS}{name}")),
            None => None,
        };
        if let Some(name) = name.filter(|_| self.found.len() < MAX_FIELDS) {
            let members = self
                .path
                .iter()
                .map(|part| if *part == ITEMS { ITEMS.to_owned() } else { format!(".{part}") });
            self.found.push(members.chain([name]).collect());
        }
        self.members_of(schema);
        self.path.push(ITEMS);
        self.members_of(items);
        self.path.pop();
        self.path.pop();
    }

    fn members_of(&mut self, schema: &'a Value) {
        for (member, schema) in schema["properties"].as_object().into_iter().flat_map(sorted) {
            self.member(schema, member);
        }
    }
}

/// Returns the rest of the path to the text that names an object: "" for the value itself, or its member `name`.
fn named_text(schema: &Value) -> Option<String> {
    if schema["type"] == "string" {
        return Some(String::new());
    }
    (schema["properties"]["name"]["type"] == "string").then(|| ".name".to_owned())
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
    fn a_large_schema_is_searched_in_part() {
        let text = json!({"type": "string"});
        let members = |number: usize, name: &str| -> Value {
            (0..number).map(|index| (format!("{name}{index:05}"), text.clone())).collect()
        };
        let object = |members: Value| json!({"type": "object", "properties": members});
        let many = object(json!({
            "a": object(members(MAX_MEMBERS, "x")),
            "secretName": text,
        }));
        assert_eq!(fields(&many, "Secret"), [""; 0], "it comes too late");
        let named: Value =
            (0..100).map(|index| (format!("o{index:02}"), object(json!({"secret": text})))).collect();
        assert_eq!(fields(&object(named), "Secret").len(), MAX_FIELDS);
        let deep = (0..200).fold(json!({"type": "string"}), |schema, _| object(json!({"secret": schema})));
        assert!(fields(&deep, "Secret").len() <= MAX_FIELDS);
    }

    #[test]
    fn a_member_may_have_other_words_in_front_of_the_kind() {
        let kinds = ["deployment".to_owned(), "configmap".to_owned()];
        for (member, expected) in [
            ("Deployment", true),
            ("configMaps", true),
            ("configMapKey", false),
            ("configMapKeyRef", true),
            ("map", false),
            ("userConfigMap", true),
            ("baseDeploymentName", true),
            ("redeployment", false),
            ("deploymentStrategy", false),
            ("übergangsDeployment", false),
        ] {
            assert_eq!(is_kind(member, &kinds), expected, "{member}");
        }
    }
}
