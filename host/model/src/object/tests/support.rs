//! Generators of objects and of damaged text, and what of two objects is compared.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Object, ParseOptions, Projection, Transform};

/// Calls `check` with each transform that the fast path supports, with and without a default type.
pub(crate) fn all_options(check: impl Fn(&ParseOptions<'_>)) {
    let plain = Transform::default();
    let standard = Transform::standard();
    let metadata = Transform { projection: Projection::Metadata, ..Transform::standard() };
    for shares_text in [None, Some(1)] {
        let options = ParseOptions::default().with_shared_text(shares_text);
        check(&options.with_type("v1", "Pod").with_transform(&plain));
        check(&options.with_transform(&standard));
        check(&options.with_type("v1", "Pod").with_transform(&metadata));
    }
}

/// Formats everything that an object's accessors return.
pub(crate) fn summary(object: &Object) -> String {
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

/// Generates names and strings, some of them with multi-byte characters or characters that JSON escapes.
pub(crate) fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-zA-Z0-9./ -]{0,20}",
        1 => proptest::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
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

pub(crate) fn object() -> impl Strategy<Value = Value> {
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

/// Damage to one place of a text.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Drop(prop::sample::Index),
    Replace(prop::sample::Index, char),
    Insert(prop::sample::Index, char),
    Cut(prop::sample::Index),
}

pub(crate) fn damage() -> impl Strategy<Value = Damage> {
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

pub(crate) fn damaged(text: &str, damages: &[Damage]) -> String {
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

/// Collects pointers to all values inside of `value`, and to some that are absent. `at` is the pointer to `value`.
pub(crate) fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    found.push(format!("{at}/absent"));
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
