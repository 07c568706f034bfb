//! A path into an object's JSON, in the part of kubectl's JSONPath that names values: members, positions and `[*]`.

use std::borrow::Cow;
use std::fmt;

use pilothouse_model::Object;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Position(usize),
    All,
}

/// Why a path was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "field path {path:?}: {problem} at column {column}; write it like .spec.containers[*].image or .metadata.labels['a/b']"
)]
pub struct FieldPathError {
    path: String,
    problem: &'static str,
    column: usize,
}

impl FieldPath {
    /// Parses `.a.b[0]['c'][*]`; the braces and the `$` of the longer form are allowed.
    pub(super) fn parse(path: &str) -> Result<Self, FieldPathError> {
        let mut parser = Parser { path, rest: path };
        if let Some(inner) = path.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            parser.rest = inner;
        }
        parser.rest = parser.rest.strip_prefix('$').unwrap_or(parser.rest);
        let mut steps = Vec::new();
        while !parser.rest.is_empty() {
            steps.push(parser.step()?);
        }
        if steps.is_empty() {
            return Err(parser.error("the path names nothing"));
        }
        Ok(Self(steps))
    }

    /// The scalars at the path, in document order.
    pub(super) fn values(&self, object: &Object) -> Vec<String> {
        let mut values = Vec::new();
        let mut deserializer = serde_json::Deserializer::from_str(object.json());
        // The text was validated when the object was made, so an error only ends the walk early.
        let _ = Walk { steps: &self.0, single: !self.0.contains(&Step::All), values: &mut values }
            .deserialize(&mut deserializer);
        values
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| match step {
            Step::Member(name) => write!(f, "[{name:?}]"),
            Step::Position(position) => write!(f, "[{position}]"),
            Step::All => f.write_str("[*]"),
        })
    }
}

struct Parser<'a> {
    path: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn error(&self, problem: &'static str) -> FieldPathError {
        let offset =
            (self.rest.as_ptr() as usize).saturating_sub(self.path.as_ptr() as usize).min(self.path.len());
        let column = self.path.get(..offset).map_or(1, |before| before.chars().count() + 1);
        FieldPathError { path: self.path.to_owned(), problem, column }
    }

    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn step(&mut self) -> Result<Step, FieldPathError> {
        if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            if self.rest.starts_with('[') {
                return self.bracket();
            }
            let len = self.rest.find(['.', '[', ']', '{', '}', '\'', '"', ' ']).unwrap_or(self.rest.len());
            return match self.rest.get(..len) {
                Some("") | None => Err(self.error("a member name is missing")),
                Some("*") => {
                    self.take(len);
                    Ok(Step::All)
                }
                Some(_) => Ok(Step::Member(self.take(len).to_owned())),
            };
        }
        if self.rest.starts_with('[') { self.bracket() } else { Err(self.error("expected . or [")) }
    }

    fn bracket(&mut self) -> Result<Step, FieldPathError> {
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
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a.b/c":"x\"y"}},
                "spec":{"n":1.50,"on":true,"none":null,"containers":[{"image":"i0","ports":[1,2]},{"image":"i1"}]}}"#,
        )
        .expect("a pod");
        FieldPath::parse(path).expect(path).values(&object)
    }

    #[test]
    fn b23_paths_reach_members_positions_and_all_elements() {
        assert_eq!(values(".metadata.name"), ["p"]);
        assert_eq!(values("{.metadata.labels['a.b/c']}"), ["x\"y"]);
        assert_eq!(values("$.metadata.labels[\"a.b/c\"]"), ["x\"y"]);
        assert_eq!(values(".spec.containers[*].image"), ["i0", "i1"]);
        assert_eq!(values(".spec.containers[1].image"), ["i1"]);
        assert_eq!(values(".spec.containers[*].ports[*]"), ["1", "2"]);
        assert_eq!(values(".spec.n"), ["1.50"]);
        assert_eq!(values(".spec.on"), ["true"]);
    }

    #[test]
    fn b23_what_is_absent_or_no_scalar_has_no_value() {
        for path in
            [".spec.none", ".spec.containers", ".spec", ".spec.missing.more", ".spec.n.more", ".metadata[0]"]
        {
            assert!(values(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_malformed_path_says_where() {
        for (path, column) in [
            ("", 1),
            ("spec", 1),
            (".spec..x", 7),
            (".a[", 3),
            (".a['b]", 3),
            (".a[-1]", 3),
            (".a b", 3),
            (".a['b'", 3),
        ] {
            let error = FieldPath::parse(path).expect_err(path);
            assert_eq!(error.column, column, "{error}");
        }
    }
}
