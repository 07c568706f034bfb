//! Tests of compressed stores.

use pilothouse_model::{Object, ObjectKey, PackedObject};

use crate::options::Compression;
use crate::scripted_server::pod;
use crate::store::state::State;
use crate::store::{IndexFn, Store};

/// Returns objects with so much in common that compression pays.
fn similar_objects(count: u64) -> Vec<Object> {
    (1..=count).map(|i| pod(&format!("p{i:03}"), i).app(&"web".repeat(40)).object()).collect()
}

#[test]
fn a_list_is_packed_while_it_is_read_except_the_training_samples() {
    let store = Store::compressed(Compression { training_bytes: 2_000 });
    let mut listed = similar_objects(50);
    for chunk in listed.chunks_mut(3) {
        store.pack(chunk);
    }
    let plain = listed.iter().take_while(|object| PackedObject::of(object).is_none()).count();
    assert!((3..20).contains(&plain), "{plain} are plain");
    assert!(listed[plain..].iter().all(|object| PackedObject::of(object).is_some()));
    assert_eq!(listed, similar_objects(50));
    store.replace_all(&listed, "50");
    assert_eq!((store.packed(), store.list()), (50, listed));
}

#[test]
fn a_store_that_grows_by_events_is_packed_at_the_training_size() {
    let store = Store::compressed(Compression { training_bytes: 8_000 });
    let mut packed = Vec::new();
    for object in similar_objects(50) {
        store.update(object);
        packed.push(store.packed());
    }
    let first = packed.iter().position(|&packed| packed > 0).expect("it is enough");
    assert!(first > 5 && packed[first] == first + 1, "all objects at once: {packed:?}");
    assert_eq!((packed[49], store.list()), (50, similar_objects(50)));
}

#[test]
fn a_small_cache_stays_uncompressed() {
    let store = Store::compressed(Compression::default());
    store.replace_all(&similar_objects(20), "20");
    store.update(pod("p001", 21).object());
    assert_eq!(store.packed(), 0);
    assert_eq!(store.memory_size(), store.list().iter().map(Object::memory_size).sum::<usize>());
}

#[test]
fn the_memory_size_of_a_compressed_store_is_the_sum_of_its_packed_objects() {
    let store = Store::compressed(Compression { training_bytes: 1 });
    store.replace_all(&similar_objects(1), "1");
    let dictionary = store.memory_size() - store.read(State::bytes);
    assert!(dictionary > 0);
    let objects = similar_objects(400);
    store.replace_all(&objects, "400");
    let packed_size = |object: &Object| PackedObject::of(object).expect("packed").memory_size();
    let sum = |store: &Store| store.list().iter().map(packed_size).sum::<usize>() + dictionary;
    assert_eq!(store.memory_size(), sum(&store));
    store.list().iter().for_each(|object| assert!(!object.json().is_empty()));
    assert_eq!(store.memory_size(), sum(&store), "what readers unpack is not kept");
    assert!(
        (store.memory_size() - dictionary) * 4 < objects.iter().map(Object::memory_size).sum::<usize>() * 3
    );
    store.update(pod("p001", 401).app(&"x".repeat(300)).object());
    store.delete(&ObjectKey::new("ns", "p002"), None);
    assert_eq!(store.memory_size(), sum(&store));
}

#[test]
fn indexing_a_compressed_store_leaves_no_object_unpacked() {
    let store = Store::compressed(Compression { training_bytes: 1 });
    let items: Vec<_> = {
        store.replace_all(&similar_objects(1), "1");
        let mut items = similar_objects(20);
        store.pack(&mut items);
        items
    };
    let before: usize = items.iter().map(Object::memory_size).sum();
    store.add_index("app", IndexFn::label("app")).expect("new");
    drop(store.replace(&items, "20"));
    assert_eq!(store.by_index("app", &"web".repeat(40)).expect("known").len(), 20);
    assert_eq!(items.iter().map(Object::memory_size).sum::<usize>(), before);
}
