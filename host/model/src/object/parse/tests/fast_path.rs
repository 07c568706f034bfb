//! The way for objects of the usual form against the general way: what the first answers, the second answers, too.

use std::cell::Cell;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::object::familiar::Familiar;
use crate::object::{Inner, parse, pointer, usual};

/// Each kind of transform that the quick way knows, with and without a type from the list.
pub(super) fn all_options(check: impl Fn(&ParseOptions<'_>)) {
    let plain = Transform::default();
    let standard = Transform::standard();
    let metadata = Transform { projection: Projection::Metadata, ..Transform::standard() };
    check(&ParseOptions { api_version: "v1", kind: "Pod", transform: &plain });
    check(&ParseOptions { api_version: "", kind: "", transform: &standard });
    check(&ParseOptions { api_version: "v1", kind: "Pod", transform: &metadata });
}

/// All that can be asked of an object.
pub(in crate::object) fn facts(object: &Object) -> String {
    format!(
        "{} {} {:?} {} {} {} {:?} {:?} {:?} {:?} {:?}",
        object.json(),
        object.api_version(),
        (object.kind(), object.key(), object.name(), object.namespace()),
        object.uid(),
        object.resource_version(),
        object.generation(),
        object.deletion_timestamp(),
        object.labels().collect::<Vec<_>>(),
        object.annotations().collect::<Vec<_>>(),
        object.owner_references(),
        object.finalizers(),
    )
}

/// Whether the quick way had an answer.
fn agree(text: &str) -> bool {
    let answered = Cell::new(false);
    all_options(|options| {
        let nobody = &mut |_: &ObjectKey| None;
        let Some(read) = usual::parse(text, options, &mut Familiar::nothing(nobody)) else { return };
        answered.set(true);
        let followed = format!("{text},{{");
        let first = usual::parse_first(&followed, options, &mut Familiar::nothing(nobody));
        let first = first.expect("what follows changes nothing");
        assert_eq!((&first.json, text[first.len..].trim()), (&read.json, ""), "of {text}");
        let quick = Object(Arc::new(Inner { json: read.json.into(), metadata: read.metadata }));
        match parse::parse_any(text, options) {
            Ok((json, metadata)) => {
                let general = Object(Arc::new(Inner { json: json.into(), metadata }));
                assert_eq!(facts(&quick), facts(&general), "of {text}");
            }
            Err(error) => panic!("{text}: accepted, but {error}"),
        }
    });
    answered.get()
}

#[test]
fn usual_objects_are_read_the_quick_way() {
    for text in [
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"n","name":"a","labels":{"x":"y"},"managedFields":[]},"spec":{"a":[1,-0.5e+7,true,null,"\u00e9\n"]}}"#,
        " {\n \"metadata\" : { \"name\" : \"a\" , \"generation\" : 4 } , \"apiVersion\":\"v1\",\"kind\":\"Pod\", \"s\":[ ] } \n",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":[{}],"name":"a","annotations":{"a":"\"","b":""},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}],"finalizers":["x"]}}"#,
    ] {
        assert!(agree(text), "{text}");
    }
}

#[test]
fn unusual_and_malformed_objects_are_left_to_the_general_way() {
    let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    for text in [
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}} x"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"b"}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"kind":"Pod"}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"1","a":"2"}}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":1}}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"na\u006de":"a"}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"a":01}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"a":1.}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"a":tru}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"a":"\x"}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"a":"\u12g4"}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":[1,]}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"a":1,}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":[1}"#,
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"},\"spec\":\"a\tb\"}",
        &format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a"}},"spec":{deep}}}"#),
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","ownerReferences":[{"name":"n"}]}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","generation":-1}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":""}}"#,
        "",
        "{",
        "[]",
        "{}",
        "null",
        r#"{"metadata":null}"#,
    ] {
        assert!(!agree(text), "{text}");
    }
}

