//! The texts of a custom resource that a user chooses freely: a plugin may name objects after them.

use serde_json::{Map, Value};

use super::{NOT_WRITTEN, is_name, sorted, with_metadata};
use crate::scenario::generate::validate::validate;

/// The most levels that are searched.
const MAX_DEPTH: usize = 8;

/// A text in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scenario::generate) struct TextField {
    /// The JSON pointer.
    pub(in crate::scenario::generate) pointer: String,
    /// Whether the member probably names an object.
    is_name: bool,
}

impl TextField {
    /// Returns the JSONPath, in which a list is searched: `{.spec.pools[*].name}`.
    pub(in crate::scenario::generate) fn json_path(&self) -> String {
        let is_index = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let part = |part: &str| if is_index(part) { "[*]".to_owned() } else { format!(".{part}") };
        let parts: String = self.pointer.split('/').skip(1).map(part).collect();
        format!("{{{parts}}}")
    }
}

/// Returns the texts of an object that its schema leaves to the user, those that probably name an object first. Of each list, only the first item is
/// searched.
pub(in crate::scenario::generate) fn text_fields(
    schema: &Value,
    object: &Value,
    kinds: &[String],
) -> Vec<TextField> {
    let mut search = Search { kinds, pointer: String::new(), found: Vec::new() };
    let members: Map<String, Value> = object.as_object().cloned().unwrap_or_default();
    for (member, value) in sorted(&members) {
        if !NOT_WRITTEN.contains(&member.as_str()) {
            search.member(&schema["properties"][member], value, member, member, 1);
        }
    }
    search.found.sort_by_key(|field| !field.is_name);
    search.found
}

/// Returns the object with another text at a pointer; `None` if the schema does not allow that, or the change from `object` to it.
pub(in crate::scenario::generate) fn with_text(
    schema: &Value,
    object: &Value,
    pointer: &str,
    text: &str,
) -> Option<Value> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut changed = object.clone();
    *changed.pointer_mut(pointer)? = text.into();
    let is_valid =
        validate(schema, &with_metadata(&changed, name), Some(&with_metadata(object, name))).is_ok();
    is_valid.then_some(changed)
}

struct Search<'a> {
    kinds: &'a [String],
    pointer: String,
    found: Vec<TextField>,
}

impl Search<'_> {
    /// Searches a value. `member` is the name by which it is known, and `part` what the pointer says.
    fn member(&mut self, schema: &Value, value: &Value, member: &str, part: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
        match value {
            Value::Object(members) => {
                for (name, value) in sorted(members) {
                    let own = schema["properties"].get(name);
                    let other = schema.get("additionalProperties").filter(|other| other.is_object());
                    if let Some(schema) = own.or(other) {
                        self.member(schema, value, name, name, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                for value in items.iter().take(1) {
                    self.member(&schema["items"], value, member, "0", depth + 1);
                }
            }
            Value::String(_) if is_free(schema, member) => {
                let is_name = is_name(member, self.kinds);
                self.found.push(TextField { pointer: self.pointer.clone(), is_name });
            }
            _ => {}
        }
        self.pointer.truncate(length);
    }
}

/// Whether a user may choose the text. Where an object is, is another question than how it is named.
fn is_free(schema: &Value, member: &str) -> bool {
    !schema["enum"].is_array()
        && !schema["format"].is_string()
        && !member.to_lowercase().ends_with("namespace")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        let text = || json!({"type": "string"});
        json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "pools": {"type": "array", "items": {"type": "object", "properties": {"zone": text(), "name": {"type": "string", "maxLength": 6}}}},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "date": {"type": "string", "format": "date"},
                "targetNamespace": text(),
                "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                "labels": {"type": "object", "additionalProperties": text()},
            }},
        }})
    }

    fn object() -> Value {
        json!({"metadata": {"name": "sample-a"}, "status": {"name": "x"}, "spec": {
            "pools": [{"zone": "z", "name": "p"}, {"name": "q"}], "mode": "a", "date": "2026-01-01", "targetNamespace": "n", "fixed": "f",
            "labels": {"a/b": "c"},
        }})
    }

    #[test]
    fn texts_that_users_choose_are_found_names_first() {
        let found = text_fields(&schema(), &object(), &[]);
        let pointers: Vec<_> = found.iter().map(|field| field.pointer.as_str()).collect();
        assert_eq!(
            pointers,
            ["/spec/pools/0/name", "/spec/fixed", "/spec/labels/a~1b", "/spec/pools/0/zone"]
        );
        assert_eq!(found[0].json_path(), "{.spec.pools[*].name}");
    }

    #[test]
    fn a_text_is_changed_within_the_schema() {
        let changed = |pointer: &str, text: &str| with_text(&schema(), &object(), pointer, text);
        let renamed = changed("/spec/pools/0/name", "quince").expect("a change");
        assert_eq!(renamed["spec"]["pools"], json!([{"zone": "z", "name": "quince"}, {"name": "q"}]));
        assert_eq!(changed("/spec/pools/0/name", "quinces"), None, "too long");
        assert_eq!(changed("/spec/fixed", "g"), None, "immutable");
    }
}
