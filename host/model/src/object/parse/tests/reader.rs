//! A reader that knows an earlier version accepts and refuses what a parser does, with the same results.

use proptest::prelude::*;
use serde_json::Value;

use crate::object::tests::support::{all_options, damage, damaged, object, pointers, summary, value, word};
use crate::{Object, ObjectKey, ObjectReader, ParseOptions};

/// Reads `text` with a reader that knows `known`, as the stored version or as a recent object, and compares the result with a parser's.
pub(super) fn assert_reads_the_same(known: &str, text: &str) {
    all_options(|options| {
        let Ok(stored) = Object::parse(known.as_bytes(), options) else { return };
        let parsed = Object::parse(text.as_bytes(), options);
        // Lookups leave hints in the stored version, which the new one inherits.
        let mut looked_up = Vec::new();
        pointers(&stored.to_value(), "", &mut looked_up);
        for pointer in looked_up.iter().step_by(3) {
            let _ = stored.field(pointer);
        }
        let mut reader = ObjectReader::default();
        for (reference, stored) in
            [("no reference", None), ("stored version", Some(&stored)), ("recent object", None)]
        {
            reader.read(known.as_bytes(), options, |_| None).expect("it is well formed");
            let read = reader.read(text.as_bytes(), options, |_| stored.cloned());
            match (&parsed, &read) {
                (Ok(parsed), Ok(read)) => {
                    assert_eq!(summary(parsed), summary(read), "{reference}: {text}\nafter {known}");
                    if stored.is_some() {
                        for pointer in &looked_up {
                            let (actual, expected) = (read.field(pointer), parsed.field(pointer));
                            assert_eq!(actual, expected, "{pointer} of {text}\nafter {known}");
                        }
                    }
                }
                (Err(parsed), Err(read)) => assert_eq!(parsed.to_string(), read.to_string()),
                (Ok(_), Err(error)) => panic!("{reference}: {text}\nafter {known}: refused: {error}"),
                (Err(error), Ok(_)) => panic!("{reference}: {text}\nafter {known}: accepted, but {error}"),
            }
            let with_suffix = format!("{text},{{");
            if let Some((prefix, len)) = reader.read_prefix(&with_suffix, options) {
                let parsed = Object::parse(&with_suffix.as_bytes()[..len], options);
                let parsed = parsed.unwrap_or_else(|error| panic!("{text}: accepted, but {error}"));
                assert_eq!(summary(&prefix), summary(&parsed), "{reference}: {text}");
            }
            let event = reader.read_event_object(&with_suffix, options, |_| stored.cloned());
            if let Some((object, len)) = event {
                let parsed = Object::parse(&with_suffix.as_bytes()[..len], options);
                let parsed = parsed.unwrap_or_else(|error| panic!("{text}: accepted, but {error}"));
                assert_eq!(summary(&object), summary(&parsed), "{reference}: {text}\nafter {known}");
                assert!(!with_suffix[..len].contains('\n'), "{reference}: {text}");
            }
        }
    });
}

#[test]
fn an_object_of_an_event_is_read_up_to_its_end() {
    let text =
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"a":[1,2]}}"#;
    let stored = Object::from_json(text).expect("an object");
    let other_label = text.replace("\"x\"", "\"z\"");
    for (stored, text) in [(None, text), (Some(&stored), text), (Some(&stored), &other_label)] {
        let mut reader = ObjectReader::default();
        let _ = reader.read(text.as_bytes(), &ParseOptions::default(), |_| None);
        let mut read = |text: &str| {
            let read = reader.read_event_object(text, &ParseOptions::default(), |_| stored.cloned());
            read.map(|(object, len)| (object.json().len(), len))
        };
        let whole = Object::from_json(text).expect("an object").json().len();
        for rest in ["", "}", "}\n{", "\n"] {
            assert_eq!(read(&format!("{text}{rest}")), Some((whole, text.len())), "{rest:?}");
        }
        for at in 1..text.len() {
            assert_eq!(read(&text[..at]), None, "the first {at} bytes of {text}");
        }
        for place in ["\"spec\"", "1,", "{\"a\"", "\"name\""] {
            assert_eq!(
                read(&text.replacen(place, &format!("\n{place}"), 1)),
                None,
                "a line break before {place}"
            );
        }
    }
}

#[test]
fn an_event_with_the_line_breaks_of_the_stored_version_is_refused() {
    let text = |version: u32, space: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","resourceVersion":"{version}"}},"spec":{{"a":{space}1}}}}"#
        )
    };
    for (space, is_accepted) in [("\n", false), ("\r\n", false), (" ", true), ("", true)] {
        let mut reader = ObjectReader::default();
        let stored = reader.read(text(1, space).as_bytes(), &ParseOptions::default(), |_| None);
        let stored = stored.expect("an object");
        let new = text(2, space);
        let read = reader.read_event_object(&new, &ParseOptions::default(), |_| Some(stored.clone()));
        assert_eq!(read.is_some(), is_accepted, "{space:?}");
    }
}

/// Replaces the scalars for which `changes` has a value.
fn replace_scalars(value: &mut Value, changes: &mut dyn Iterator<Item = Option<Value>>) {
    match value {
        Value::Array(elements) => {
            elements.iter_mut().for_each(|element| replace_scalars(element, changes));
        }
        Value::Object(members) => {
            members.values_mut().for_each(|member| replace_scalars(member, changes));
        }
        scalar => {
            if let Some(Some(other)) = changes.next() {
                *scalar = other;
            }
        }
    }
}

