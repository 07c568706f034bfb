//! The fast path against the general parser: what the fast path accepts, the general parser accepts with the same result.

use std::cell::Cell;

use proptest::prelude::*;

use crate::ObjectKey;
use crate::object::Object;
use crate::object::parse::reference::References;
use crate::object::parse::{fast_path, parse_general};
use crate::object::tests::support::{all_options, damage, damaged, object, summary};

/// Checks that the fast path and the general parser check, and returns whether the fast path accepted the text.
fn check(text: &str) -> bool {
    let accepted = Cell::new(false);
    all_options(|options| {
        let no_stored = &mut |_: &ObjectKey| None;
        let Some(parsed) = fast_path::parse(text, options, &mut References::none(no_stored)) else { return };
        accepted.set(true);
        let with_suffix = format!("{text},{{");
        let prefix = fast_path::parse_prefix(&with_suffix, options, &mut References::none(no_stored));
        let prefix = prefix.expect("text after the object changes nothing");
        assert_eq!(
            (prefix.object.json(), text[prefix.len..].trim()),
            (parsed.object.json(), ""),
            "of {text}"
        );
        let fast = parsed.object;
        match parse_general(text, options) {
            Ok((json, metadata)) => {
                let general = Object::plain(json, metadata);
                assert_eq!(summary(&fast), summary(&general), "of {text}");
            }
            Err(error) => panic!("{text}: accepted, but {error}"),
        }
    });
    accepted.get()
}

#[test]
fn common_objects_take_the_fast_path() {
    for text in [
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"n","name":"a","labels":{"x":"y"},"managedFields":[]},"spec":{"a":[1,-0.5e+7,true,null,"\u00e9\n"]}}"#,
        " {\n \"metadata\" : { \"name\" : \"a\" , \"generation\" : 4 } , \"apiVersion\":\"v1\",\"kind\":\"Pod\", \"s\":[ ] } \n",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":[{}],"name":"a","annotations":{"a":"\"","b":""},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}],"finalizers":["x"]}}"#,
    ] {
        assert!(check(text), "{text}");
    }
}

#[test]
fn metadata_with_white_space_or_dropped_members_anywhere_is_copied_correctly() {
    let members = [
        r#""name":"a""#,
        r#""labels":{"x":"y"}"#,
        r#""managedFields":[{"a":1}]"#,
        r#""generation":4"#,
        r#""uid":"u""#,
    ];
    for first in 0..members.len() {
        for count in 0..=members.len() {
            let members: Vec<_> = members.iter().cycle().skip(first).take(count).copied().collect();
            let metadata = format!("{{{}}}", members.join(","));
            let whole = format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":{{}}}}"#);
            let is_named = members.iter().any(|member| member.starts_with("\"name\""));
            assert_eq!(check(&whole), is_named, "{whole}");
            for at in 0..metadata.len() {
                let spaced = format!("{} {}", &metadata[..at], &metadata[at..]);
                check(&whole.replacen(&metadata, &spaced, 1));
            }
        }
    }
}

#[test]
fn uncommon_and_malformed_objects_are_left_to_the_general_parser() {
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
        assert!(!check(text), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn both_parsers_agree_on_objects(object in object(), pretty in any::<bool>()) {
        check(&if pretty { format!("{object:#}") } else { object.to_string() });
    }

    #[test]
    fn both_parsers_agree_on_damaged_objects(
        object in object(),
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        check(&damaged(&object.to_string(), &damages));
    }
}
