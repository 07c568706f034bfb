//! Lookups by scanning find what a parser finds.

use std::cell::Cell;

use std::fmt;

use proptest::prelude::*;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{find, index, unescape};
use crate::Object;
use crate::object::tests::support::{all_options, object, pointers};

thread_local! {
    static SCANNED: Cell<usize> = const { Cell::new(0) };
}

/// Counts bytes that lookups of this thread read to find a member or an element.
pub(super) fn count_scanned(bytes: usize) {
    SCANNED.set(SCANNED.get() + bytes);
}

#[test]
fn a_lookup_below_names_with_escapes_reads_the_text_a_few_times_however_deep_it_goes() {
    const DEPTH: usize = 1_000;
    let value = "x".repeat(10_000);
    let json = format!(r#"{}"{value}"{}"#, r#"{"\n":0,"a":"#.repeat(DEPTH), "}".repeat(DEPTH));
    SCANNED.set(0);
    assert_eq!(find(&json, &"/a".repeat(DEPTH)).map(str::len), Some(value.len() + 2));
    let scanned = SCANNED.get();
    assert!((1..=3 * json.len()).contains(&scanned), "{scanned} bytes were read of {}", json.len());
}

#[test]
fn pointers_reach_through_deep_values_and_escaped_names() {
    let deep = format!("{}7{}", "[".repeat(100), "]".repeat(100));
    let json = format!(r#"{{"first":{deep},"\u0061b":{{"x\ny":[{deep},1]}},"z":2}}"#);
    let inside = "/0".repeat(100);
    assert_eq!(find(&json, "/z"), Some("2"));
    assert_eq!(find(&json, "/ab/x\ny/1"), Some("1"));
    assert_eq!(find(&json, &format!("/ab/x\ny/0{inside}")), Some("7"));
    assert_eq!(find(&json, &format!("/ab{inside}")), None);
    // The first of equal names counts, and a name that stands for no text hides none.
    let odd = r#"{"\ud800":1,"\"":2,"a\/b\"":3, "\u0061" :4,"a":5}"#;
    assert_eq!(find(odd, "/\""), Some("2"));
    assert_eq!(find(odd, "/a~1b\""), Some("3"));
    assert_eq!(find(odd, "/a"), Some("4"));
    assert_eq!(find(odd, "/b"), None);
}

#[test]
fn hints_of_one_lookup_do_not_change_the_result_of_the_next() {
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
                let parsed = find_with_parser(object.json(), &pointer[1..]);
                assert_eq!(object.field(pointer), parsed, "{pointer} after {first}, {second}");
            }
        }
    }
}

#[test]
fn several_fields_are_the_same_together_and_one_by_one() {
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
        // A name with escapes, in the object or in the pointer.
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
    fn a_scan_finds_what_a_parser_finds(object in object(), pretty in any::<bool>()) {
        let text = if pretty { format!("{object:#}") } else { object.to_string() };
        let mut all = Vec::new();
        pointers(&object, "", &mut all);
        for pointer in &all[1..] {
            let parsed = find_with_parser(&text, &pointer[1..]);
            prop_assert_eq!(find(&text, pointer), parsed, "{} of {}", pointer, text);
            prop_assert_eq!(parsed.is_some(), object.pointer(pointer).is_some(), "{} of {}", pointer, text);
        }
    }

    #[test]
    fn object_fields_are_what_a_parser_finds(
        object in object(),
        pretty in any::<bool>(),
    ) {
        let text = if pretty { format!("{object:#}") } else { object.to_string() };
        all_options(|options| {
            let Ok(read) = Object::parse(text.as_bytes(), options) else { return };
            let odd = ["", "/metadata", "/metadata/uid/x", "/meta~0data", "/~metadata", "/spec\":{},\"status", "/metadata/labels/", "no"];
            let mut all = odd.map(str::to_owned).to_vec();
            pointers(&serde_json::from_str(read.json()).expect("well formed"), "", &mut all);
            // Twice, and in another order: the hints of earlier lookups must not change the result.
            for pointer in all.iter().chain(all.iter().rev()) {
                let parsed = pointer.strip_prefix('/').map_or_else(
                    || pointer.is_empty().then_some(read.json()),
                    |tokens| find_with_parser(read.json(), tokens),
                );
                assert_eq!(read.field(pointer), parsed, "{pointer} of {}", read.json());
            }
            // All in one call, some of them twice.
            let twice: Vec<_> = all.iter().chain(all.iter().rev().step_by(3)).collect();
            let one_by_one: Vec<_> = twice.iter().map(|pointer| read.field(pointer)).collect();
            assert_eq!(read.fields(&twice), one_by_one, "{twice:?} of {}", read.json());
        });
    }
}

/// As [`find`], with `serde_json`.
fn find_with_parser<'a>(json: &'a str, tokens: &str) -> Option<&'a str> {
    let mut value = json;
    for token in tokens.split('/') {
        value = child_with_parser(value, &unescape(token)?)?;
    }
    Some(value)
}

fn child_with_parser<'a>(json: &'a str, token: &str) -> Option<&'a str> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    match json.as_bytes().first()? {
        b'{' | b'[' => ChildSeed(token).deserialize(&mut deserializer).ok().flatten(),
        _ => None,
    }
}

/// Deserializes the raw text of one member or element, and skips the others.
struct ChildSeed<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for ChildSeed<'_> {
    type Value = Option<&'de str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ChildSeed<'_> {
    type Value = Option<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(matches) = map.next_key_seed(NameSeed(self.0))? {
            if matches && found.is_none() {
                found = Some(map.next_value::<&'de RawValue>()?.get());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let wanted = index(self.0);
        let mut found = None;
        let mut position = 0;
        while let Some(value) = seq.next_element::<&'de RawValue>()? {
            if wanted == Some(position) {
                found = Some(value.get());
            }
            position += 1;
        }
        Ok(found)
    }
}

/// Deserializes a member's name as whether it is the wanted one.
struct NameSeed<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        Ok(text == self.0)
    }
}