/// Text for names and strings, some with what must be escaped or has several bytes.
pub(super) fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-zA-Z0-9./ -]{0,20}",
        1 => proptest::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter),
    ]
}

pub(super) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(word(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn strings() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map(word(), word(), 0..4).prop_map(|strings| json!(strings))
}

pub(super) fn object() -> impl Strategy<Value = Value> {
    let metadata = (word(), "[a-z]{0,3}", strings(), strings(), 0..100_u64, value(), any::<bool>());
    let metadata = metadata.prop_map(|(name, namespace, labels, annotations, generation, managed, owned)| {
        let mut metadata = json!({
            "name": name, "labels": labels, "annotations": annotations, "generation": generation,
            "managedFields": managed, "uid": "u", "resourceVersion": generation.to_string(),
        });
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        if owned {
            metadata["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true}]);
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        metadata
    });
    (metadata, value(), value()).prop_map(|(metadata, spec, status)| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    })
}

/// What may happen to a text on its way.
#[derive(Clone, Debug)]
pub(super) enum Damage {
    Drop(prop::sample::Index),
    Replace(prop::sample::Index, char),
    Insert(prop::sample::Index, char),
    Cut(prop::sample::Index),
}

pub(super) fn damage() -> impl Strategy<Value = Damage> {
    let piece = prop_oneof![
        prop::sample::select(r#"{}[]",:\ 01-.eEtfnu"#.chars().collect::<Vec<_>>()),
        Just('\u{1}'),
        Just('\n'),
        any::<char>(),
    ];
    let at = any::<prop::sample::Index>;
    prop_oneof![
        at().prop_map(Damage::Drop),
        (at(), piece.clone()).prop_map(|(at, piece)| Damage::Replace(at, piece)),
        (at(), piece).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        at().prop_map(Damage::Cut),
    ]
}

pub(super) fn damaged(text: &str, damages: &[Damage]) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for damage in damages {
        if letters.is_empty() {
            break;
        }
        match damage {
            Damage::Drop(at) => drop(letters.remove(at.index(letters.len()))),
            Damage::Replace(at, piece) => {
                let at = at.index(letters.len());
                letters[at] = *piece;
            }
            Damage::Insert(at, piece) => letters.insert(at.index(letters.len()), *piece),
            Damage::Cut(at) => letters.truncate(at.index(letters.len())),
        }
    }
    letters.into_iter().collect()
}

/// Pointers to all that a value holds, and to what it does not.
pub(super) fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    found.push(format!("{at}/nothing"));
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                pointers(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(elements) => {
            found.push(format!("{at}/{}", elements.len()));
            for (position, element) in elements.iter().enumerate() {
                pointers(element, &format!("{at}/{position}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn pointers_reach_through_deep_values_and_escaped_names() {
    let deep = format!("{}7{}", "[".repeat(100), "]".repeat(100));
    let json = format!(r#"{{"first":{deep},"\u0061b":{{"x\ny":[{deep},1]}},"z":2}}"#);
    let inside = "/0".repeat(100);
    assert_eq!(pointer::find(&json, "/z"), Some("2"));
    assert_eq!(pointer::find(&json, "/ab/x\ny/1"), Some("1"));
    assert_eq!(pointer::find(&json, &format!("/ab/x\ny/0{inside}")), Some("7"));
    assert_eq!(pointer::find(&json, &format!("/ab{inside}")), None);
}

#[test]
fn what_is_behind_is_found_from_wherever_a_reader_was_before() {
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},
        "spec":{"a":{"status":1,"b":"}\\"},"c":["]",{}], "d":"{" } ,"list":[{"x":1},[2] , 3],"status":{"phase":"x"}}"#;
    for first in [
        "/spec/a",
        "/spec/a/b",
        "/spec/c/1",
        "/spec/d",
        "/spec/no",
        "/list/0/x",
        "/list/1",
        "/list/2",
        "/status/phase",
    ] {
        for second in ["/spec/c", "/list/a", "/list/1/0", "/status/d", "/status/phase", "/status", "/no"] {
            let object = Object::from_json(text).expect("an object");
            for pointer in [first, second, first, second] {
                let parsed = pointer::parse(object.json(), &pointer[1..]);
                assert_eq!(object.field(pointer), parsed, "{pointer} after {first}, {second}");
            }
        }
    }
}

#[test]
fn members_of_one_object_are_found_together_as_one_by_one() {
    let object = Object::from_json(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"1","y":"2"}},
        "spec":{"a":1,"b":{"c":2,"d":"x"},"b":3,"list":[{"a":1,"b":2}],"\u0065":4,"e":5,"a~/b":6}}"#,
    )
    .expect("an object");
    for pointers in [
        &["/spec/b", "/spec/a", "/spec/a", "/spec/no"][..],
        &["/spec/b/d", "/metadata/labels/y", "/spec/b/c", "/metadata/labels/x", "/metadata/name", "/kind"],
        &[
            "/spec/list/0/b",
            "/spec/list/0/a",
            "/spec/list/0",
            "/spec/list/1",
            "/spec/list/1/a",
            "/spec/list/1/b",
        ],
        // A name with escapes, on either side.
        &["/spec/a", "/spec/e"],
        &["/spec/a", "/spec/a~0~1b"],
        &["/spec/a", "/spec/a~2"],
        &["/no/a", "/no/b", "", "no", "/", "//", "/spec/a/x", "/spec/a/y"],
    ] {
        let one_by_one: Vec<_> = pointers.iter().map(|pointer| object.field(pointer)).collect();
        assert_eq!(object.fields(pointers), one_by_one, "{pointers:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn both_ways_agree_on_objects(object in object(), pretty in any::<bool>()) {
        agree(&if pretty { format!("{object:#}") } else { object.to_string() });
    }

    #[test]
    fn both_ways_agree_on_damaged_objects(
        object in object(),
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        agree(&damaged(&object.to_string(), &damages));
    }

    #[test]
    fn pointers_find_what_a_parser_finds(object in object(), pretty in any::<bool>()) {
        let text = if pretty { format!("{object:#}") } else { object.to_string() };
        let mut all = Vec::new();
        pointers(&object, "", &mut all);
        for pointer in &all[1..] {
            let parsed = pointer::parse(&text, &pointer[1..]);
            prop_assert_eq!(pointer::find(&text, pointer), parsed, "{} of {}", pointer, text);
            prop_assert_eq!(parsed.is_some(), object.pointer(pointer).is_some(), "{} of {}", pointer, text);
        }
    }

    #[test]
    fn an_object_finds_what_a_parser_finds(
        object in object(),
        pretty in any::<bool>(),
    ) {
        let text = if pretty { format!("{object:#}") } else { object.to_string() };
        all_options(|options| {
            let Ok(read) = Object::parse(text.as_bytes(), options) else { return };
            let odd = ["", "/metadata", "/metadata/uid/x", "/meta~0data", "/~metadata", "/spec\":{},\"status", "/metadata/labels/", "no"];
            let mut all = odd.map(str::to_owned).to_vec();
            pointers(&serde_json::from_str(read.json()).expect("well formed"), "", &mut all);
            // Twice, and in another order: what is remembered of the way must not change the answer.
            for pointer in all.iter().chain(all.iter().rev()) {
                let parsed = pointer.strip_prefix('/').map_or_else(
                    || pointer.is_empty().then_some(read.json()),
                    |tokens| pointer::parse(read.json(), tokens),
                );
                assert_eq!(read.field(pointer), parsed, "{pointer} of {}", read.json());
            }
            // And all in one call, some of them twice.
            let twice: Vec<_> = all.iter().chain(all.iter().rev().step_by(3)).collect();
            let one_by_one: Vec<_> = twice.iter().map(|pointer| read.field(pointer)).collect();
            assert_eq!(read.fields(&twice), one_by_one, "{twice:?} of {}", read.json());
        });
    }
}
