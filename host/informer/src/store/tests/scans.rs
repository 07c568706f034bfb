//! Reads in steps.

use std::sync::Arc;

use pilothouse_model::{LabelSelector, ObjectKey};

use super::{key, names, stores};
use crate::options::Compression;
use crate::scripted_server::{pod, pods_key};
use crate::store::{IndexFn, ReaderSource, Store, StoreReader, StoreView};

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
