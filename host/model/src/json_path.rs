//! Simple JSONPaths in kubectl's notation (`{.spec.containers[*].image}`), evaluated on an object's text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::Object;
use crate::quoted::Quoted;

/// A parsed path: `.spec.nodeName`, `{.spec.containers[*].image}`, `$.metadata.labels['a.b/c']`.
///
/// Only members, indexes and `[*]` are supported. They are evaluated in one pass over the object's text, so every path takes time linear in
/// the size of the object. Filters, slices and `..` are refused.
///
/// ```
/// use pilothouse_model::{JsonPath, Object};
///
/// let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},
///     "spec":{"containers":[{"name":"main","image":"nginx"},{"name":"side","image":"envoy"}]}}"#;
/// let pod = Object::from_json(pod).unwrap();
/// assert_eq!(JsonPath::parse("{.spec.containers[*].image}").unwrap().values(&pod), ["nginx", "envoy"]);
/// assert!(JsonPath::parse(".spec.containers[?(@.name=='side')].image").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Index(usize),
    All,
}

/// A step of a [`JsonPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonPathStep<'a> {
    /// The member of an object with this name.
    Member(&'a str),
    /// The element of an array at this index, from 0.
    Index(usize),
    /// All elements of an array, or all members of an object.
    All,
}

/// The longest path in bytes.
pub const MAX_JSON_PATH_LENGTH: usize = 1024;
/// The most members, indexes and `[*]` of a path. Each is a level of recursion.
pub const MAX_JSON_PATH_STEPS: usize = 64;

const NOT_SIMPLE: &str = "filters, slices, lists of names and .. are not evaluated by the host (compute such an index in the plugin, with computed: true)";

/// Why a path was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not a JSONPath: {problem} at column {column}; write it like .spec.containers[*].image or .metadata.labels['a/b']",
    Quoted(.path)
)]
pub struct JsonPathError {
    path: String,
    problem: &'static str,
    column: usize,
}

impl JsonPath {
    /// Parses a path such as `.a.b[0]['c'][*]`. Braces and `$` around it are allowed, and a dot in a name is escaped as `\.`, as in kubectl.
    ///
    /// # Errors
    /// If the path is malformed, too long, or uses an unsupported feature. The error names the column.
    pub fn parse(path: &str) -> Result<Self, JsonPathError> {
        if path.len() > MAX_JSON_PATH_LENGTH {
            let shown: String = path.chars().take(64).collect();
            return Err(JsonPathError {
                path: shown + "...",
                problem: "it is longer than 1024 bytes",
                column: 1,
            });
        }
        let inner = path.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(path);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        Parser { path, rest: inner }.steps().map(Self)
    }

    /// Returns the steps of the path, at least one.
    ///
    /// ```
    /// use pilothouse_model::{JsonPath, JsonPathStep};
    ///
    /// let path = JsonPath::parse("{.spec.ports[0]}").unwrap();
    /// let steps: Vec<_> = path.steps().collect();
    /// assert_eq!(steps, [JsonPathStep::Member("spec"), JsonPathStep::Member("ports"), JsonPathStep::Index(0)]);
    /// ```
    pub fn steps(&self) -> impl Iterator<Item = JsonPathStep<'_>> {
        self.0.iter().map(|step| match step {
            Step::Member(name) => JsonPathStep::Member(name),
            Step::Index(index) => JsonPathStep::Index(*index),
            Step::All => JsonPathStep::All,
        })
    }

    /// Returns the scalars at the path as text, in document order: strings without quotes, numbers as they are written. Objects, arrays and
    /// nulls are left out.
    #[must_use]
    pub fn values(&self, object: &Object) -> Vec<String> {
        let steps = &self.0;
        let mut values = Vec::new();
        let mut deserializer = serde_json::Deserializer::from_str(object.json());
        // The text was validated when the object was parsed, so an error only means that the search ended early.
        let _ = Search { steps, single: !steps.contains(&Step::All), values: &mut values }
            .deserialize(&mut deserializer);
        values
    }
}

