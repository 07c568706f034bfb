//! JSONPath as kubectl writes it (`{.spec.containers[*].image}`), over an object's text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Object;

/// A parsed path: `.spec.nodeName`, `{.spec.containers[*].image}`, `$.metadata.labels['a.b/c']`.
///
/// Members, positions and `[*]` are found by scanning the object's text; a tree is built only for a path with filters,
/// slices or `..`, which are RFC 9535's.
///
/// ```
/// use pilothouse_model::{JsonPath, Object};
///
/// let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},
///     "spec":{"containers":[{"name":"main","image":"nginx"},{"name":"side","image":"envoy"}]}}"#;
/// let pod = Object::from_json(pod).unwrap();
/// assert_eq!(JsonPath::parse("{.spec.containers[*].image}").unwrap().values(&pod), ["nginx", "envoy"]);
/// assert_eq!(JsonPath::parse(".spec.containers[?(@.name=='side')].image").unwrap().values(&pod), ["envoy"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Way);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Steps(Vec<Step>),
    /// All else that RFC 9535 has.
    Query(serde_json_path::JsonPath),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Position(usize),
    All,
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path:?} is not a JSONPath: {problem} at column {column}; write it like .spec.containers[*].image or .metadata.labels['a/b']"
)]
pub struct JsonPathError {
    path: String,
    problem: &'static str,
    column: usize,
}

impl JsonPath {
    /// Parses `.a.b[0]['c'][*]`; the braces and the `$` of the longer forms are allowed, and a dot in a name is written
    /// `\\.`, as kubectl has it.
    ///
    /// # Errors
    /// Says where the text is malformed.
    pub fn parse(path: &str) -> Result<Self, JsonPathError> {
        let inner = path.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(path);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        let mut parser = Parser { path, rest: inner };
        match parser.steps() {
            Ok(steps) => Ok(Self(Way::Steps(steps))),
            // Where both refuse it, the simpler grammar says better what is wrong.
            Err(error) => match serde_json_path::JsonPath::parse(&format!("${inner}")) {
                Ok(query) if !inner.is_empty() => Ok(Self(Way::Query(query))),
                _ => Err(error),
            },
        }
    }

    /// The scalars at the path, as text, in document order: strings without their quotes, numbers as they are written.
    /// Objects, lists and null have no value.
    #[must_use]
    pub fn values(&self, object: &Object) -> Vec<String> {
        let steps = match &self.0 {
            Way::Steps(steps) => steps,
            Way::Query(query) => {
                let tree = object.to_value();
                return query.query(&tree).iter().filter_map(|value| scalar(value)).collect();
            }
        };
        let mut values = Vec::new();
        let mut deserializer = serde_json::Deserializer::from_str(object.json());
        // The text was validated when the object was made, so an error only ends the walk early.
        let _ = Walk { steps, single: !steps.contains(&Step::All), values: &mut values }
            .deserialize(&mut deserializer);
        values
    }
}

impl fmt::Display for JsonPath {
    /// In one form, however it was written: `$["spec"]["containers"][*]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = match &self.0 {
            Way::Query(query) => return query.fmt(f),
            Way::Steps(steps) => steps,
        };
        f.write_str("$")?;
        steps.iter().try_for_each(|step| match step {
            Step::Member(name) => write!(f, "[{name:?}]"),
            Step::Position(position) => write!(f, "[{position}]"),
            Step::All => f.write_str("[*]"),
        })
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

struct Parser<'a> {
    path: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn error(&self, problem: &'static str) -> JsonPathError {
        let offset =
            (self.rest.as_ptr() as usize).saturating_sub(self.path.as_ptr() as usize).min(self.path.len());
        let column = self.path.get(..offset).map_or(1, |before| before.chars().count() + 1);
        JsonPathError { path: self.path.to_owned(), problem, column }
    }

    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn steps(&mut self) -> Result<Vec<Step>, JsonPathError> {
        let mut steps = Vec::new();
        while !self.rest.is_empty() {
            steps.push(self.step()?);
        }
        if steps.is_empty() { Err(self.error("the path names nothing")) } else { Ok(steps) }
    }

    fn step(&mut self) -> Result<Step, JsonPathError> {
        let Some(rest) = self.rest.strip_prefix('.') else {
            return if self.rest.starts_with('[') {
                self.bracket()
            } else {
                Err(self.error("expected . or ["))
            };
        };
        self.rest = rest;
        if self.rest.starts_with('[') {
            return self.bracket();
        }
        match self.member().as_str() {
            "" => Err(self.error("a member name is missing")),
            "*" => Ok(Step::All),
            name => Ok(Step::Member(name.to_owned())),
        }
    }

    /// A name up to what ends it; after a backslash the next character belongs to it.
    fn member(&mut self) -> String {
        let mut name = String::new();
        let mut chars = self.rest.chars();
        loop {
            let rest = chars.as_str();
            match chars.next() {
                Some('\\') => name.extend(chars.next()),
                Some(char) if !".[]{}'\" ".contains(char) => name.push(char),
                _ => {
                    self.rest = rest;
                    return name;
                }
            }
        }
    }

    fn bracket(&mut self) -> Result<Step, JsonPathError> {
        let quote = self.rest.as_bytes().get(1).copied();
        if let Some(quote @ (b'\'' | b'"')) = quote {
            let inner = &self.rest[2..];
            let Some(len) = inner.find(quote as char) else {
                return Err(self.error("the quote is not closed"));
            };
            if !inner[len + 1..].starts_with(']') {
                return Err(self.error("expected ] after the quoted name"));
            }
            self.take(len + 4);
            return Ok(Step::Member(inner[..len].to_owned()));
        }
        let Some(len) = self.rest.find(']') else { return Err(self.error("the bracket is not closed")) };
        let step = match &self.rest[1..len] {
            "*" => Step::All,
            digits => match digits.parse() {
                Ok(position) => Step::Position(position),
                Err(_) => {
                    return Err(self.error("expected a position from 0, * or a quoted name in the brackets"));
                }
            },
        };
        self.take(len + 1);
        Ok(step)
    }
}

