//! What of a new version may differ so that all of it is read by comparing, and that it is read as by itself.

use super::agreement::facts;
use super::*;
use crate::object::familiar::{Familiar, Shapes};
use crate::object::successor;

const KNOWN: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","generateName":"a-","namespace":"n","uid":"u1","resourceVersion":"9","generation":4,"creationTimestamp":"t","deletionTimestamp":"d","labels":{"x":"y","z":""},"annotations":{"p":"q\"","uid":"r"},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"v"}],"finalizers":["f"],"other":null,"managedFields":[{"f:spec":{}}]},"spec":{"a":[1,"two"],"b":8},"status":{"phase":"Running"}}"#;

/// What readers ask for, in an order in which more than one way to it becomes known.
const POINTERS: [&str; 6] =
    ["/metadata/generation", "/metadata/uid", "/metadata/labels/z", "/spec/b", "/status/phase", "/spec/a/1"];

/// Whether `text` is read by comparing it with `known`. It must be read as it would be alone.
fn is_read(known: &str, text: &str, transform: &Transform) -> bool {
    let Some((read, alone)) = read_after(known, text, transform) else { return false };
    assert_eq!(facts(&read), facts(&alone), "{text}");
    for pointer in POINTERS {
        assert_eq!(read.field(pointer), alone.field(pointer), "{pointer} of {text}");
    }
    // It is as good to compare with as any other.
    let options = ParseOptions { transform, ..ParseOptions::default() };
    let again = ObjectReader::default().read(alone.json().as_bytes(), &options, |_| Some(read.clone()));
    assert_eq!(facts(&again.expect("an object")), facts(&alone), "{text}");
    true
}

/// What is read by comparing with a version in which readers found what they asked for, and what is read without any.
fn read_after(known: &str, text: &str, transform: &Transform) -> Option<(Object, Object)> {
    let options = ParseOptions { transform, ..ParseOptions::default() };
    let mut reader = ObjectReader::default();
    let stored = reader.read(known.as_bytes(), &options, |_| None).expect("an object");
    for pointer in POINTERS {
        let _ = stored.field(pointer);
    }
    let mut shapes = Shapes::default();
    let source = known.find("\"metadata\":").expect("it has") + "\"metadata\":".len();
    shapes.learn_head(&known[..source], r#"{"apiVersion":"v1","kind":"Pod","metadata":"#);
    let mut look = |key: &ObjectKey| Some(stored.clone()).filter(|stored| stored.key() == key);
    let read = successor::parse_first(text, &options, &mut Familiar::new(&mut look, &mut shapes));
    let read = read?;
    let end = read.len;
    let read = Object(Arc::new(Inner { json: read.json.into(), metadata: read.metadata }));
    let alone = Object::parse(&text.as_bytes()[..end], &options)
        .unwrap_or_else(|error| panic!("{text}: accepted, but {error}"));
    Some((read, alone))
}

#[test]
fn scalars_may_differ_where_any_scalar_would_be_read() {
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
    ] {
        assert!(KNOWN.contains(from), "{from}");
        let text = KNOWN.replacen(from, to, 1);
        assert!(is_read(KNOWN, &text, &Transform::standard()), "{to}");
        assert!(is_read(KNOWN, &format!("{text} and more"), &Transform::standard()), "{to}");
        if !from.contains("f:spec") {
            assert!(is_read(KNOWN, &text, &Transform::default()), "{to}");
        }
    }
    // Several at a time, each of another length.
    let text = KNOWN.replace("\"9\"", "\"12345\"").replace(":4", ":77").replace("\"y\"", "\"\"");
    assert!(is_read(KNOWN, &text.replace("\"q\\\"\"", "\"much longer\""), &Transform::standard()));
}

#[test]
fn where_readers_went_is_known_of_the_next_version() {
    for (from, to) in [
        ("\"9\"", "\"1000\""),
        ("[1,\"two\"]", "[12345,\"\"]"),
        ("\"b\":8", "\"b\":\"eight\""),
        ("Running", "Failed"),
        ("[{\"f:spec\":{}}]", "[{\"f:status\":{\"f:a\":{}}},{}]"),
    ] {
        let text = KNOWN.replace(from, to);
        let (read, alone) = read_after(KNOWN, &text, &Transform::standard()).expect(to);
        let places = read.0.metadata.farthest.places();
        assert!(places.iter().all(|place| *place > 0), "{places:?} of {text}");
        for pointer in POINTERS {
            let _ = alone.field(pointer);
        }
        assert_eq!(places, alone.0.metadata.farthest.places(), "{text}");
    }
}

#[test]
fn a_member_far_inside_of_its_object_is_not_forgotten_for_one_at_the_start_of_the_next() {
    let object = Object::from_json(KNOWN).expect("an object");
    for pointer in ["/spec/b", "/status/phase", "/spec/a"] {
        let _ = object.field(pointer);
    }
    let [_, start, member] = object.0.metadata.farthest.places();
    assert!(object.json()[start..].starts_with("{\"a\":[1"), "{}", object.json());
    assert_eq!(&object.json()[member..=member], "8");
}

#[test]
fn all_else_is_left_to_the_parser() {
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
        ("\"x\":", "\"xx\":"),
        ("[\"f\"]", "[\"f\",\"g\"]"),
        ("\"other\":null", "\"other\":null,\"more\":1"),
        ("\"apiVersion\":\"v1\",\"metadata\"", "\"apiVersion\":\"v2\",\"metadata\""),
        ("{\"phase\"", "{\"more\":1,\"phase\""),
        ("\"9\",", "\"9\", "),
        ("[{\"f:spec\":{}}]", "[{\"f:spec\":}]"),
        ("Running\"}}", "Running\"}"),
    ] {
        assert!(KNOWN.contains(from), "{from}");
        assert!(!is_read(KNOWN, &KNOWN.replacen(from, to, 1), &Transform::standard()), "{to}");
    }
    let many = KNOWN.replace("\"finalizers\":[\"f\"]", "\"finalizers\":[0,0,0,0,0,0,0,0,0]");
    assert!(is_read(&many, &many.replace("0,", "1,"), &Transform::standard()), "as many as there may be");
    assert!(!is_read(&many, &many.replace("0,", "1,").replace("0]", "1]"), &Transform::standard()));
}

#[test]
fn a_null_in_place_of_what_is_read_is_not_taken_for_something_else() {
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
            assert!(!is_read(&known, &text, &Transform::default()), "{text}");
        }
        let escaped = known.replacen(
            &format!("\"{name}\""),
            &format!("\"\\u{:04x}{}\"", name.as_bytes()[0], &name[1..]),
            1,
        );
        assert!(!is_read(&escaped, &escaped.replace("null", "\"x\""), &Transform::default()), "{escaped}");
    }
}

#[test]
fn a_namespace_that_comes_late_is_not_missed() {
    let known = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","namespace":"n"}}"#;
    let stored = Object::from_json(known).expect("an object");
    let mut reader = ObjectReader::default();
    for _ in 0..2 {
        // The caller has what it was not asked for.
        let read = reader.read(known.as_bytes(), &ParseOptions::default(), |_| Some(stored.clone()));
        assert_eq!(read.expect("an object").key(), &ObjectKey::new("n", "a"));
    }
}

#[test]
fn names_may_be_of_the_cluster_scope() {
    let known = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u"}}"#;
    assert!(is_read(known, &known.replace("\"u\"", "\"v\""), &Transform::standard()));
    assert!(!is_read(known, &known.replace("\"uid\"", "\"namespace\""), &Transform::standard()));
}