impl fmt::Display for JsonPath {
    /// Writes the path in a canonical form: `$["spec"]["containers"][*]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        self.0.iter().try_for_each(|step| match step {
            Step::Member(name) => write!(f, "[{name:?}]"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::All => f.write_str("[*]"),
        })
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
            if steps.len() > MAX_JSON_PATH_STEPS {
                return Err(self.error("it has more than 64 steps"));
            }
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
            "" if self.rest.starts_with('.') => Err(self.error(NOT_SIMPLE)),
            "" => Err(self.error("a member name is missing")),
            "*" => Ok(Step::All),
            name => Ok(Step::Member(name.to_owned())),
        }
    }

    /// Reads a member name. A backslash escapes the next character.
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
        let first = self.rest.as_bytes().get(1).copied();
        if let Some(quote @ (b'\'' | b'"')) = first {
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
        if first == Some(b'?') {
            return Err(self.error(NOT_SIMPLE));
        }
        let Some(len) = self.rest.find(']') else { return Err(self.error("the bracket is not closed")) };
        let step = match &self.rest[1..len] {
            "*" => Step::All,
            digits => match digits.parse() {
                Ok(index) => Step::Index(index),
                Err(_) if digits.contains([':', ',']) || digits.starts_with('-') => {
                    return Err(self.error(NOT_SIMPLE));
                }
                Err(_) => {
                    return Err(self.error("expected an index from 0, * or a quoted name in the brackets"));
                }
            },
        };
        self.take(len + 1);
        Ok(step)
    }
}

/// Follows the steps through the JSON text and skips other values, without building a tree.
struct Search<'s> {
    steps: &'s [Step],
    /// Whether the path leads to at most one value, so that the search can end there.
    single: bool,
    values: &'s mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Search<'_> {
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

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let matches = match &self.steps[0] {
                Step::Member(wanted) => name.0 == wanted.as_str(),
                Step::All => true,
                Step::Index(_) => false,
            };
            if matches {
                map.next_value_seed(Search {
                    steps: &self.steps[1..],
                    single: self.single,
                    values: self.values,
                })?;
                if self.single {
                    // Names are unique, so the rest of the text need not be read.
                    return Err(serde::de::Error::custom("found"));
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for index in 0.. {
            let matches = match &self.steps[0] {
                Step::Index(wanted) => *wanted == index,
                Step::All => true,
                Step::Member(_) => false,
            };
            let has_element = if matches {
                seq.next_element_seed(Search {
                    steps: &self.steps[1..],
                    single: self.single,
                    values: self.values,
                })?
                .is_some()
            } else {
                seq.next_element::<IgnoredAny>()?.is_some()
            };
            if !has_element {
                break;
            }
        }
        Ok(())
    }

    // A scalar has no members or elements, so a path that continues there has no value.
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

/// A member's name, borrowed if it has no escapes.
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
    fn paths_reach_members_indexes_and_all_elements() {
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
    fn all_notations_of_a_path_find_the_same_scalar() {
        let one = JsonPath::parse(".spec.n").expect("a path");
        for path in ["{.spec.n}", ".spec.n", "$.spec.n", "{$.spec.n}", "{.spec['n']}", "{.['spec'].n}"] {
            assert_eq!(values(path), ["1.50"], "{path}");
            assert_eq!(JsonPath::parse(path).expect(path), one);
            assert_eq!(one.to_string(), r#"$["spec"]["n"]"#);
        }
    }

    #[test]
    fn filters_slices_and_recursive_descent_are_refused() {
        for path in [
            "{.spec.containers[?(@.image=='i1')].image}",
            "$..[?$..[?$..x]]",
            "$[?((((((",
            ".spec.containers[-1].image",
            "{..secret.name}",
            ".spec..name",
            ".spec.containers[0:1].image",
            ".spec.containers[0,1].image",
        ] {
            let error = JsonPath::parse(path).expect_err(path).to_string();
            assert!(error.contains("filters, slices") && error.contains("computed: true"), "{path}: {error}");
        }
    }

    #[test]
    fn a_path_beyond_a_limit_is_refused() {
        let long = JsonPath::parse(&format!(".{}", "a".repeat(1024))).expect_err("long").to_string();
        assert!(long.contains("longer than 1024 bytes") && long.len() < 300, "{long}");
        let filter = JsonPath::parse(&format!("$[?{}", "(".repeat(1000))).expect_err("nested").to_string();
        assert!(filter.contains("filters, slices"), "{filter}");
        let deep = JsonPath::parse(&".a".repeat(65)).expect_err("deep").to_string();
        assert!(deep.contains("more than 64 steps"), "{deep}");
        assert!(JsonPath::parse(&"[*]".repeat(64)).is_ok());
    }

    #[test]
    fn absent_fields_objects_arrays_and_nulls_have_no_value() {
        for path in
            [".spec.none", ".spec.containers", ".spec", ".spec.missing.more", ".spec.n.more", ".metadata[0]"]
        {
            assert!(values(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn the_error_for_a_malformed_path_names_the_column() {
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
