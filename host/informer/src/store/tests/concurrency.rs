//! Several threads at once: no reader waits for slow work, and none sees a state in between.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pilothouse_model::Object;

use super::{key, names, stores};
use crate::scripted_server::pod;
use crate::store::{IndexFn, ReaderSource, Store, StoreReader, StoreView};

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
