//! Which differences from the stored version [`version_diff`] accepts, and that the result is the same as without the stored version.

use crate::object::Object;
use crate::object::parse::reference::{RecentObjects, References};
use crate::object::parse::version_diff;
use crate::object::tests::support::summary;
use crate::{ObjectKey, ObjectReader, ParseOptions, Transform};

const KNOWN: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","generateName":"a-","namespace":"n","uid":"u1","resourceVersion":"9","generation":4,"creationTimestamp":"t","deletionTimestamp":"d","labels":{"x":"y","z":""},"annotations":{"p":"q\"","uid":"r"},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"v"}],"finalizers":["f"],"other":null,"managedFields":[{"f:spec":{}}]},"spec":{"a":[1,"two"],"b":8},"status":{"phase":"Running"}}"#;

/// Fields to look up, in an order that leaves all hints.
const POINTERS: [&str; 6] =
    ["/metadata/generation", "/metadata/uid", "/metadata/labels/z", "/spec/b", "/status/phase", "/spec/a/1"];

/// Returns whether `text` is accepted as a version after `known`. If it is, checks that the result is the same as a parser's.
pub(super) fn is_accepted(known: &str, text: &str, transform: &Transform) -> bool {
    let Some((read, alone)) = read_after(known, text, transform) else { return false };
    assert_eq!(summary(&read), summary(&alone), "{text}");
    for pointer in POINTERS {
        assert_eq!(read.field(pointer), alone.field(pointer), "{pointer} of {text}");
    }
    // The result can be the stored version of the next one.
    let options = ParseOptions { transform, ..ParseOptions::default() };
    let again = ObjectReader::default().read(alone.json().as_bytes(), &options, |_| Some(read.clone()));
    assert_eq!(summary(&again.expect("an object")), summary(&alone), "{text}");
    true
}

