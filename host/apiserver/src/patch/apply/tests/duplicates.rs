//! Managed fields of lists that have several items with the same identity, which updates may write.

use serde_json::json;

use super::*;

/// Returns `old` with another specification, which `updater` wrote.
fn updated(old: Option<&Value>, spec: Value) -> Value {
    let mut new = widget(spec);
    if let Some(old) = old {
        new["metadata"] = old["metadata"].clone();
    }
    track_update(&widgets(), old, &mut new, &writer("updater"));
    new
}

#[test]
fn several_items_with_the_same_keys_are_owned_as_one() {
    let twice = json!([{"name": "x", "weight": 1}, {"name": "x", "weight": 2}, {"name": "y", "weight": 3}]);
    let object = updated(None, json!({"parts": twice, "tags": ["a", "a"]}));
    let expected = json!({"f:spec": {
        ".": {},
        "f:parts": {".": {}, "k:{\"name\":\"x\"}": {}, "k:{\"name\":\"y\"}": {".": {}, "f:name": {}, "f:weight": {}}},
        "f:tags": {".": {}, "v:\"a\"": {}},
    }});
    assert_eq!(owned(&object, "updater"), expected);
}

#[test]
fn who_changes_one_of_several_items_owns_all_of_them() {
    let item = |weight: u32| json!({"name": "x", "weight": weight});
    let first = apply_as("a", None, json!({"parts": [item(1)]})).expect("no conflict");
    let twice = updated(Some(&first), json!({"parts": [item(1), item(2)]}));
    assert_eq!(owned(&twice, "updater"), json!({"f:spec": {"f:parts": {"k:{\"name\":\"x\"}": {}}}}));
    let again = updated(Some(&twice), json!({"parts": [item(1), item(2)]}));
    assert_eq!(again["metadata"]["managedFields"], twice["metadata"]["managedFields"], "nothing changed");
    let once = updated(Some(&twice), json!({"parts": [item(1)]}));
    let whole =
        json!({"f:spec": {"f:parts": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:weight": {}}}}});
    assert_eq!(owned(&once, "updater"), whole);
}

#[test]
fn an_applied_item_replaces_several_items_with_its_keys() {
    let twice = updated(
        None,
        json!({"parts": [{"name": "x", "note": "a"}, {"name": "x", "note": "b"}, {"name": "y"}]}),
    );
    let config = widget(json!({"parts": [{"name": "x", "weight": 1}]}));
    let applied = apply(&widgets(), Some(&twice), &config, &writer("a"), true).expect("forced");
    assert_eq!(applied["spec"]["parts"], json!([{"name": "x", "weight": 1}, {"name": "y"}]));
}
