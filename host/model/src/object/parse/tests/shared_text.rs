//! Texts that are made from those of other objects, and when they are.

use std::borrow::Cow;

use proptest::prelude::*;

use crate::object::tests::support::{summary, word};
use crate::{Object, ObjectReader, PackedObject, ParseOptions};

const OPTIONS: fn() -> ParseOptions<'static> = || ParseOptions::default().with_shared_text(1);

/// Returns a Pod of an owner, whose members after the metadata have some 1,400 bytes.
fn pod(owner: &str, name: &str, version: u32, status: &str) -> String {
    let environment: Vec<String> = (0..20)
        .map(|number| format!(r#"{{"name":"VARIABLE_{number}","value":"of {owner}, {number}"}}"#))
        .collect();
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"a","uid":"u-{name}","resourceVersion":"{version}","labels":{{"app":"{owner}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{owner}","uid":"{owner}"}}]}},"spec":{{"nodeName":"node-{name}","env":[{}]}},"status":{{"phase":"{status}","conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}}],"podIP":"10.0.0.{version}"}}}}"#,
        environment.join(",")
    )
}

/// Reads a text and checks that the object is what a parser returns.
fn read(reader: &mut ObjectReader, text: &str, stored: Option<&Object>) -> Object {
    let read =
        reader.read(text.as_bytes(), &OPTIONS(), |_| stored.map(Object::fresh_view)).expect("an object");
    let parsed = Object::from_json(text).expect("an object");
    let head = |object: &Object| (object.uid().to_owned(), object.label("app").map(Cow::into_owned));
    assert_eq!(head(&read.fresh_view()), head(&parsed));
    assert_eq!(summary(&read), summary(&parsed));
    read
}

fn is_shared(object: &Object) -> bool {
    PackedObject::of(object).is_some_and(|packed| !packed.is_compressed())
}

#[test]
fn objects_of_one_owner_share_text_and_take_less_memory() {
    let mut reader = ObjectReader::default();
    let first = read(&mut reader, &pod("web", "a", 1, "Running"), None);
    let second = read(&mut reader, &pod("web", "b", 2, "Running"), None);
    let other = read(&mut reader, &pod("db", "c", 3, "Running"), None);
    assert_eq!([&first, &second, &other].map(is_shared), [false, true, false]);
    assert!(second.fresh_view().memory_size() + 600 < first.memory_size());
    assert_eq!(second.field("/spec/nodeName"), Some("\"node-b\""));
    assert_eq!(second.field("/metadata/uid"), Some("\"u-b\""));
}

#[test]
fn texts_are_stored_as_they_are_unless_sharing_is_on() {
    let mut reader = ObjectReader::default();
    for name in ["a", "b"] {
        let text = pod("web", name, 1, "Running");
        let read = reader.read(text.as_bytes(), &ParseOptions::default(), |_| None).expect("an object");
        assert!(!is_shared(&read));
    }
}

#[test]
fn text_is_shared_after_as_many_objects_of_an_owner_as_the_options_say() {
    let mut reader = ObjectReader::default();
    let options = ParseOptions::default().with_shared_text(3);
    let shared = ["a", "b", "c", "d", "e"].map(|name| {
        let text = pod("web", name, 1, "Running");
        is_shared(&reader.read(text.as_bytes(), &options, |_| None).expect("an object"))
    });
    assert_eq!(shared, [false, false, false, true, true]);
}

#[test]
fn new_versions_of_an_object_share_what_the_old_ones_shared() {
    let mut reader = ObjectReader::default();
    let base = read(&mut reader, &pod("web", "a", 1, "Running"), None);
    let mut stored = read(&mut reader, &pod("web", "b", 2, "Pending"), None);
    let mut other_reader = ObjectReader::default();
    for (version, status) in [(3, "Running"), (4, "A much longer phase than before"), (5, ""), (6, "Running")]
    {
        stored = read(&mut other_reader, &pod("web", "b", version, status), Some(&stored));
        assert!(is_shared(&stored), "version {version}");
        // A label was added: the members of the metadata are read one by one.
        let labelled =
            pod("web", "b", version, status).replace("\"labels\":{", "\"labels\":{\"new\":\"label\",");
        assert!(is_shared(&read(&mut other_reader, &labelled, Some(&stored))), "version {version}");
    }
    let base = read(&mut other_reader, &pod("web", "a", 7, "Running"), Some(&base));
    assert!(is_shared(&base), "a new version of the base is made from the old one");
}

