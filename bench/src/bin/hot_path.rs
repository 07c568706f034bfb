//! Runs a hot path COUNT times and nothing else, so that callgrind can count its instructions. The counts do not depend on the load of the
//! machine.
//!
//! Usage: `hot_path parse|list|watch|fixture COUNT`. `fixture` only creates the server of `list`, so that its share can be subtracted.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use pilothouse_bench::{CannedServer, modified, pod_json, pods};
use pilothouse_informer::{
    IndexFn, InformerKey, InformerOptions, InformerRegistry, ListWatch, SubscribeOptions, Subscription,
};
use pilothouse_model::{Object, ParseOptions, Transform};

const OBJECTS: usize = 1000;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_default();
    let count = arguments.next().and_then(|count| count.parse().ok());
    let Some(count) = count else { return usage() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    match path.as_str() {
        "parse" => parse(count),
        "fixture" => drop(CannedServer::with_pods(count)),
        "list" => drop(runtime.block_on(list(count))),
        "watch" => runtime.block_on(watch(count)),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: hot_path parse|fixture|list|watch COUNT");
    ExitCode::from(2)
}

fn parse(count: usize) {
    let json = pod_json(1, 1);
    let transform = Transform::standard();
    let options = ParseOptions::default().with_transform(&transform);
    for _ in 0..count {
        let _ = black_box(Object::parse(black_box(json.as_bytes()), &options));
    }
}

/// Delivers a first list of `count` objects to one subscriber.
async fn list(count: usize) -> (Subscription, tokio::sync::mpsc::UnboundedSender<bytes::Bytes>) {
    let (server, feed) = CannedServer::with_pods(count);
    let options = InformerOptions::default().with_streaming_list(false).with_seed(1);
    let factory = move |_: &InformerKey| -> Arc<dyn ListWatch> { server.clone() };
    let subscription = InformerRegistry::new(factory, options).subscribe(pods(), SubscribeOptions::default());
    let subscription = subscription.expect("a runtime is running");
    let _ = subscription.add_index("namespace", IndexFn::namespace());
    take(&subscription, count).await;
    (subscription, feed)
}

/// Delivers `count` events about a thousand objects to one subscriber with the index by namespace. Each event differs from the previous one
/// of its object in the resource version and in two timestamps.
async fn watch(count: usize) {
    let (subscription, feed) = list(OBJECTS).await;
    let first = 10_000_000;
    let of_round =
        |round: usize| (0..OBJECTS).map(move |number| modified(number, first + round)).collect::<String>();
    let mut rounds: Vec<_> = (0..4).map(|round| of_round(round).into_bytes()).collect();
    let versions: Vec<_> = (0..4)
        .map(|round| {
            let digits = (first + round).to_string();
            of_round(round).match_indices(&digits).map(|(at, _)| at).collect::<Vec<_>>()
        })
        .collect();
    for round in 0..count / OBJECTS {
        let (events, versions) = (&mut rounds[round % 4], &versions[round % 4]);
        for (number, &at) in versions.iter().enumerate() {
            let version = (first + round * OBJECTS + number).to_string();
            events[at..at + version.len()].copy_from_slice(version.as_bytes());
        }
        for chunk in events.chunks(65_536) {
            let _ = feed.send(Bytes::copy_from_slice(chunk));
        }
        take(&subscription, OBJECTS).await;
    }
}

async fn take(subscription: &Subscription, mut count: usize) {
    while count > 0 {
        let Some(batch) = subscription.next_batch().await else { return };
        count = count.saturating_sub(batch.len());
        black_box(batch);
    }
}