/// Writes an object as the API server writes built-in types: the name and namespace first, the managed fields last.
fn as_built_in(object: &Value) -> String {
    let rank = |name: &str| match name {
        "name" => 0,
        "namespace" => 1,
        "managedFields" => 3,
        _ => 2,
    };
    let members = |value: &Value, rank: &dyn Fn(&str) -> u32| {
        let mut members: Vec<_> = value.as_object().expect("an object").iter().collect();
        members.sort_by_key(|(name, _)| rank(name));
        members
            .into_iter()
            .map(|(name, value)| (Value::from(name.as_str()), value.clone()))
            .collect::<Vec<_>>()
    };
    let joined = |members: Vec<String>| format!("{{{}}}", members.join(","));
    let metadata = members(&object["metadata"], &rank);
    let metadata = joined(metadata.iter().map(|(name, value)| format!("{name}:{value}")).collect());
    let top = members(object, &|_| 0).into_iter().map(|(name, value)| {
        if name == "metadata" { format!("{name}:{metadata}") } else { format!("{name}:{value}") }
    });
    joined(top.collect())
}

/// Generates the text of an object, and of a version of it with other scalars.
fn pair() -> impl Strategy<Value = (String, String)> {
    let change = |probability| {
        proptest::option::weighted(probability, prop_oneof![value(), word().prop_map(Value::from)])
    };
    let changes = proptest::collection::vec(change(0.3), 0..40);
    let of_metadata = proptest::collection::vec(change(0.1), 0..20);
    let versions = (0..10_000_u32, 0..10_000_u32, any::<bool>());
    (object(), changes, of_metadata, versions, 0..3_u8).prop_map(
        |(mut known, changes, of_metadata, (before, after, finalized), form)| {
            known["metadata"]["resourceVersion"] = before.to_string().into();
            if finalized {
                known["metadata"]["finalizers"] = serde_json::json!(["a", "b"]);
                known["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            let mut next = known.clone();
            next["metadata"]["resourceVersion"] = after.to_string().into();
            let (mut changes, mut of_metadata) = (changes.into_iter(), of_metadata.into_iter());
            for member in ["spec", "status"] {
                replace_scalars(&mut next[member], &mut changes);
            }
            for (name, member) in next["metadata"].as_object_mut().expect("an object") {
                let changes: &mut dyn Iterator<Item = _> =
                    if name == "managedFields" { &mut changes } else { &mut of_metadata };
                replace_scalars(member, changes);
            }
            let text = |value: &Value| match form {
                0 => value.to_string(),
                1 => format!("{value:#}"),
                _ => as_built_in(value),
            };
            (text(&known), text(&next))
        },
    )
}

#[test]
fn a_new_version_reads_as_it_does_without_the_stored_one() {
    let known = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","labels":{"x":"y"},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}],"managedFields":[{"f:spec":{"k:{\"a\":1}":{}}}]},"spec":{"a":[1,"two",null]},"status":{"phase":"Running"}}"#;
    for (from, to) in [
        ("\"two\"", "\"three\""),
        ("null", "{}"),
        ("[1,", "[01,"),
        ("[1,", "[1 ,"),
        ("\"status\"", "\"kind\""),
        ("\"status\"", "\"spec\""),
        ("Running\"}", "Running\"},\"kind\":\"Pod\""),
        ("Running\"}}", "Running\"}"),
        ("Running\"}}", "Running\"}}}"),
        ("\"x\":\"y\"", "\"x\":\"z\""),
        ("\"x\":\"y\"", "\"x\":1"),
        ("\"x\":\"y\"", "\"x\":\"y\",\"x\":\"y\""),
        ("f:spec", "f:status"),
        ("{}}}]", "{}}]"),
        ("[{\"f:spec\"", "[{1"),
        ("\"name\":\"a\"", "\"name\":\"b\""),
        ("\"name\":\"a\",", ""),
    ] {
        assert!(known.contains(from), "{from}");
        assert_reads_the_same(known, &known.replacen(from, to, 1));
    }
}

#[test]
fn the_key_is_the_objects_even_if_the_caller_returns_another_object() {
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n"}}"#;
    let stored = Object::from_json(text).expect("an object");
    let mut reader = ObjectReader::default();
    for (name, namespace) in [("a", "n"), ("a", "n"), ("a", "m"), ("b", "n")] {
        let text = text.replace("\"a\"", &format!("{name:?}")).replace("\"n\"", &format!("{namespace:?}"));
        let mut looked_up = None;
        let read = reader.read(text.as_bytes(), &ParseOptions::default(), |key| {
            looked_up = Some(key.clone());
            Some(stored.clone())
        });
        let read = read.expect("an object");
        assert_eq!(read.key(), &ObjectKey::new(namespace, name));
        assert_eq!(looked_up.as_ref(), Some(read.key()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_changed_version_reads_as_it_does_alone((known, text) in pair()) {
        assert_reads_the_same(&known, &text);
    }

    #[test]
    fn a_damaged_version_is_refused_as_it_is_alone(
        (known, text) in pair(),
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        assert_reads_the_same(&known, &damaged(&text, &damages));
    }
}
