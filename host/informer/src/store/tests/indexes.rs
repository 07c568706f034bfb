//! Which objects an index finds.

use pilothouse_model::Object;

use super::{key, names, stores};
use crate::scripted_server::pod;
use crate::store::{IndexError, IndexFn, Store};

#[test]
fn an_object_has_zero_or_more_index_values_and_an_unknown_index_is_an_error() {
    for store in stores() {
        let letters = IndexFn::computed(|object| object.name().chars().map(String::from).collect());
        store.add_index("letters", letters).expect("new");
        store.add_index("app", IndexFn::label("app")).expect("new");
        for name in ["ab", "bc", "bb"] {
            store.update(pod(name, 1).object());
        }
        assert_eq!(names(store.by_index("letters", "b").expect("known")), ["ab", "bb", "bc"]);
        assert_eq!(store.index_keys("letters", "a").expect("known"), [key("ab")]);
        assert_eq!(store.index_values("letters").expect("known"), ["a", "b", "c"]);
        assert_eq!(names(store.index("letters", &pod("xc", 1).object()).expect("known")), ["bc"]);
        assert!(store.by_index("letters", "z").expect("known").is_empty());
        let error = store.by_index("lettres", "a").expect_err("unknown");
        assert_eq!(error.to_string(), "there is no index \"lettres\"; there are: app, letters");
        let none = Store::new().index_values("x").expect_err("unknown");
        assert_eq!(none.to_string(), "there is no index \"x\"; none was added");
    }
}

#[test]
fn an_update_moves_an_object_between_values_and_empty_values_are_dropped() {
    for store in stores() {
        store.add_index("app", IndexFn::label("app")).expect("new");
        store.update(pod("a", 1).object());
        store.update(pod("a", 2).app("db").object());
        assert_eq!(store.index_values("app").expect("known"), ["db"]);
        store.delete(&key("a"), None);
        assert!(store.index_values("app").expect("known").is_empty());
    }
}

#[test]
fn an_index_added_late_is_complete_and_names_are_unique() {
    for store in stores() {
        store.update(pod("a", 1).object());
        store.add_index("app", IndexFn::label("app")).expect("new");
        assert_eq!(names(store.by_index("app", "web").expect("known")), ["a"]);
        assert_eq!(
            store.add_index("app", IndexFn::namespace()),
            Err(IndexError::Exists { name: "app".into() })
        );
    }
}

#[test]
fn namespace_label_annotation_owner_and_field_indexes_are_built_in() {
    let object = Object::from_json(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"ns","labels":{"l":"1"},
            "annotations":{"n":"2"},"ownerReferences":[
              {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u1","controller":true},
              {"apiVersion":"v1","kind":"Node","name":"n","uid":"u2"}]},"spec":{"nodeName":"node-1"}}"#,
    )
    .expect("a pod");
    assert_eq!(IndexFn::namespace().values(&object), ["ns"]);
    assert_eq!(IndexFn::label("l").values(&object), ["1"]);
    assert_eq!(IndexFn::annotation("n").values(&object), ["2"]);
    assert_eq!(IndexFn::owner_uid().values(&object), ["u1", "u2"]);
    assert_eq!(IndexFn::field(".spec.nodeName").expect("a path").values(&object), ["node-1"]);
    let bare =
        Object::from_json(r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#).expect("a node");
    for index in [IndexFn::namespace(), IndexFn::label("l"), IndexFn::annotation("n"), IndexFn::owner_uid()] {
        assert!(index.values(&bare).is_empty(), "{index:?}");
    }
}

#[test]
fn an_index_leaves_out_an_object_with_too_many_values_or_too_long_ones() {
    let object = |name: &str, values: &[&str]| {
        let values = values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(",");
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"ns"}},"values":[{values}]}}"#
        );
        Object::from_json(text).expect("an object")
    };
    let field = || IndexFn::field(".values[*]").expect("a path");
    for store in stores() {
        store.add_index("all", field()).expect("new");
        store.add_index("limited", field().limited(2, 3)).expect("new");
        store.update(object("fits", &["a", "abc"]));
        store.update(object("many", &["a", "b", "b"]));
        store.update(object("long", &["a", "abcd"]));
        assert_eq!(store.index_keys("all", "a").expect("there"), ["fits", "long", "many"].map(key));
        assert_eq!(store.index_keys("limited", "a").expect("there"), [key("fits")]);
        store.update(object("fits", &["a", "b", "c"]));
        assert!(store.index_keys("limited", "a").expect("there").is_empty());
        store.update(object("many", &["a"]));
        assert_eq!(store.index_keys("limited", "a").expect("there"), [key("many")]);
        store.replace_all(&[object("many", &["a", "b", "c"]), object("fits", &["a"])], "9");
        assert_eq!(store.index_keys("limited", "a").expect("there"), [key("fits")]);
    }
}

#[test]
fn a_panicking_index_function_yields_no_value() {
    let store = Store::new();
    store.add_index("bad", IndexFn::computed(|_| panic!("a defect in the function"))).expect("new");
    store.update(pod("a", 1).object());
    assert!(store.index_values("bad").expect("known").is_empty());
    assert_eq!(store.len(), 1);
}
