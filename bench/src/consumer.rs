//! The informer with one native subscriber, against a fixture server.

use std::io::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use futures::StreamExt;
use pilothouse_informer::{
    Compression, IndexFn, InformerOptions, InformerRegistry, KubeListWatch, KubeListWatches, ListParams,
    ListWatch, SubscribeOptions, Subscription, WatchParams,
};
use pilothouse_model::Notification;
use tokio::runtime::Handle;

use crate::latency::Latencies;
use crate::pods;

/// What a consumer is asked to do.
#[derive(Parser)]
pub struct Consumer {
    /// Where the fixture server is.
    #[arg(long)]
    server: String,
    /// How many objects it has.
    #[arg(long)]
    objects: usize,
    /// How many events it sends.
    #[arg(long)]
    events: usize,
    /// What is done with them.
    #[arg(long, default_value = "every")]
    mode: Mode,
    /// Whether to read from each event when it was sent.
    #[arg(long)]
    latency: bool,
    /// Whether the cache is compressed.
    #[arg(long, default_value = "none")]
    compression: CacheCompression,
}

/// How the cache is kept.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CacheCompression {
    /// Objects as they are.
    None,
    /// Packed by zstd with a dictionary.
    Zstd,
}

/// What is done with the events.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The whole pipeline; the subscriber is told of every event.
    Every,
    /// The whole pipeline; the subscriber lets updates of one object merge.
    Merge,
    /// No pipeline: lines are split and counted, nothing is kept.
    Drain,
}

/// Runs the consumer until its input ends.
///
/// # Errors
/// When the server cannot be reached, or the watch ends early.
pub async fn run(consumer: Consumer) -> Result<(), String> {
    let ingest_runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ingest_runtime = ingest_runtime.map_err(|error| error.to_string())?;
    let handle = ingest_runtime.handle().clone();
    std::thread::spawn(move || ingest_runtime.block_on(std::future::pending::<()>()));
    let uri = consumer.server.parse().map_err(|error| format!("{}: {error}", consumer.server))?;
    let client = kube::Client::try_from(kube::Config::new(uri)).map_err(|error| error.to_string())?;
    let kept = match consumer.mode {
        Mode::Drain => {
            let drained = handle.spawn(async move { drain(&consumer, client).await });
            drained.await.map_err(|error| error.to_string())??;
            None
        }
        Mode::Every | Mode::Merge => Some(ingest(&consumer, client, handle).await?),
    };
    let _ = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await;
    drop(kept);
    Ok(())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn ingest(consumer: &Consumer, client: kube::Client, runtime: Handle) -> Result<Subscription, String> {
    let compression = (consumer.compression == CacheCompression::Zstd).then(Compression::default);
    let options = InformerOptions { runtime: Some(runtime), compression, ..InformerOptions::default() };
    let registry = InformerRegistry::new(KubeListWatches::new(client), options);
    let backlog = match consumer.mode {
        Mode::Merge => 1,
        // More than the informer can be ahead, so that nothing is merged.
        _ => consumer.objects + consumer.events,
    };
    let options = SubscribeOptions { backlog, ..SubscribeOptions::default() };
    let subscription = registry.subscribe(pods(), options).map_err(|error| error.to_string())?;
    subscription.add_index("namespace", IndexFn::namespace()).map_err(|error| error.to_string())?;
    let stopped = || "the informer stopped".to_owned();
    let mut synced = false;
    while !synced {
        // The sync may come after the last notification of the list was taken.
        tokio::select! {
            ok = subscription.synced() => synced = ok,
            batch = subscription.next_batch() => drop(batch.ok_or_else(stopped)?),
        }
    }
    if subscription.store().len() < consumer.objects {
        return Err(format!("{} of {} objects were listed", subscription.store().len(), consumer.objects));
    }
    say(r#"{"at":"listed"}"#);
    let read = read_nanos(&subscription)?;

    let last = (consumer.objects + consumer.events).to_string();
    let mut delivered = 0;
    let mut latencies = Latencies::after(if consumer.latency { consumer.events / 20 } else { usize::MAX });
    'told: loop {
        let batch = subscription.next_batch().await.ok_or_else(stopped)?;
        for notification in &batch {
            if matches!(notification, Notification::Added { initial: true, .. }) {
                continue;
            }
            delivered += 1;
            if consumer.latency {
                latencies.note(notification.object());
            }
            if notification.object().resource_version() == last {
                break 'told;
            }
        }
    }
    let cached = subscription.store().len();
    let latencies =
        latencies.summary().map_or_else(String::new, |summary| format!(r#","latencyNanos":{summary}"#));
    say(&format!(
        r#"{{"at":"done","delivered":{delivered},"cached":{cached},"readNanos":{read}{latencies}}}"#
    ));
    Ok(subscription)
}

/// What it costs to get an object of the cache and to have its text, in nanoseconds. Done while the runner lets the process settle.
fn read_nanos(subscription: &Subscription) -> Result<u128, String> {
    let store = subscription.store();
    let (keys, begun) = (store.list_keys(), now());
    let bytes: usize = keys.iter().filter_map(|key| store.get(key)).map(|object| object.json().len()).sum();
    if bytes == 0 {
        return Err("the cached objects have no text".to_owned());
    }
    Ok((now() - begun) / (keys.len().max(1) as u128))
}

/// What reading the bytes alone costs.
async fn drain(consumer: &Consumer, client: kube::Client) -> Result<(), String> {
    let server: Arc<dyn ListWatch> = Arc::new(KubeListWatch::new(client, pods()));
    let failed = |failure: pilothouse_informer::Failure| failure.to_string();
    let mut list = server.list(&ListParams::default()).await.map_err(failed)?;
    while let Some(chunk) = list.next().await {
        chunk.map_err(failed)?;
    }
    let mut watch = server.watch(&WatchParams::default()).await.map_err(failed)?;
    say(r#"{"at":"listed"}"#);
    let mut lines = 0;
    while lines < consumer.events {
        let chunk: Bytes = watch.next().await.ok_or("the watch ended")?.map_err(failed)?;
        lines += memchr_count(&chunk);
    }
    say(&format!(r#"{{"at":"done","delivered":{lines},"cached":0}}"#));
    Ok(())
}

fn memchr_count(chunk: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', chunk).count()
}

/// Unix time in nanoseconds.
pub(crate) fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}
