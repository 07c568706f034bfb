//! Versions whose `spec`, `status` and managed fields gained, lost or changed members and elements: a reader that knows an earlier version
//! accepts and refuses what a parser does.

use proptest::prelude::*;
use serde_json::Value;

use super::reader::assert_reads_the_same;
use crate::object::tests::support::{damage, damaged, object, value, word};

/// A change of one member or element.
#[derive(Clone, Debug)]
enum Change {
    None,
    Remove,
    Replace(Value),
    /// Adds a member or an element before this one.
    Insert(String, Value),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => Just(Change::None),
        1 => Just(Change::Remove),
        1 => value().prop_map(Change::Replace),
        1 => (word(), value()).prop_map(|(name, value)| Change::Insert(name, value)),
    ]
}

/// Returns the text of a value after changes. Members keep their order, so that the text is that of a server.
fn changed(value: &Value, changes: &mut impl Iterator<Item = Change>) -> String {
    let parts = |items: &mut dyn Iterator<Item = (Option<&String>, &Value)>, changes: &mut _| {
        let mut parts = Vec::new();
        for (name, item) in items {
            let part = |name: Option<&String>, text: String| match name {
                Some(name) => format!("{}:{text}", Value::from(name.as_str())),
                None => text,
            };
            match Iterator::next(changes).unwrap_or(Change::None) {
                Change::None => parts.push(part(name, changed(item, changes))),
                Change::Remove => {}
                Change::Replace(other) => parts.push(part(name, other.to_string())),
                Change::Insert(other, added) => {
                    parts.push(part(name.map(|_| &other), added.to_string()));
                    parts.push(part(name, item.to_string()));
                }
            }
        }
        parts.join(",")
    };
    match value {
        Value::Object(members) => {
            let mut members = members.iter().map(|(name, member)| (Some(name), member));
            format!("{{{}}}", parts(&mut members, changes))
        }
        Value::Array(elements) => {
            let mut elements = elements.iter().map(|element| (None, element));
            format!("[{}]", parts(&mut elements, changes))
        }
        scalar => scalar.to_string(),
    }
}

/// Generates the text of an object, and of a version of it with other structure.
fn pair() -> impl Strategy<Value = (String, String)> {
    let changes = proptest::collection::vec(change(), 0..30);
    (object(), value(), value(), changes).prop_map(|(mut known, spec, status, changes)| {
        known["spec"] = serde_json::json!({"a": spec, "b": {"c": [status], "d": {}}, "e": []});
        let mut changes = changes.into_iter();
        let text = |of: &mut dyn FnMut(&Value) -> String| {
            let mut metadata = known["metadata"].clone();
            let managed = metadata.as_object_mut().and_then(|members| members.remove("managedFields"));
            let managed = format!(r#"[{{"manager":"m","fields":{}}}]"#, of(&managed.unwrap_or_default()));
            let metadata = metadata.to_string();
            let metadata = format!("{},\"managedFields\":{managed}}}", &metadata[..metadata.len() - 1]);
            let (spec, status) = (of(&known["spec"]), of(&known["status"]));
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":{spec},"status":{status}}}"#
            )
        };
        (text(&mut Value::to_string), text(&mut |value| changed(value, &mut changes)))
    })
}

/// As a version of a stored object, and as a new object of the same owner.
fn check(known: &str, text: &str) {
    assert_reads_the_same(known, text);
    let other = text.replacen("\"uid\":\"u\"", "\"uid\":\"other\"", 1);
    assert_reads_the_same(known, &other);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_version_with_other_structure_reads_as_it_does_alone((known, text) in pair()) {
        check(&known, &text);
    }

    #[test]
    fn a_damaged_version_with_other_structure_is_refused_as_it_is_alone(
        (known, text) in pair(),
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        check(&known, &damaged(&text, &damages));
    }
}

#[test]
fn values_cannot_nest_deeper_with_each_version() {
    let mut known = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"a":0}}"#.to_owned();
    let mut reader = crate::ObjectReader::default();
    let mut stored = None;
    for _ in 0..400 {
        let next = known.replace('0', &format!("{}0{}", "[".repeat(30), "]".repeat(30)));
        let parsed = crate::Object::from_json(&next);
        let read = reader.read(next.as_bytes(), &crate::ParseOptions::default(), |_| stored.clone());
        assert_eq!(parsed.is_ok(), read.is_ok());
        let Ok(read) = read else { return };
        (known, stored) = (next, Some(read));
    }
    panic!("the limit of nesting was never reached");
}
