//! Property tests: invariants that hold for arbitrary configurations.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{apply_as, owned, widget, widgets, writer};
use crate::patch::apply::{FieldSet, apply, diff, track_update};

fn specs() -> impl Strategy<Value = Value> {
    let part = ("[xyz]", proptest::option::of(0..3_i64)).prop_map(|(name, weight)| match weight {
        Some(weight) => json!({"name": name, "weight": weight}),
        None => json!({"name": name}),
    });
    let parts = proptest::collection::vec(part, 0..3).prop_map(|mut parts| {
        parts.sort_by_key(|part| part["name"].to_string());
        parts.dedup_by_key(|part| part["name"].to_string());
        parts
    });
    let tags = proptest::collection::btree_set("[pqr]", 0..3);
    let map = proptest::collection::btree_map("[klm]", "[01]", 0..3);
    (proptest::option::of(0..3_i64), proptest::option::of("red|blue"), parts, tags, map).prop_map(
        |(size, color, parts, tags, map)| {
            let mut spec = json!({"parts": parts, "tags": tags, "map": map});
            if let Some(size) = size {
                spec["size"] = json!(size);
            }
            if let Some(color) = color {
                spec["color"] = json!(color);
            }
            spec
        },
    )
}

/// Returns the parts and tags of `spec` with `suffix` appended to their names.
fn with_name_suffix(spec: &Value, suffix: &str) -> Value {
    let rename = |list: &Value| -> Vec<Value> {
        let parts = list.as_array().into_iter().flatten().cloned();
        parts
            .map(|mut part| {
                part["name"] = json!(format!("{}{suffix}", part["name"].as_str().unwrap_or_default()));
                part
            })
            .collect()
    };
    let tags: Vec<_> = spec["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let tags: Vec<_> = tags.iter().map(|tag| format!("{tag}{suffix}")).collect();
    json!({"parts": rename(&spec["parts"]), "tags": tags})
}

proptest! {
    #[test]
    fn apply_is_idempotent(first in specs(), second in specs()) {
        let live = apply_as("other", None, first).expect("creates");
        let once = apply(&widgets(), Some(&live), &widget(second.clone()), &writer("a"), true).expect("forced");
        let twice = apply(&widgets(), Some(&once), &widget(second), &writer("a"), true).expect("forced");
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn managers_of_disjoint_fields_never_conflict(one in specs(), two in specs(), three in specs()) {
        let live = apply_as("a", None, with_name_suffix(&one, "-a")).expect("creates");
        let live = apply_as("b", Some(&live), with_name_suffix(&two, "-b"));
        prop_assert!(live.is_ok(), "{:?}", live);
        let live = apply_as("a", live.as_ref().ok(), with_name_suffix(&three, "-a"));
        prop_assert!(live.is_ok(), "{:?}", live);
    }

    #[test]
    fn object_of_a_single_manager_equals_its_configuration(one in specs(), two in specs()) {
        let live = apply_as("a", None, one).expect("creates");
        let after = apply_as("a", Some(&live), two.clone()).expect("own fields");
        let alone = apply_as("a", None, two).expect("creates");
        // Items may have the order of the live object, and a list whose last item was removed stays as an empty list.
        let sorted = |object: &Value, list: &str| -> Vec<String> {
            let items = object["spec"][list].as_array().into_iter().flatten();
            let mut texts: Vec<_> = items.map(Value::to_string).collect();
            texts.sort();
            texts
        };
        prop_assert_eq!(sorted(&after, "parts"), sorted(&alone, "parts"));
        prop_assert_eq!(sorted(&after, "tags"), sorted(&alone, "tags"));
        prop_assert_eq!(after["spec"].get("size"), alone["spec"].get("size"));
        prop_assert_eq!(after["spec"].get("color"), alone["spec"].get("color"));
        prop_assert_eq!(&after["spec"]["map"], &alone["spec"]["map"]);
        prop_assert_eq!(owned(&after, "a"), owned(&alone, "a"));
    }

    #[test]
    fn changed_fields_are_owned_by_the_updater_alone(one in specs(), two in specs()) {
        let live = apply_as("a", None, one).expect("creates");
        let mut new = live.clone();
        new["spec"] = two;
        track_update(&widgets(), Some(&live), &mut new, &writer("b"));
        let applied = FieldSet::from_json(&owned(&new, "a"));
        let updated = FieldSet::from_json(&owned(&new, "b"));
        prop_assert!(applied.intersection(&updated).is_empty());
    }

    #[test]
    fn field_sets_satisfy_the_laws_of_sets(one in specs(), two in specs()) {
        let schema = widgets();
        let a = diff::fields_of(schema.root(), &widget(one));
        let b = diff::fields_of(schema.root(), &widget(two));
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(FieldSet::from_json(&a.to_json()), a);
    }
}