/// Parses `text` by comparison with `known`, in which all of [`POINTERS`] have been looked up, and without it.
fn read_after(known: &str, text: &str, transform: &Transform) -> Option<(Object, Object)> {
    let options = ParseOptions { transform, ..ParseOptions::default() };
    let mut reader = ObjectReader::default();
    let stored = reader.read(known.as_bytes(), &options, |_| None).expect("an object");
    for pointer in POINTERS {
        let _ = stored.field(pointer);
    }
    let mut recent = RecentObjects::default();
    let source = known.find("\"metadata\":").expect("it has metadata") + "\"metadata\":".len();
    recent.remember_preamble(&known[..source], r#"{"apiVersion":"v1","kind":"Pod","metadata":"#);
    let mut look_up = |key: &ObjectKey| Some(stored.clone()).filter(|stored| stored.key() == key);
    let mut references = References::new(&mut look_up, &mut recent);
    let read = version_diff::parse_prefix(text, &options, &mut references)?;
    let end = read.len;
    let read = read.object;
    let alone = Object::parse(&text.as_bytes()[..end], &options)
        .unwrap_or_else(|error| panic!("{text}: accepted, but {error}"));
    Some((read, alone))
}

#[test]
fn scalars_may_differ_if_the_new_ones_are_valid_in_their_place() {
    for (from, to) in [
        ("\"9\"", "\"1000\""),
        ("\"u1\"", "\"another\""),
        ("\"u1\"", "\"\""),
        (":4", ":12345"),
        ("\"t\"", "\"at another time\""),
        ("\"d\"", "\"later\""),
        ("\"y\"", "\"\\u00e9\\\"\""),
        ("\"z\":\"\"", "\"z\":\"long\""),
        ("\"r\"", "\"\""),
        ("\"f\"", "\"g\""),
        ("\"a-\"", "\"b-\""),
        ("\"other\":null", "\"other\":7"),
        ("[{\"f:spec\":{}}]", "[{\"f:status\":{\"f:a\":{}}},{}]"),
        (",\"managedFields\":[{\"f:spec\":{}}]", ""),
        ("\"two\"", "3"),
        ("Running", "Failed"),
        ("{\"phase\"", "{\"more\":1,\"phase\""),
        ("\"phase\":\"Running\"", ""),
        ("[1,\"two\"]", "[1,\"two\",{\"a\":[]}]"),
        ("[1,\"two\"]", "{\"one\":2}"),
        ("\"b\":8", "\"c\":[8]"),
    ] {
        assert!(KNOWN.contains(from), "{from}");
        let text = KNOWN.replacen(from, to, 1);
        assert!(is_accepted(KNOWN, &text, &Transform::standard()), "{to}");
        assert!(is_accepted(KNOWN, &format!("{text} and more"), &Transform::standard()), "{to}");
        if !from.contains("f:spec") {
            assert!(is_accepted(KNOWN, &text, &Transform::default()), "{to}");
        }
    }
    // Several changes, each with another length.
    let text = KNOWN.replace("\"9\"", "\"12345\"").replace(":4", ":77").replace("\"y\"", "\"\"");
    assert!(is_accepted(KNOWN, &text.replace("\"q\\\"\"", "\"much longer\""), &Transform::standard()));
}

#[test]
fn the_next_version_inherits_the_field_hints() {
    for (from, to) in [
        ("\"9\"", "\"1000\""),
        ("[1,\"two\"]", "[12345,\"\"]"),
        ("\"b\":8", "\"b\":\"eight\""),
        ("Running", "Failed"),
        ("[{\"f:spec\":{}}]", "[{\"f:status\":{\"f:a\":{}}},{}]"),
    ] {
        let text = KNOWN.replace(from, to);
        let (read, alone) = read_after(KNOWN, &text, &Transform::standard()).expect(to);
        let offsets = read.metadata().hints.offsets();
        assert!(offsets.iter().all(|offset| *offset > 0), "{offsets:?} of {text}");
        for pointer in POINTERS {
            let _ = alone.field(pointer);
        }
        assert_eq!(offsets, alone.metadata().hints.offsets(), "{text}");
    }
}

#[test]
fn the_hint_of_a_member_deep_in_its_object_is_not_replaced_by_a_first_member() {
    let object = Object::from_json(KNOWN).expect("an object");
    for pointer in ["/spec/b", "/status/phase", "/spec/a"] {
        let _ = object.field(pointer);
    }
    let [_, start, member] = object.metadata().hints.offsets();
    assert!(object.json()[start..].starts_with("{\"a\":[1"), "{}", object.json());
    assert_eq!(&object.json()[member..=member], "8");
}

#[test]
fn other_differences_are_left_to_the_parser() {
    for (from, to) in [
        ("\"9\"", "9"),
        ("\"9\"", "\"\\u0039\""),
        (":4", ":-4"),
        (":4", ":4.0"),
        (":4", ":\"4\""),
        (":4", ":null"),
        (":4", ":99999999999999999999"),
        ("\"d\"", "null"),
        ("\"y\"", "1"),
        ("\"y\"", "null"),
        ("\"q\\\"\"", "false"),
        ("\"o\"", "\"p\""),
        ("\"name\":\"a\"", "\"name\":\"b\""),
        ("\"namespace\":\"n\"", "\"namespace\":\"m\""),
        ("[\"f\"]", "[\"f\",\"g\"]"),
        ("\"other\":null", "\"other\":null,\"more\":1"),
        ("\"apiVersion\":\"v1\",\"metadata\"", "\"apiVersion\":\"v2\",\"metadata\""),
        ("\"9\",", "\"9\", "),
        ("[{\"f:spec\":{}}]", "[{\"f:spec\":}]"),
        ("Running\"}}", "Running\"}"),
        ("\"status\":", "\"more\":1,\"status\":"),
        ("\"status\":", "\"spec\":"),
        ("\"status\":", "\"st\\u0061tus\":"),
        ("\"status\":", "\"status\": "),
        ("[1,\"two\"]", "[1,\"two\",]"),
        ("[1,\"two\"]", "[01,\"two\"]"),
        ("[1,\"two\"]", "[1,{\"two\"}]"),
        ("[1,\"two\"]", "[1,\"\\x\"]"),
    ] {
        assert!(KNOWN.contains(from), "{from}");
        assert!(!is_accepted(KNOWN, &KNOWN.replacen(from, to, 1), &Transform::standard()), "{to}");
    }
    let many = KNOWN.replace("\"finalizers\":[\"f\"]", "\"finalizers\":[0,0,0,0,0,0,0,0,0]");
    assert!(is_accepted(&many, &many.replace("0,", "1,"), &Transform::standard()), "the most changes");
    assert!(!is_accepted(&many, &many.replace("0,", "1,").replace("0]", "1]"), &Transform::standard()));
}

#[test]
fn a_parsed_member_that_was_null_is_left_to_the_parser() {
    for name in [
        "uid",
        "resourceVersion",
        "generation",
        "deletionTimestamp",
        "labels",
        "annotations",
        "ownerReferences",
    ] {
        let known = format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","{name}":null}}}}"#);
        for scalar in ["1", "\"x\"", "true"] {
            let text = known.replace("null", scalar);
            assert!(!is_accepted(&known, &text, &Transform::default()), "{text}");
        }
        let escaped = known.replacen(
            &format!("\"{name}\""),
            &format!("\"\\u{:04x}{}\"", name.as_bytes()[0], &name[1..]),
            1,
        );
        assert!(
            !is_accepted(&escaped, &escaped.replace("null", "\"x\""), &Transform::default()),
            "{escaped}"
        );
    }
}

#[test]
fn a_namespace_that_does_not_follow_the_name_is_found() {
    let known = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","namespace":"n"}}"#;
    let stored = Object::from_json(known).expect("an object");
    let mut reader = ObjectReader::default();
    for _ in 0..2 {
        // The caller returns an object with another key than the one that is looked up.
        let read = reader.read(known.as_bytes(), &ParseOptions::default(), |_| Some(stored.clone()));
        assert_eq!(read.expect("an object").key(), &ObjectKey::new("n", "a"));
    }
}

#[test]
fn cluster_scoped_objects_are_accepted() {
    let known = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u"}}"#;
    assert!(is_accepted(known, &known.replace("\"u\"", "\"v\""), &Transform::standard()));
    assert!(!is_accepted(known, &known.replace("\"uid\"", "\"namespace\""), &Transform::standard()));
}