/// Walks the JSON text along the steps and skips all else: no tree is built.
struct Walk<'s> {
    steps: &'s [Step],
    /// Whether the path leads to one value at most, so that the walk may end there.
    single: bool,
    values: &'s mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if !self.steps.is_empty() {
            return deserializer.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        match raw.as_bytes().first() {
            Some(b'"') => self.values.extend(serde_json::from_str::<String>(raw).ok()),
            Some(b'{' | b'[' | b'n') | None => {}
            Some(_) => self.values.push(raw.to_owned()),
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let follow = match &self.steps[0] {
                Step::Member(wanted) => name.0 == wanted.as_str(),
                Step::All => true,
                Step::Position(_) => false,
            };
            if follow {
                map.next_value_seed(Walk {
                    steps: &self.steps[1..],
                    single: self.single,
                    values: self.values,
                })?;
                if self.single {
                    // A name stands there once, so the rest of the text need not be read.
                    return Err(serde::de::Error::custom("found"));
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for position in 0.. {
            let follow = match &self.steps[0] {
                Step::Position(wanted) => *wanted == position,
                Step::All => true,
                Step::Member(_) => false,
            };
            let more = if follow {
                seq.next_element_seed(Walk {
                    steps: &self.steps[1..],
                    single: self.single,
                    values: self.values,
                })?
                .is_some()
            } else {
                seq.next_element::<IgnoredAny>()?.is_some()
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    // A scalar where the path goes on has no value at the path.
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A member's name, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn values(path: &str) -> Vec<String> {
        let object = Object::from_json(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a.b/c":"x\"y","d-e":"f"}},
                "spec":{"n":1.50,"on":true,"none":null,"containers":[{"image":"i0","ports":[1,2]},{"image":"i1"}],
                "volumes":[{"secret":{"name":"s1"}},{"secret":{"name":"s2"}},{}]}}"#,
        )
        .expect("a pod");
        JsonPath::parse(path).expect(path).values(&object)
    }

    #[test]
    fn b23_paths_reach_members_positions_and_all_elements() {
        assert_eq!(values(".metadata.name"), ["p"]);
        assert_eq!(values("{.metadata.labels['a.b/c']}"), ["x\"y"]);
        assert_eq!(values("$.metadata.labels[\"a.b/c\"]"), ["x\"y"]);
        assert_eq!(values(r"{.metadata.labels.a\.b/c}"), ["x\"y"]);
        assert_eq!(values(".metadata.labels.d-e"), ["f"]);
        assert_eq!(values(".metadata.labels.*"), ["x\"y", "f"]);
        assert_eq!(values(".spec.containers[*].image"), ["i0", "i1"]);
        assert_eq!(values(".spec.containers[1].image"), ["i1"]);
        assert_eq!(values(".spec.containers[*].ports[*]"), ["1", "2"]);
        assert_eq!(values("{.spec.volumes[*].secret.name}"), ["s1", "s2"]);
        assert_eq!(values(".spec.on"), ["true"]);
    }

    #[test]
    fn scalars_are_found_by_any_form_of_the_path() {
        let one = JsonPath::parse(".spec.n").expect("a path");
        for path in ["{.spec.n}", ".spec.n", "$.spec.n", "{$.spec.n}", "{.spec['n']}", "{.['spec'].n}"] {
            assert_eq!(values(path), ["1.50"], "{path}");
            assert_eq!(JsonPath::parse(path).expect(path), one);
            assert_eq!(one.to_string(), r#"$["spec"]["n"]"#);
        }
    }

    #[test]
    fn what_goes_beyond_members_and_positions_is_rfc_9535s() {
        assert_eq!(values("{.spec.containers[?(@.image=='i1')].image}"), ["i1"]);
        assert_eq!(values(".spec.containers[-1].image"), ["i1"]);
        assert_eq!(values("{..secret.name}"), ["s1", "s2"]);
        assert_eq!(values(".spec.containers[0:1].image"), ["i0"]);
    }

    #[test]
    fn b23_what_is_absent_or_no_scalar_has_no_value() {
        for path in [
            ".spec.none",
            ".spec.containers",
            ".spec",
            ".spec.missing.more",
            ".spec.n.more",
            ".metadata[0]",
            "..missing",
            ".spec[?@.image]",
        ] {
            assert!(values(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_malformed_path_says_where() {
        for (path, column) in [
            ("", 1),
            ("$", 2),
            ("{}", 2),
            ("spec", 1),
            ("{.spec", 1),
            (".spec}", 6),
            ("..", 2),
            (".a[", 3),
            ("{.a[}", 4),
            (".a['b]", 3),
            (".a[x]", 3),
            (".a b", 3),
            (".a['b'", 3),
        ] {
            let error = JsonPath::parse(path).expect_err(path);
            assert_eq!(error.column, column, "{error}");
            let text = error.to_string();
            assert!(text.contains("is not a JSONPath") && !text.contains('\n'), "{text}");
        }
    }
}
