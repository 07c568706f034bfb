//! Runs a hot path COUNT times and nothing else, so that callgrind can count its instructions. The counts do not depend on the load of the
//! machine.
//!
//! Usage: `hot_path PATH COUNT [CHANGE]`. The paths `fixture` and `realistic-fixture` only create what `list` and `realistic-watch` read, so
//! that their share can be subtracted. CHANGE is the only kind of change of the realistic traffic.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use pilothouse_bench::traffic::{Change, Traffic};
use pilothouse_bench::{CannedServer, modified, pod_json, pods, watch_chunks};
use pilothouse_informer::{
    IndexFn, InformerKey, InformerOptions, InformerRegistry, ListWatch, SubscribeOptions, Subscription,
};
use pilothouse_model::{Object, ParseOptions, Transform};

const OBJECTS: usize = 1000;
/// Ten Pods of each workload.
const REALISTIC_OBJECTS: usize = 4000;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_default();
    let count = arguments.next().and_then(|count| count.parse().ok());
    let Some(count) = count else { return usage() };
    let only = match arguments.next().as_deref() {
        None => None,
        Some("status") => Some(Change::Status),
        Some("labels") => Some(Change::Labels),
        Some("annotations") => Some(Change::Annotations),
        Some("spec") => Some(Change::Spec),
        Some("replacement") => Some(Change::Replacement),
        Some(_) => return usage(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    match path.as_str() {
        "parse" => parse(count),
        "fixture" => drop(CannedServer::with_pods(count)),
        "list" => drop(runtime.block_on(list(count))),
        "watch" => runtime.block_on(watch(count)),
        "realistic-fixture" => drop(realistic_events(count, only)),
        "realistic-watch" => runtime.block_on(realistic_watch(count, only)),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: hot_path parse|fixture|list|watch|realistic-fixture|realistic-watch COUNT [status|labels|annotations|spec|replacement]"
    );
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

type Feed = tokio::sync::mpsc::UnboundedSender<Bytes>;

/// Delivers a first list of `count` objects to one subscriber.
async fn list(count: usize) -> (Subscription, Feed) {
    let backlog = SubscribeOptions::default().backlog;
    list_from(CannedServer::with_pods(count), count, backlog).await
}

async fn list_from(
    (server, feed): (Arc<CannedServer>, Feed),
    count: usize,
    backlog: usize,
) -> (Subscription, Feed) {
    let subscribe = SubscribeOptions::default().with_backlog(backlog);
    let options = InformerOptions::default().with_streaming_list(false).with_seed(1);
    let factory = move |_: &InformerKey| -> Arc<dyn ListWatch> { server.clone() };
    let subscription = InformerRegistry::new(factory, options).subscribe(pods(), subscribe);
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

/// Returns a server of realistic Pods, and the chunks of a watch with `count` events.
fn realistic_events(count: usize, only: Option<Change>) -> ((Arc<CannedServer>, Feed), Vec<Bytes>) {
    let traffic = Traffic::new(19, REALISTIC_OBJECTS);
    let text = |parts: [&[u8]; 5]| String::from_utf8(parts.concat()).unwrap_or_default();
    let items = (0..REALISTIC_OBJECTS).map(|number| text(traffic.pod(number).parts(b"1", b"")));
    // A list has no types in its items.
    let items: Vec<_> =
        items.map(|item| item.replacen(r#""kind":"Pod","apiVersion":"v1","#, "", 1)).collect();
    let server = CannedServer::with_items(&items);
    let mut traffic = match only {
        Some(change) => traffic.with_only(change),
        None => traffic,
    };
    let events = (0..count).map(|number| {
        let event = traffic.next_event(number + 1 == count);
        let version = (10_000_000 + number).to_string();
        format!(
            "{{\"type\":\"{}\",\"object\":{}}}\n",
            event.kind,
            text(event.pod.parts(version.as_bytes(), b""))
        )
    });
    (server, watch_chunks(events, 65_536))
}

/// Delivers `count` events of realistic traffic to one subscriber with the index by namespace.
async fn realistic_watch(count: usize, only: Option<Change>) {
    let (server, chunks) = realistic_events(count, only);
    let (subscription, feed) = list_from(server, REALISTIC_OBJECTS, REALISTIC_OBJECTS + count).await;
    for chunk in chunks {
        let _ = feed.send(chunk);
    }
    take(&subscription, count).await;
}

async fn take(subscription: &Subscription, mut count: usize) {
    while count > 0 {
        let Some(batch) = subscription.next_batch().await else { return };
        count = count.saturating_sub(batch.len());
        black_box(batch);
    }
}
