//! Parses JSON and finds the members of objects that occur more than once, which `fieldValidation` reports.

use std::fmt::{self, Write as _};
use std::rc::Rc;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most duplicates that are reported, as in `sigs.k8s.io/json`.
const MAX_DUPLICATES: usize = 100;

/// The length in bytes after which a reported path is cut, because names can be as long as the body.
const MAX_PATH_LENGTH: usize = 1024;

/// A step of the path to a member.
enum Step {
    Member(Rc<str>),
    Item(usize),
}

/// The path to a member, the last step first.
type ReversedPath = Vec<Step>;

/// Parses JSON. Returns the value, in which the last of several equal members counts, and the paths of the duplicates.
///
/// # Errors
/// The text is not JSON.
pub(super) fn parse(text: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Seed { found: &mut found }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, found.iter().map(|path| display(path)).collect()))
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

/// Deserializes a value and adds the duplicates in it to `found`. Paths are built only for duplicates.
struct Seed<'f> {
    found: &'f mut Vec<ReversedPath>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
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
        let mut list = Vec::new();
        loop {
            let before = self.found.len();
            let Some(item) = items.next_element_seed(Seed { found: &mut *self.found })? else {
                return Ok(Value::Array(list));
            };
            for path in self.found.iter_mut().skip(before) {
                path.push(Step::Item(list.len()));
            }
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let before = self.found.len();
            let value = members.next_value_seed(Seed { found: &mut *self.found })?;
            let is_duplicate = object.contains_key(&name) && self.found.len() < MAX_DUPLICATES;
            if is_duplicate || self.found.len() > before {
                let shared: Rc<str> = name.as_str().into();
                for path in self.found.iter_mut().skip(before) {
                    path.push(Step::Member(Rc::clone(&shared)));
                }
                if is_duplicate {
                    self.found.push(vec![Step::Member(shared)]);
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

    #[test]
    fn value_is_that_of_serde_json() {
        let text =
            br#"{"a": [1, -2, 3.5, 1e3, 18446744073709551615, true, null, "x\n\u00e9"], "b": {"c": {}}}"#;
        let (value, duplicates) = parse(text).expect("JSON");
        assert_eq!(value, serde_json::from_slice::<Value>(text).expect("JSON"));
        assert_eq!(duplicates, [""; 0]);
        assert!(parse(b"{} x").is_err());
        assert!(parse(b"{\"a\": }").expect_err("not JSON").to_string().contains("line 1 column 7"));
        assert!(parse("[".repeat(1000).as_bytes()).is_err(), "nesting is bounded");
    }

    #[test]
    fn duplicates_have_their_path_and_the_last_value_counts() {
        let text = br#"{"a": {"b": [{"c": 1, "c": 2}, {"d": 1}]}, "e": 1, "e": {"f": 1, "f": 2}}"#;
        let (value, duplicates) = parse(text).expect("JSON");
        assert_eq!(value, json!({"a": {"b": [{"c": 2}, {"d": 1}]}, "e": {"f": 2}}));
        assert_eq!(duplicates, ["a.b[0].c", "e.f", "e"]);
        let many = format!("{{{}}}", vec!["\"a\": 1"; 500].join(","));
        assert_eq!(parse(many.as_bytes()).expect("JSON").1.len(), MAX_DUPLICATES);
        let long = format!("{{\"{}\": {{\"a\": 1, \"a\": 2}}}}", "é".repeat(MAX_PATH_LENGTH));
        let reported = parse(long.as_bytes()).expect("JSON").1.remove(0);
        assert!(reported.len() <= MAX_PATH_LENGTH + 3 && reported.ends_with("é..."), "{reported}");
    }
}
