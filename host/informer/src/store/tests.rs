//! Tests of the store, its indexes and its readers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pilothouse_model::{LabelSelector, Object, ObjectKey};
use proptest::prelude::*;

use super::{IndexError, IndexFn, IndexMemory, ReaderSource, Store, StoreReader, StoreView};
use crate::options::Compression;
use crate::scripted_server::{Pod, pod, pods_key};

/// Returns an uncompressed store, and one that packs all objects but the first.
fn stores() -> [Store; 2] {
    [Store::new(), Store::compressed(Compression { training_bytes: 1 })]
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn objects(pods: &[Pod]) -> Vec<Object> {
    pods.iter().map(Pod::object).collect()
}

fn names(objects: impl AsRef<[Object]>) -> Vec<String> {
    objects.as_ref().iter().map(|object| object.name().to_owned()).collect()
}

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
fn readers_do_not_wait_for_a_replacement_in_progress() {
    let store = Store::new();
    store.update(pod("old", 1).object());
    let (entered, building) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    let (wait, slow) = (parking_lot::Mutex::new(wait), AtomicBool::new(false));
    let slow = std::sync::Arc::new(slow);
    let function = IndexFn::computed({
        let slow = std::sync::Arc::clone(&slow);
        move |_| {
            if slow.load(Ordering::SeqCst) {
                entered.send(()).expect("the test waits");
                wait.lock().recv_timeout(Duration::from_secs(30)).expect("the test releases it");
            }
            Vec::new()
        }
    });
    store.add_index("slow", function).expect("new");
    slow.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| store.replace_all(&[pod("new", 2).object()], "2"));
        building.recv().expect("the replacement is being built");
        // If the writer held the lock now, this would never return, because the index function waits for us.
        assert_eq!(names(store.list()), ["old"]);
        assert!(store.get(&key("new")).is_none());
        assert_eq!(store.index_values("slow").expect("known").len(), 0);
        slow.store(false, Ordering::SeqCst);
        release.send(()).expect("the index waits");
    });
    assert_eq!(names(store.list()), ["new"]);
}

#[test]
fn readers_see_the_old_list_or_the_new_list_and_never_a_mix() {
    for store in stores() {
        store.add_index("app", IndexFn::label("app")).expect("new");
        let generation = |app: &str| -> Vec<Object> {
            (0..50).map(|i| pod(&format!("{app}{i}"), 1).app(app).object()).collect()
        };
        let (even, odd) = (generation("even"), generation("odd"));
        store.replace_all(&even, "0");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..200 {
                    store.replace_all(if round % 2 == 0 { &odd } else { &even }, "1");
                }
                done.store(true, Ordering::SeqCst);
            });
            while !done.load(Ordering::SeqCst) {
                let apps: BTreeSet<_> =
                    store.list().iter().map(|o| o.label("app").expect("labelled").into_owned()).collect();
                assert_eq!((apps.len(), store.len()), (1, 50));
                assert_eq!(store.index_values("app").expect("known").len(), 1);
            }
        });
    }
}

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
fn equal_declared_indexes_are_shared_and_dropped_with_their_last_name() {
    let store = Store::new();
    store.update(pod("a", 1).object());
    store.add_scoped_index(1, "x", IndexFn::label("app")).expect("new");
    store.add_scoped_index(2, "y", IndexFn::label("app")).expect("new");
    assert_eq!(store.index_count(), 1);
    store.drop_scope(1);
    assert_eq!(store.index_names(1), [""; 0]);
    assert_eq!(store.with_index(2, "y", |state, id| state.objects_with_value(id, "web").count()), Ok(1));
    store.drop_scope(2);
    assert_eq!(store.index_count(), 0);
}

/// An account that counts what is charged to it.
#[derive(Default)]
struct Account(AtomicUsize);

