//! Versions whose members were added, repeated, moved, renamed with escapes or surrounded by white space: a reader that knows an earlier
//! version accepts and refuses what a parser does.

use proptest::prelude::*;
use serde_json::Value;

use super::reader::assert_reads_the_same;
use crate::Object;
use crate::object::tests::support::{object, value, word};

/// The names and values of an object's members as JSON text, in document order. Unlike a map, it can hold a name twice.
#[derive(Clone, Debug)]
struct Members(Vec<(String, String)>);

impl Members {
    fn of(value: &Value) -> Self {
        let members = value.as_object().expect("an object").iter();
        Self(
            members
                .map(|(name, value)| (Value::from(name.as_str()).to_string(), value.to_string()))
                .collect(),
        )
    }

    /// The object's text, with `space` around each token.
    fn text(&self, space: &str) -> String {
        let members =
            self.0.iter().map(|(name, value)| format!("{space}{name}{space}:{space}{value}{space}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    fn edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Repeat(from, to) => {
                let member = self.0[from.index(self.0.len())].clone();
                self.0.insert(to.index(self.0.len() + 1), member);
            }
            Edit::Append(name, value) => self.0.push((Value::from(name.as_str()).to_string(), value.clone())),
            Edit::AppendLast => self.0.extend(self.0.last().cloned()),
            Edit::Escape(at) => {
                let at = at.index(self.0.len());
                let name: String = serde_json::from_str(&self.0[at].0).expect("a name");
                let mut letters = name.chars();
                if let Some(first) = letters.next().filter(char::is_ascii) {
                    let rest = Value::from(letters.as_str()).to_string();
                    self.0[at].0 = format!("\"\\u{:04x}{}", u32::from(first), &rest[1..]);
                }
            }
            Edit::Nest(at, depth) => {
                let at = at.index(self.0.len());
                self.0[at].1 = format!("{}{}{}", "[".repeat(*depth), self.0[at].1, "]".repeat(*depth));
            }
            Edit::Move(from, to) => {
                let member = self.0.remove(from.index(self.0.len()));
                self.0.insert(to.index(self.0.len() + 1), member);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Repeat(prop::sample::Index, prop::sample::Index),
    Append(String, String),
    AppendLast,
    Escape(prop::sample::Index),
    Nest(prop::sample::Index, usize),
    Move(prop::sample::Index, prop::sample::Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<prop::sample::Index>;
    let known = ["kind", "metadata", "spec", "status", "name", "uid", "labels", "managedFields"].to_vec();
    let name = prop_oneof![prop::sample::select(known).prop_map(str::to_owned), word()];
    prop_oneof![
        3 => (at(), at()).prop_map(|(from, to)| Edit::Repeat(from, to)),
        3 => (name, value()).prop_map(|(name, value)| Edit::Append(name, value.to_string())),
        3 => Just(Edit::AppendLast),
        2 => at().prop_map(Edit::Escape),
        1 => (at(), prop::sample::select(vec![1, 62, 63, 64, 65, 126, 127, 128, 129])).prop_map(|(at, depth)| Edit::Nest(at, depth)),
        1 => (at(), at()).prop_map(|(from, to)| Edit::Move(from, to)),
    ]
}

/// Returns the text of an object after edits of its top-level members and of its metadata. `spaces` surrounds the tokens of each.
fn edited(object: &Value, top_level: &[Edit], in_metadata: &[Edit], spaces: (&str, &str)) -> String {
    let mut metadata = Members::of(&object["metadata"]);
    // In the order in which the API server writes built-in types.
    metadata.0.sort_by_key(|(name, _)| match name.as_str() {
        "\"name\"" => 0,
        "\"namespace\"" => 1,
        "\"managedFields\"" => 3,
        _ => 2,
    });
    in_metadata.iter().for_each(|edit| metadata.edit(edit));
    let mut top = Members::of(object);
    for (_, value) in top.0.iter_mut().filter(|(name, _)| name == "\"metadata\"") {
        *value = metadata.text(spaces.1);
    }
    top_level.iter().for_each(|edit| top.edit(edit));
    top.text(spaces.0)
}

const KNOWN: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","labels":{"x":"y"}},"spec":{"a":1},"status":{"b":2}}"#;

#[test]
fn a_duplicate_member_after_the_known_ones_is_refused() {
    for more in [
        r#","status":{"b":2}"#,
        r#","spec":{"a":1}"#,
        r#","spec":null"#,
        r#","\u0073pec":{"a":1}"#,
        r#" ,"spec":{"a":1}"#,
        r#","metadata":{"name":"a"}"#,
        r#","kind":"Pod""#,
        r#","new":1,"new":1"#,
    ] {
        let text = format!("{}{more}}}", &KNOWN[..KNOWN.len() - 1]);
        assert!(Object::from_json(&text).is_err(), "{text}");
        assert_reads_the_same(KNOWN, &text);
    }
}

#[test]
fn a_new_member_after_the_known_ones_is_accepted() {
    for more in [r#","new":1"#, r#", "new" : {"spec":1}"#, r#","\u006eew":[]"#, " "] {
        let text = format!("{}{more}}}", &KNOWN[..KNOWN.len() - 1]);
        assert!(Object::from_json(&text).is_ok(), "{text}");
        assert_reads_the_same(KNOWN, &text);
    }
}

#[test]
fn a_duplicate_metadata_member_after_the_known_ones_is_refused() {
    for more in
        [r#","uid":"u""#, r#","labels":{"x":"y"}"#, r#","name":"a""#, r#","\u0075id":"u""#, r#","x":1,"x":1"#]
    {
        let text = KNOWN.replace(r#"{"x":"y"}"#, &format!(r#"{{"x":"y"}}{more}"#));
        assert!(Object::from_json(&text).is_err(), "{text}");
        assert_reads_the_same(KNOWN, &text);
    }
}

#[test]
fn values_nest_at_most_as_deep_as_kubernetes_allows() {
    let nested = |depth: usize| {
        let value = format!("{}\"[\\\"{{\"{}", "[".repeat(depth), "]".repeat(depth));
        KNOWN.replace(r#"{"b":2}"#, &value)
    };
    // The object itself is one level.
    assert!(Object::from_json(nested(9_999)).is_ok());
    let error = Object::from_json(nested(10_000)).expect_err("too deep").to_string();
    assert_eq!(error, "the object's values are nested more than 10000 deep");
    for depth in [9_999, 10_000, 100_000] {
        assert_reads_the_same(KNOWN, &nested(depth));
        assert_reads_the_same(&nested(9_999), &nested(depth));
    }
    // Many brackets side by side do not nest.
    assert!(Object::from_json(KNOWN.replace(r#"{"b":2}"#, &format!("[{}[]]", "[],".repeat(20_000)))).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn an_edited_version_reads_as_it_does_alone(
        object in object(),
        before in proptest::collection::vec(edit(), 0..2),
        top_level in proptest::collection::vec(edit(), 0..3),
        in_metadata in proptest::collection::vec(edit(), 0..3),
        spaces in prop::sample::select(vec![("", ""), ("", " "), (" ", ""), ("\n\t", "\r\n")]),
        version in 0..1000_u32,
    ) {
        let known = edited(&object, &before, &[], ("", ""));
        let mut next = object;
        next["metadata"]["resourceVersion"] = version.to_string().into();
        let top_level: Vec<_> = before.into_iter().chain(top_level).collect();
        assert_reads_the_same(&known, &edited(&next, &top_level, &in_metadata, spaces));
    }
}
