//! Reads and writes of objects, and the replacement of all of them.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::{Object, ObjectKey};

use super::{key, names, objects, stores};
use crate::scripted_server::pod;
use crate::store::{IndexFn, ReaderSource, Store, StoreReader, StoreView};

#[test]
fn objects_are_inserted_updated_deleted_and_listed_by_key() {
    for store in stores() {
        assert!(store.update(pod("b", 1).object()).is_none());
        assert!(store.update(pod("a", 2).namespace("z").object()).is_none());
        assert!(store.update(pod("a", 3).object()).is_none());
        assert_eq!(store.update(pod("b", 4).object()).expect("the old one").resource_version(), "1");
        assert_eq!(store.get(&key("b")).expect("there").resource_version(), "4");
        assert_eq!(store.list_keys(), [key("a"), key("b"), ObjectKey::new("z", "a")]);
        assert_eq!(names(store.page(Some("ns"), None, 9)), ["a", "b"]);
        assert_eq!(names(store.page(None, Some(&key("a")), 1)), ["b"]);
        assert_eq!(names(store.page(Some("z"), Some(&key("b")), 9)), ["a"]);
        assert_eq!(names(store.page(Some("z"), Some(&key("a")), 9)), ["a"], "another namespace lies between");
        assert_eq!(names(store.page(Some("ns"), Some(&key("a")), 9)), ["b"]);
        assert!(store.page(Some("n"), None, 9).is_empty(), "a prefix of a namespace is another namespace");
        assert_eq!(store.delete(&key("b"), Some("9")).expect("there").resource_version(), "4");
        assert!(store.delete(&key("b"), None).is_none());
        assert_eq!((store.len(), store.resource_version().as_str()), (2, "9"));
        assert!(!store.is_empty() && Store::new().is_empty());
    }
}

#[test]
fn replace_swaps_objects_and_indexes_and_the_last_of_two_equal_keys_wins() {
    for store in stores() {
        store.add_index("app", IndexFn::label("app")).expect("new");
        store.replace_all(&objects(&[pod("a", 1), pod("b", 2)]), "5");
        store.replace_all(&objects(&[pod("b", 6).app("db"), pod("c", 7), pod("c", 8)]), "9");
        assert_eq!(store.list_keys(), [key("b"), key("c")]);
        assert_eq!(store.get(&key("c")).expect("there").resource_version(), "8");
        assert_eq!(names(store.by_index("app", "web").expect("known")), ["c"]);
        assert_eq!(names(store.by_index("app", "db").expect("known")), ["b"]);
        assert_eq!(store.resource_version(), "9");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_list_began_after_the_previous_list_was_stored() {
    let store = Arc::new(Store::new());
    let view = StoreView { store: Arc::clone(&store), restriction: None, id: 1 };
    let reader = StoreReader::new(Arc::new(ReaderSource::from_pointee(view)));
    store.replace_all(&[], "1");
    let first = tokio::time::Instant::now();
    assert_eq!(reader.last_list_began_after(), None, "the first list has no lower bound");
    tokio::time::advance(Duration::from_secs(5)).await;
    store.replace_all(&[], "2");
    assert_eq!(reader.last_list_began_after(), Some(first));
}

#[test]
fn the_memory_size_is_the_sum_of_the_objects() {
    let store = Store::new();
    let sum = || store.list().iter().map(Object::memory_size).sum::<usize>();
    store.update(pod("a", 1).object());
    store.update(pod("a", 1_000_000).app("a longer one").object());
    store.update(pod("b", 2).object());
    assert!(store.memory_size() == sum() && sum() > 0);
    store.delete(&key("a"), None);
    assert_eq!(store.memory_size(), sum());
    store.replace_all(&objects(&[pod("b", 6), pod("c", 7), pod("c", 800_000)]), "9");
    assert_eq!(store.memory_size(), sum());
    store.replace_all(&[], "10");
    assert_eq!(store.memory_size(), 0);
}

#[test]
fn an_object_held_by_a_reader_never_changes() {
    for store in stores() {
        store.update(pod("a", 1).object());
        let held = store.get(&key("a")).expect("there");
        let before = held.json().to_owned();
        store.update(pod("a", 2).app("db").object());
        store.replace_all(&[], "9");
        assert_eq!((held.json(), held.resource_version()), (before.as_str(), "1"));
    }
}

#[test]
fn debug_output_counts_objects_without_showing_them() {
    let store = Arc::new(Store::new());
    store.replace_all(&objects(&[pod("secret", 1)]), "5");
    let counts = "Store { objects: 1, resource_version: \"5\", .. }";
    assert_eq!(format!("{store:?}"), counts);
    let view = StoreView { store, restriction: None, id: 1 };
    let reader = StoreReader::new(Arc::new(ReaderSource::from_pointee(view)));
    assert_eq!(format!("{reader:?}"), format!("StoreReader {{ store: {counts}, restriction: None }}"));
    assert_eq!(format!("{:?}", IndexFn::label("app")), "IndexFn(label:app)");
    assert_eq!(format!("{:?}", IndexFn::computed(|_| Vec::new())), "IndexFn(computed)");
}