#[test]
fn an_object_that_no_other_shares_text_with_is_stored_as_it_is() {
    let mut reader = ObjectReader::default();
    let first = read(&mut reader, &pod("web", "a", 1, "Running"), None);
    let second = read(&mut reader, &pod("web", "a", 2, "Running"), Some(&first));
    assert!(!is_shared(&second), "nothing was made from the first version");
    let shared = read(&mut reader, &pod("web", "b", 1, "Running"), None);
    drop((reader, first, second));
    let shared = read(&mut ObjectReader::default(), &pod("web", "b", 2, "Running"), Some(&shared));
    assert!(!is_shared(&shared), "it was the last user of its base");
}

/// Otherwise a small object could keep a large text in memory that nothing else needs.
#[test]
fn text_is_not_shared_with_a_much_longer_object() {
    for (annotation, shares) in [(1_000, true), (20_000, false)] {
        let mut reader = ObjectReader::default();
        let long = format!("\"annotations\":{{\"note\":\"{}\"}},\"labels\"", "x".repeat(annotation));
        let _base = read(&mut reader, &pod("web", "a", 1, "Running").replace("\"labels\"", &long), None);
        let next = read(&mut reader, &pod("web", "b", 1, "Running"), None);
        assert_eq!(is_shared(&next), shares, "{annotation}");
    }
}

#[test]
fn differences_from_the_base_do_not_accumulate() {
    let mut reader = ObjectReader::default();
    let _base = read(&mut reader, &pod("web", "a", 1, "Running"), None);
    let first = read(&mut reader, &pod("web", "b", 1, "Running"), None);
    let size = first.fresh_view().memory_size();
    let mut stored = first;
    // Each round changes all variables and then changes them back.
    for round in 0..20 {
        let text = pod("web", "b", 1, "Running");
        stored = read(&mut reader, &text.replace("of web", "of xyz"), Some(&stored));
        stored = read(&mut reader, &text, Some(&stored));
        assert!(stored.fresh_view().memory_size() <= size + 700, "round {round}");
    }
    for version in 0..40 {
        stored = read(&mut reader, &pod("web", "b", version, "Running"), Some(&stored));
    }
    assert!(stored.fresh_view().memory_size() <= size + 50);
}

#[test]
fn small_objects_and_those_with_little_in_common_are_stored_as_they_are() {
    let mut reader = ObjectReader::default();
    for text in [
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1"}}"#.to_owned(),
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"a":"2"}}"#.to_owned(),
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c"}},"data":{{"a":"{}"}}}}"#,
            "c".repeat(2_000)
        ),
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"d"}},"data":{{"a":"{}"}}}}"#,
            "d".repeat(100_000)
        ),
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"e"}},"data":{{"a":"{}"}}}}"#,
            "d".repeat(100_000)
        ),
    ] {
        assert!(!is_shared(&read(&mut reader, &text, None)));
    }
}

proptest! {
    /// Whatever the words are, every version reads as a parser reads it.
    #[test]
    fn random_versions_are_those_of_a_parser(
        changes in prop::collection::vec((0..3_usize, word(), 0..4_u32), 1..30),
    ) {
        let mut reader = ObjectReader::default();
        let mut stored = [None, None, None];
        for (version, (name, status, lost)) in (0..).zip(&changes) {
            let status = serde_json::to_string(status).expect("a string");
            let text = pod("web", ["a", "b", "c"][*name], version, &status[1..status.len() - 1]);
            let known = stored[*name].take();
            let known = known.filter(|_| *lost > 0);
            stored[*name] = Some(read(&mut reader, &text, known.as_ref()));
        }
    }
}
