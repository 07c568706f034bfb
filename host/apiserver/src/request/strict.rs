//! Strict decoding of JSON: finds the unknown fields and the members that occur more than once, which `fieldValidation` reports.

use std::fmt::{self, Write as _};
use std::rc::Rc;

use pilothouse_model::hash::HashSet;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::go;
use crate::schema::{AdditionalProperties, SchemaRef, preserves_unknown};

/// The most fields that are reported, as in `sigs.k8s.io/json`.
pub(crate) const MAX_ERRORS: usize = 100;

/// The most fields that are collected before equal ones are removed.
const MAX_COLLECTED: usize = 2 * MAX_ERRORS;

/// The length in bytes after which a reported path is cut, because names can be as long as the body.
const MAX_PATH_LENGTH: usize = 1024;

/// What strict decoding finds in a body.
#[derive(Debug, Default)]
pub(crate) struct StrictErrors {
    /// The keys that a YAML body has more than once: `line 5: key "name" already set in map`.
    pub yaml: Vec<String>,
    /// The unknown and duplicate fields of a JSON body in the order of its text: `duplicate field "metadata.name"`.
    pub fields: Vec<String>,
    /// Whether `fields` has the unknown fields, too. They are found later for kinds that Go does not decode into a type.
    pub has_unknown: bool,
}

impl StrictErrors {
    /// Returns the errors that the answer to a request lists. Those of YAML are one error.
    pub(crate) fn errors(self) -> Vec<String> {
        yaml_error(&self.yaml).into_iter().chain(self.fields).collect()
    }

    /// Returns the warnings that the answer to a request has.
    pub(crate) fn warnings(self) -> Vec<String> {
        self.yaml.into_iter().chain(self.fields).collect()
    }
}