impl IndexMemory for Account {
    fn grew(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn shrank(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Account {
    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn an_index_is_charged_once_to_each_account_until_the_last_name_is_gone() {
    let (one, two) = (Arc::<Account>::default(), Arc::<Account>::default());
    let charged = |account: &Arc<Account>| IndexFn::label("app").charged_to(account.clone());
    let store = Store::new();
    store.update(pod("a", 1).object());
    store.add_scoped_index(1, "x", charged(&one)).expect("new");
    let bytes = one.bytes();
    assert!(bytes > 0);
    store.add_scoped_index(1, "same", charged(&one)).expect("new");
    store.add_scoped_index(2, "x", charged(&one)).expect("new");
    store.add_scoped_index(3, "y", charged(&two)).expect("new");
    store.add_scoped_index(4, "z", IndexFn::label("app")).expect("new");
    assert_eq!((store.index_count(), one.bytes(), two.bytes()), (1, bytes, bytes));
    assert!(store.add_scoped_index(3, "y", charged(&two)).is_err());
    assert_eq!(two.bytes(), bytes, "a refused name is not charged");
    store.drop_index(1, "x");
    store.drop_scope(2);
    assert_eq!(one.bytes(), bytes, "another name is left");
    store.drop_scope(1);
    assert_eq!((one.bytes(), two.bytes()), (0, bytes));
    store.update(pod("b", 1).app("other").object());
    assert!(two.bytes() > bytes && one.bytes() == 0);
    drop(store);
    assert_eq!(two.bytes(), 0);
}

#[test]
fn scans_in_steps_find_the_same_as_one_read() {
    for (store, step) in stores().into_iter().flat_map(|store| {
        let store = Arc::new(store);
        [1, 2, 3, 100].map(|step| (Arc::clone(&store), step))
    }) {
        let letters = IndexFn::computed(|object| object.name().chars().map(String::from).collect());
        // Equal names of the same index may exist from the step before.
        let _ = store.add_scoped_index(1, "letters", letters);
        for (number, name) in ["ab", "bc", "bb", "cd", "abc", "e"].into_iter().enumerate() {
            let app = if number.is_multiple_of(2) { "web" } else { "db" };
            store.update(pod(name, 1).app(app).object());
        }
        let web = pods_key().with_labels(LabelSelector::parse("app=web").expect("a selector"));
        for restriction in [None, pods_key().restriction_for(&web)] {
            let view = StoreView { store: Arc::clone(&store), restriction, id: 1 };
            let reader = StoreReader::new(Arc::new(ReaderSource::new(Arc::new(view))));
            for value in ["a", "b", "c", "e", "z"] {
                let (mut objects, mut keys, mut after) = (Vec::new(), Vec::new(), None);
                loop {
                    let scan = reader.scan_index("letters", value, after.as_ref(), step).expect("known");
                    let scanned_keys =
                        reader.scan_index_keys("letters", value, after.as_ref(), step).expect("known");
                    assert_eq!(scan.next, scanned_keys.next);
                    objects.extend(scan.found);
                    keys.extend(scanned_keys.found);
                    after = scan.next;
                    if after.is_none() {
                        break;
                    }
                }
                assert_eq!(objects, reader.by_index("letters", value).expect("known"), "{value}, {step}");
                assert_eq!(keys, reader.index_keys("letters", value).expect("known"), "{value}, {step}");
            }
            let (mut objects, mut after) = (Vec::new(), None);
            loop {
                let scan = reader.scan(Some("ns"), after.as_ref(), step, 2);
                assert!(scan.found.len() <= step.min(2));
                objects.extend(scan.found);
                after = scan.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(objects, reader.list(), "{step}");
            for namespace in [None, Some("ns"), Some("other")] {
                let (mut keys, mut after) = (Vec::new(), None);
                loop {
                    let scan = reader.scan_keys(namespace, after.as_ref(), step);
                    keys.extend(scan.found);
                    after = scan.next;
                    if after.is_none() {
                        break;
                    }
                }
                let expected = namespace.map_or_else(|| reader.list_keys(), |name| reader.list_keys_in(name));
                assert_eq!(keys, expected, "{namespace:?}, {step}");
            }
            let values_without = |ignored: &str| {
                let (mut values, mut from) = (Vec::new(), None);
                loop {
                    let is_ignored = |key: &ObjectKey| key.name() == ignored;
                    let (found, next) =
                        reader.scan_index_values("letters", from.as_ref(), step, &is_ignored).expect("known");
                    values.extend(found);
                    from = next;
                    if from.is_none() {
                        return values;
                    }
                }
            };
            assert_eq!(values_without(""), reader.index_values("letters").expect("known"), "{step}");
            assert!(!values_without("e").contains(&"e".to_owned()), "its only object is ignored");
        }
    }
}

#[test]
fn a_scan_of_a_restricted_view_keeps_no_unpacked_text() {
    let store = Arc::new(Store::compressed(Compression { training_bytes: 1 }));
    for name in ["a", "b", "c", "d"] {
        store.update(pod(name, 1).app(&"web".repeat(20)).object());
    }
    let web = LabelSelector::parse(&format!("app={}", "web".repeat(20))).expect("a selector");
    let restriction = pods_key().restriction_for(&pods_key().with_labels(web));
    assert!(restriction.is_some());
    let packed_size = |name: &str| store.get(&key(name)).expect("there").memory_size();
    let view = StoreView { store: Arc::clone(&store), restriction, id: 1 };
    let reader = StoreReader::new(Arc::new(ReaderSource::new(Arc::new(view))));
    let found = reader.scan(None, None, 10, 10).found;
    assert_eq!(names(&found), ["a", "b", "c", "d"]);
    for object in found {
        assert_eq!(object.memory_size(), packed_size(object.name()), "{}", object.name());
    }
}

#[test]
fn a_reader_moved_between_caches_always_finds_its_index() {
    let cache = || {
        let store = Arc::new(Store::new());
        store.add_scoped_index(7, "app", IndexFn::label("app")).expect("new");
        Arc::new(StoreView { store, restriction: None, id: 7 })
    };
    let source = Arc::new(ReaderSource::new(cache()));
    let reader = StoreReader::new(Arc::clone(&source));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5000 {
                // As an informer does: add the index to the new cache before removing it from the old one.
                source.swap(cache()).store.drop_scope(7);
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            assert_eq!(reader.index_values("app").expect("every cache has it").len(), 0);
        }
    });
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
fn an_index_is_built_without_the_lock_and_has_the_changes_made_meanwhile() {
    for store in stores().map(Arc::new) {
        for (name, version) in [("changed", 1), ("deleted", 2), ("same", 3)] {
            store.update(pod(name, version).app("old").object());
        }
        let (changing, is_first) = (Arc::clone(&store), AtomicBool::new(true));
        let function = IndexFn::computed(move |object| {
            if is_first.swap(false, Ordering::Relaxed) {
                // This would never end if the store were locked.
                changing.update(pod("added", 4).app("new").object());
                changing.update(pod("changed", 5).app("new").object());
                changing.delete(&key("deleted"), None);
                changing.update(pod("z", 6).app("old").object());
            }
            object.label("app").map(std::borrow::Cow::into_owned).into_iter().collect()
        });
        store.add_index("app", function).expect("new");
        assert_eq!(store.index_keys("app", "old").expect("there"), [key("same"), key("z")]);
        assert_eq!(store.index_keys("app", "new").expect("there"), [key("added"), key("changed")]);
        store.update(pod("z", 7).app("new").object());
        assert_eq!(store.index_keys("app", "new").expect("there"), ["added", "changed", "z"].map(key));
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

#[derive(Clone, Debug)]
enum Op {
    Update(u8, u8),
    Delete(u8),
    Replace(Vec<(u8, u8)>),
    AddIndex(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0..8_u8, 0..4_u8).prop_map(|(name, app)| Op::Update(name, app)),
        2 => (0..8_u8).prop_map(Op::Delete),
        1 => proptest::collection::vec((0..8_u8, 0..4_u8), 0..8).prop_map(Op::Replace),
        1 => (0..3_u8).prop_map(Op::AddIndex),
    ]
}

proptest! {
    /// The model is a plain map with indexes that are recomputed for each comparison.
    #[test]
    fn store_and_indexes_agree_with_a_naive_model(
        ops in proptest::collection::vec(op(), 1..60),
        compressed in any::<bool>(),
        training_bytes in 0..2000_usize,
    ) {
        let store = if compressed { Store::compressed(Compression { training_bytes }) } else { Store::new() };
        let mut model: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        let functions = [IndexFn::label("app"), IndexFn::computed(|o| {
            let app = o.label("app").map(std::borrow::Cow::into_owned).unwrap_or_default();
            (0..app.len() % 3).map(|i| format!("{app}{i}")).chain([app.clone(), app.clone()]).collect()
        }), IndexFn::namespace()];
        let mut indexes: BTreeMap<String, (&IndexFn, Arc<Account>)> = BTreeMap::new();
        let make = |name: u8, app: u8, version: u64| {
            let namespace = if name.is_multiple_of(2) { "even" } else { "odd" };
            pod(&format!("p{name}"), version).namespace(namespace).app(&"x".repeat(app.into())).object()
        };
        for (version, op) in (1..).zip(ops) {
            match op {
                Op::Update(name, app) => {
                    let object = make(name, app, version);
                    prop_assert_eq!(store.update(object.clone()), model.insert(object.key().clone(), object));
                }
                Op::Delete(name) => {
                    let object = make(name, 0, version);
                    prop_assert_eq!(store.delete(object.key(), None), model.remove(object.key()));
                }
                Op::Replace(items) => {
                    let items: Vec<_> = items.into_iter().map(|(name, app)| make(name, app, version)).collect();
                    model = items.iter().map(|object| (object.key().clone(), object.clone())).collect();
                    store.replace_all(&items, "1");
                }
                Op::AddIndex(number) => {
                    let name = format!("i{number}");
                    let function = &functions[usize::from(number)];
                    let account = Arc::<Account>::default();
                    let charged = function.clone().charged_to(account.clone());
                    prop_assert_eq!(store.add_index(&name, charged).is_ok(), !indexes.contains_key(&name));
                    indexes.entry(name).or_insert((function, account));
                }
            }
            prop_assert_eq!(store.list(), model.values().cloned().collect::<Vec<_>>());
            prop_assert_eq!(store.list_keys(), model.keys().cloned().collect::<Vec<_>>());
            for (name, (function, account)) in &indexes {
                let fresh = Store::new();
                model.values().for_each(|object| drop(fresh.update(object.clone())));
                let counted = Arc::<Account>::default();
                fresh.add_index(name, (*function).clone().charged_to(counted.clone())).expect("new");
                prop_assert_eq!(account.bytes(), counted.bytes(), "the charge depends on the content only");
                let mut expected: BTreeMap<String, Vec<ObjectKey>> = BTreeMap::new();
                for object in model.values() {
                    for value in function.values(object) {
                        expected.entry(value).or_default().push(object.key().clone());
                    }
                }
                let values = store.index_values(name).expect("known");
                prop_assert_eq!(&values, &expected.keys().cloned().collect::<Vec<_>>());
                for value in values {
                    prop_assert_eq!(&store.index_keys(name, &value).expect("known"), &expected[&value]);
                }
            }
        }
    }
}
