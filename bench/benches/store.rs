//! Measures the store alone, with 10,000 Pods and two indexes.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pilothouse_bench::pod;
use pilothouse_informer::{Compression, IndexFn, Store};
use pilothouse_model::Object;

const OBJECTS: usize = 10_000;

fn store(criterion: &mut Criterion) {
    let objects: Vec<Object> = (0..OBJECTS).map(|number| pod(number, 1)).collect();
    let changed: Vec<Object> = (0..OBJECTS).map(|number| pod(number, 2)).collect();
    let store = Store::new();
    store.add_index("shard", IndexFn::label("shard")).expect("new");
    store.add_index("node", IndexFn::field(".spec.nodeName").expect("a path")).expect("new");
    store.replace_all(&objects, "1");
    let bytes: usize = objects.iter().map(Object::memory_size).sum();
    eprintln!("{} heap bytes per cached Pod, without the map", bytes / OBJECTS);

    let mut group = criterion.benchmark_group("store");
    let mut turn = 0;
    group.bench_function("update", |bencher| {
        bencher.iter_batched(
            || {
                turn += 1;
                let versions = if (turn / OBJECTS).is_multiple_of(2) { &changed } else { &objects };
                versions[turn % OBJECTS].clone()
            },
            |object| store.update(object),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("get", |bencher| {
        bencher.iter(|| {
            turn += 1;
            store.get(black_box(objects[turn % OBJECTS].key()))
        });
    });
    group.bench_function("by_index, 100 of 10,000", |bencher| {
        bencher.iter(|| store.by_index("node", black_box("node-7")).expect("known"));
    });
    group.bench_function("page of 500 in one namespace", |bencher| {
        bencher.iter(|| store.page(Some("team-7"), None, black_box(500)));
    });
    group.bench_function("replace 10,000", |bencher| bencher.iter(|| store.replace_all(&objects, "3")));
    group.finish();
    compressed(criterion, &objects, &changed);
}

/// Measures the same store with packed objects. A get does not unpack the object; reading its text does.
fn compressed(criterion: &mut Criterion, objects: &[Object], changed: &[Object]) {
    let mut group = criterion.benchmark_group("compressed store");
    let plain = Store::new();
    let packed = Store::compressed(Compression::default());
    for (name, store) in [("plain", &plain), ("zstd", &packed)] {
        store.replace_all(objects, "1");
        eprintln!("{name}: {} heap bytes per cached Pod, without the map", store.memory_size() / OBJECTS);
        let mut turn = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                turn += 1;
                store.get(black_box(objects[turn % OBJECTS].key())).map(|object| object.json().len())
            });
        });
        group.bench_function(format!("{name}, the key and the version alone"), |bencher| {
            bencher.iter(|| {
                turn += 1;
                let object = store.get(black_box(objects[turn % OBJECTS].key()));
                object.map(|object| object.resource_version().len() + object.name().len())
            });
        });
        group.bench_function(format!("{name}, update"), |bencher| {
            bencher.iter_batched(
                || {
                    turn += 1;
                    let versions = if (turn / OBJECTS).is_multiple_of(2) { changed } else { objects };
                    versions[turn % OBJECTS].clone()
                },
                |object| store.update(object),
                BatchSize::SmallInput,
            );
        });
    }
    assert_eq!((plain.packed(), packed.packed()), (0, OBJECTS));
    group.finish();
}

criterion_group!(benches, store);
criterion_main!(benches);
