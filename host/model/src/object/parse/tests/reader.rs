//! A reader that knows earlier versions against one that knows nothing: they read the same and refuse the same.

use proptest::prelude::*;
use serde_json::Value;

use super::agreement::{all_options, damage, damaged, facts, object, pointers, value, word};
use super::*;

/// Reads `text` after `known`, by version and by shape, and holds what comes out to what a parse gives.
pub(super) fn reads_the_same(known: &str, text: &str) {
    all_options(|options| {
        let Ok(stored) = Object::parse(known.as_bytes(), options) else { return };
        let parsed = Object::parse(text.as_bytes(), options);
        // Where readers of the known version went is handed on.
        let mut asked = Vec::new();
        pointers(&stored.to_value(), "", &mut asked);
        for pointer in asked.iter().step_by(3) {
            let _ = stored.field(pointer);
        }
        let mut reader = ObjectReader::default();
        for (way, stored) in [("new", None), ("by version", Some(&stored)), ("by shape", None)] {
            reader.read(known.as_bytes(), options, |_| None).expect("it is well formed");
            let read = reader.read(text.as_bytes(), options, |_| stored.cloned());
            match (&parsed, &read) {
                (Ok(parsed), Ok(read)) => {
                    assert_eq!(facts(parsed), facts(read), "{way}: {text}\nafter {known}");
                    if way == "by version" {
                        for pointer in &asked {
                            let (ours, theirs) = (read.field(pointer), parsed.field(pointer));
                            assert_eq!(ours, theirs, "{pointer} of {text}\nafter {known}");
                        }
                    }
                }
                (Err(parsed), Err(read)) => assert_eq!(parsed.to_string(), read.to_string()),
                (Ok(_), Err(error)) => panic!("{way}: {text}\nafter {known}: refused: {error}"),
                (Err(error), Ok(_)) => panic!("{way}: {text}\nafter {known}: accepted, but {error}"),
            }
            let listed = format!("{text},{{");
            if let Some((first, len)) = reader.read_first(&listed, options) {
                let parsed = Object::parse(&listed.as_bytes()[..len], options);
                let parsed = parsed.unwrap_or_else(|error| panic!("{text}: accepted, but {error}"));
                assert_eq!(facts(&first), facts(&parsed), "{way}: {text}");
            }
        }
    });
}

/// Puts other scalars in the place of some.
fn changed(value: &mut Value, changes: &mut dyn Iterator<Item = Option<Value>>) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| changed(element, changes)),
        Value::Object(members) => members.values_mut().for_each(|member| changed(member, changes)),
        scalar => {
            if let Some(Some(other)) = changes.next() {
                *scalar = other;
            }
        }
    }
}

/// As the API server writes built-in types: names first, managed fields last.
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

/// The known object and one in which some values are others, as text.
fn pair() -> impl Strategy<Value = (String, String)> {
    let change =
        |share| proptest::option::weighted(share, prop_oneof![value(), word().prop_map(Value::from)]);
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
                changed(&mut next[member], &mut changes);
            }
            for (name, member) in next["metadata"].as_object_mut().expect("an object") {
                let changes: &mut dyn Iterator<Item = _> =
                    if name == "managedFields" { &mut changes } else { &mut of_metadata };
                changed(member, changes);
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
fn a_new_version_is_read_by_what_it_has_in_common_with_the_stored_one() {
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
        reads_the_same(known, &known.replacen(from, to, 1));
    }
}

#[test]
fn the_key_is_the_objects_whatever_the_caller_has() {
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n"}}"#;
    let stored = Object::from_json(text).expect("an object");
    let mut reader = ObjectReader::default();
    for (name, namespace) in [("a", "n"), ("a", "n"), ("a", "m"), ("b", "n")] {
        let text = text.replace("\"a\"", &format!("{name:?}")).replace("\"n\"", &format!("{namespace:?}"));
        let mut asked = None;
        let read = reader.read(text.as_bytes(), &ParseOptions::default(), |key| {
            asked = Some(key.clone());
            Some(stored.clone())
        });
        let read = read.expect("an object");
        assert_eq!(read.key(), &ObjectKey::new(namespace, name));
        assert_eq!(asked.as_ref(), Some(read.key()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_version_after_another_reads_as_it_does_alone((known, text) in pair()) {
        reads_the_same(&known, &text);
    }

    #[test]
    fn a_damaged_version_is_refused_as_it_is_alone(
        (known, text) in pair(),
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        reads_the_same(&known, &damaged(&text, &damages));
    }
}