/// Returns Go's error about keys that a YAML text has more than once; `None` if it has none.
pub(crate) fn yaml_error(lines: &[String]) -> Option<String> {
    (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", lines.join("\n  ")))
}

/// Returns the error about an unknown field of a Go type.
pub(crate) fn unknown_field(path: &str) -> String {
    format!("unknown field {}", go::quoted(path))
}

/// What is checked in a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'s> {
    /// A value without a Go type: its objects may have any members, each once.
    Untyped,
    /// A value of a built-in type, which has known fields.
    Typed(SchemaRef<'s>),
    /// The operations of a JSON patch.
    PatchOperations,
    /// An operation of a JSON patch.
    PatchOperation,
    /// A value that is skipped, or decoded by a function of its type: nothing is reported.
    Unchecked,
}

impl Target<'_> {
    fn of_value(self) -> Self {
        match self {
            Self::Typed(schema) if preserves_unknown(schema) => Self::Unchecked,
            target => target,
        }
    }

    /// Returns the target of a member; `None` if it is unknown.
    fn of_member(self, name: &str) -> Option<Self> {
        match self {
            Self::Typed(schema) => match (schema.field(name), schema.node().additional) {
                (Some(field), _) => Some(Self::Typed(field)),
                (None, AdditionalProperties::Forbidden) => None,
                (None, _) => Some(Self::Untyped),
            },
            Self::PatchOperation => ["op", "path", "from", "value"].contains(&name).then_some(Self::Untyped),
            target => Some(target),
        }
    }

    fn of_item(self) -> Self {
        match self {
            Self::Typed(schema) => schema.items().map_or(Self::Unchecked, Self::Typed),
            Self::PatchOperations => Self::PatchOperation,
            Self::PatchOperation => Self::Unchecked,
            target => target,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unknown,
    Duplicate,
}

/// A step of the path to a member.
enum Step {
    Member(Rc<str>),
    Item(usize),
}

/// An unknown or duplicate field.
struct Found {
    kind: Kind,
    /// The path to the member, the last step first.
    path: Vec<Step>,
}

impl Found {
    fn text(&self) -> String {
        let path = display(&self.path);
        match self.kind {
            Kind::Unknown => unknown_field(&path),
            Kind::Duplicate => format!("duplicate field {}", go::quoted(&path)),
        }
    }

    /// Whether this is the member `name` of the object that was read last.
    fn is_member(&self, kind: Kind, name: &str) -> bool {
        self.kind == kind && matches!(&self.path[..], [Step::Member(member)] if **member == *name)
    }
}

/// Parses JSON. Returns the value, in which the last of several equal members counts, and the unknown and duplicate fields in the order of the text.
///
/// # Errors
/// The text is not JSON.
pub(crate) fn parse(text: &[u8], target: Target<'_>) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Seed { target, found: &mut found }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    let mut known = HashSet::default();
    let texts = found.iter().map(Found::text).filter(|text| known.insert(text.clone()));
    Ok((value, texts.take(MAX_ERRORS).collect()))
}

fn display(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path.iter().rev() {
        match step {
            Step::Item(index) => {
                let _ = write!(text, "[{index}]");
            }
            Step::Member(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
        }
        if text.len() > MAX_PATH_LENGTH {
            text.truncate(text.floor_char_boundary(MAX_PATH_LENGTH));
            text.push_str("...");
            break;
        }
    }
    text
}

/// Deserializes a value and adds the fields in it to `found`. Paths are built only for these.
struct Seed<'s, 'f> {
    target: Target<'s>,
    found: &'f mut Vec<Found>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let target = self.target.of_value().of_item();
        let mut list = Vec::new();
        loop {
            let before = self.found.len();
            let Some(item) = items.next_element_seed(Seed { target, found: &mut *self.found })? else {
                return Ok(Value::Array(list));
            };
            for found in self.found.iter_mut().skip(before) {
                found.path.push(Step::Item(list.len()));
            }
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let target = self.target.of_value();
        let is_checked = !matches!(target, Target::Unchecked);
        let first = self.found.len();
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let before = self.found.len();
            let (target, kind) = match target.of_member(&name) {
                None => (Target::Unchecked, Some(Kind::Unknown)),
                Some(target) => {
                    (target, (is_checked && object.contains_key(&name)).then_some(Kind::Duplicate))
                }
            };
            let value = members.next_value_seed(Seed { target, found: &mut *self.found })?;
            let kind = kind.filter(|kind| {
                before < MAX_COLLECTED
                    && !self.found[first..before].iter().any(|found| found.is_member(*kind, &name))
            });
            if kind.is_some() || self.found.len() > before {
                let shared: Rc<str> = name.as_str().into();
                for found in self.found.iter_mut().skip(before) {
                    found.path.push(Step::Member(Rc::clone(&shared)));
                }
                if let Some(kind) = kind {
                    // Before what is in the value, as in the text.
                    self.found.insert(before, Found { kind, path: vec![Step::Member(shared)] });
                }
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schema;

    fn untyped(text: &[u8]) -> (Value, Vec<String>) {
        parse(text, Target::Untyped).expect("JSON")
    }

    #[test]
    fn value_is_that_of_serde_json() {
        let text =
            br#"{"a": [1, -2, 3.5, 1e3, 18446744073709551615, true, null, "x\n\u00e9"], "b": {"c": {}}}"#;
        let (value, found) = untyped(text);
        assert_eq!(value, serde_json::from_slice::<Value>(text).expect("JSON"));
        assert_eq!(found, [""; 0]);
        assert!(parse(b"{} x", Target::Untyped).is_err());
        let error = parse(b"{\"a\": }", Target::Untyped).expect_err("not JSON");
        assert!(error.to_string().contains("line 1 column 7"));
        assert!(parse("[".repeat(1000).as_bytes(), Target::Untyped).is_err(), "nesting is bounded");
    }

    #[test]
    fn duplicates_have_the_order_of_the_text_and_the_last_value_counts() {
        let text = br#"{"a": {"b": [{"c": 1, "c": 2, "c": 3}, {"d": 1}]}, "e": 1, "e": {"f": 1, "f": 2}}"#;
        let (value, found) = untyped(text);
        assert_eq!(value, json!({"a": {"b": [{"c": 3}, {"d": 1}]}, "e": {"f": 2}}));
        assert_eq!(
            found,
            [r#"duplicate field "a.b[0].c""#, r#"duplicate field "e""#, r#"duplicate field "e.f""#]
        );
    }

    #[test]
    fn unknown_fields_of_a_type_are_between_the_duplicates() {
        let schema = Schema::builtin("apps", "v1", "Deployment").expect("a built-in kind");
        let text = br#"{
            "other": {"a": 1, "a": 2}, "other": 1, "metadata": {"name": "a", "annotations": {"a": "1", "a": "2"}, "name": "b"},
            "spec": {"template": {"spec": {"containers": [{"unknown": 1, "image": "a", "image": "b"}]}}}
        }"#;
        let (_, found) = parse(text, Target::Typed(schema.root())).expect("JSON");
        let expected = [
            r#"unknown field "other""#,
            r#"duplicate field "metadata.annotations.a""#,
            r#"duplicate field "metadata.name""#,
            r#"unknown field "spec.template.spec.containers[0].unknown""#,
            r#"duplicate field "spec.template.spec.containers[0].image""#,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_type_decodes_itself_is_not_checked() {
        let schema = Schema::builtin("apps", "v1", "ControllerRevision").expect("a built-in kind");
        let text = br#"{"data": {"a": 1, "a": {"b": 1, "b": 2}}, "revision": 1, "revision": 2}"#;
        let (_, found) = parse(text, Target::Typed(schema.root())).expect("JSON");
        assert_eq!(found, [r#"duplicate field "revision""#]);
    }

    #[test]
    fn operations_of_a_json_patch_have_four_members() {
        let text = br#"[{"op": "add", "path": "/a", "value": {"b": 1, "b": 2}, "foo": 1}, {"op": "test", "op": "add"}]"#;
        let (_, found) = parse(text, Target::PatchOperations).expect("JSON");
        let expected =
            [r#"duplicate field "[0].value.b""#, r#"unknown field "[0].foo""#, r#"duplicate field "[1].op""#];
        assert_eq!(found, expected);
    }

    #[test]
    fn number_and_length_of_what_is_reported_are_bounded() {
        let members: Vec<String> = (0..500).map(|number| format!(r#""a{number}": 1"#)).collect();
        let many = format!("{{{0}, {0}}}", members.join(","));
        assert_eq!(untyped(many.as_bytes()).1.len(), MAX_ERRORS);
        let same = format!(r#"{{{}, "b": {{"c": 1, "c": 2}}}}"#, vec!["\"a\": 1"; 500].join(","));
        assert_eq!(untyped(same.as_bytes()).1, [r#"duplicate field "a""#, r#"duplicate field "b.c""#]);
        let long = format!("{{\"{}\": {{\"a\": 1, \"a\": 2}}}}", "é".repeat(MAX_PATH_LENGTH));
        let reported = untyped(long.as_bytes()).1.remove(0);
        assert!(reported.len() <= MAX_PATH_LENGTH + 30 && reported.ends_with("é...\""), "{reported}");
    }
}
