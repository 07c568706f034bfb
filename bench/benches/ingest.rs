//! Measures the path from the bytes of a watch to a subscriber: parser, delta queue, store with two indexes, notification.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pilothouse_bench::{CannedServer, modified, pod_json, pods, watch_chunks};
use pilothouse_informer::{
    IndexFn, InformerKey, InformerOptions, InformerRegistry, ListWatch, SubscribeOptions, Subscription,
};
use pilothouse_model::{Object, ParseOptions, Transform};

const OBJECTS: usize = 1000;
const EVENTS: usize = 1000;

fn subscribe(server: Arc<CannedServer>) -> Subscription {
    let options = InformerOptions::default().with_streaming_list(false).with_seed(1);
    let factory = move |_: &InformerKey| -> Arc<dyn ListWatch> { server.clone() };
    let subscription = InformerRegistry::new(factory, options)
        .subscribe(pods(), SubscribeOptions::default())
        .expect("a runtime");
    subscription.add_index("shard", IndexFn::label("shard")).expect("new");
    subscription.add_index("node", IndexFn::field(".spec.nodeName").expect("a path")).expect("new");
    subscription
}

async fn take(subscription: &Subscription, mut count: usize) {
    while count > 0 {
        let batch = subscription.next_batch().await.expect("the informer runs");
        count = count.saturating_sub(batch.len());
        black_box(batch);
    }
}

fn ingest(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut group = criterion.benchmark_group("ingest");

    let json = pod_json(1, 1);
    group.throughput(Throughput::Bytes(json.len() as u64));
    group.bench_function("parse one pod", |bencher| {
        let transform = Transform::standard();
        let options = ParseOptions::default().with_transform(&transform);
        bencher.iter(|| Object::parse(black_box(json.as_bytes()), &options).expect("a pod"));
    });

    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("1000 watch events to one subscriber", |bencher| {
        let (server, feed) = CannedServer::with_pods(OBJECTS);
        let subscription = runtime.block_on(async { subscribe(server) });
        runtime.block_on(take(&subscription, OBJECTS));
        let mut version = 2;
        bencher.iter_batched(
            || {
                version += EVENTS;
                watch_chunks((0..EVENTS).map(|event| modified(event % OBJECTS, version + event)), 16_384)
            },
            |chunks| {
                for chunk in chunks {
                    feed.send(chunk).expect("the informer reads");
                }
                runtime.block_on(take(&subscription, EVENTS));
            },
            BatchSize::LargeInput,
        );
    });

    group.throughput(Throughput::Elements(OBJECTS as u64));
    group.bench_function("first list of 1000 objects to one subscriber", |bencher| {
        bencher.iter_batched(
            || CannedServer::with_pods(OBJECTS),
            |(server, _feed)| {
                runtime.block_on(async {
                    let subscription = subscribe(server);
                    take(&subscription, OBJECTS).await;
                });
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, ingest);
criterion_main!(benches);
