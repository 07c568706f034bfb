//! A consumer process: the informer with one native subscriber, against a fixture server.

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

/// The command line of a consumer.
#[derive(Parser)]
pub struct ConsumerArguments {
    /// The URL of the fixture server.
    #[arg(long)]
    server: String,
    /// The number of objects that the server has.
    #[arg(long)]
    objects: usize,
    /// The number of events that the server sends.
    #[arg(long)]
    events: usize,
    /// What to do with the events.
    #[arg(long, default_value = "every")]
    mode: Mode,
    /// Measure the latency of each event from the send time in its annotation.
    #[arg(long)]
    latency: bool,
    /// How to compress the cache.
    #[arg(long, default_value = "none")]
    compression: CacheCompression,
}

/// How the cache stores objects.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CacheCompression {
    /// Uncompressed.
    None,
    /// Compressed by zstd with a dictionary.
    Zstd,
}

/// What a consumer does with the events.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Run the whole pipeline; the subscriber receives every event.
    Every,
    /// Run the whole pipeline; updates of one object may merge in the subscriber's backlog.
    Merge,
    /// Run no pipeline: split and count the lines, and keep nothing.
    Drain,
}

/// Runs the consumer until its standard input ends.
///
/// # Errors
/// If the server cannot be reached, or the watch ends early.
pub async fn run(consumer: ConsumerArguments) -> Result<(), String> {
    let handle = start_ingest_thread()?;
    let uri = consumer.server.parse().map_err(|error| format!("{}: {error}", consumer.server))?;
    let client = kube::Client::try_from(kube::Config::new(uri)).map_err(|error| error.to_string())?;
    let subscription = match consumer.mode {
        Mode::Drain => {
            let drained = handle.spawn(async move { drain(&consumer, client).await });
            drained.await.map_err(|error| error.to_string())??;
            None
        }
        Mode::Every | Mode::Merge => Some(ingest(&consumer, client, handle).await?),
    };
    keep_until_input_ends(subscription).await;
    Ok(())
}

/// Starts the thread on which informers run, as in the host.
pub(crate) fn start_ingest_thread() -> Result<Handle, String> {
    let ingest_runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ingest_runtime = ingest_runtime.map_err(|error| error.to_string())?;
    let handle = ingest_runtime.handle().clone();
    std::thread::spawn(move || ingest_runtime.block_on(std::future::pending::<()>()));
    Ok(handle)
}

/// Keeps the subscriptions and their caches until standard input ends.
pub(crate) async fn keep_until_input_ends<T>(subscriptions: T) {
    let _ = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await;
    drop(subscriptions);
}

/// Prints a line for the runner and flushes it.
pub(crate) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn ingest(
    consumer: &ConsumerArguments,
    client: kube::Client,
    runtime: Handle,
) -> Result<Subscription, String> {
    let compression = (consumer.compression == CacheCompression::Zstd).then(Compression::default);
    let options = InformerOptions::default().with_runtime(runtime).with_compression(compression);
    let registry = InformerRegistry::new(KubeListWatches::new(client), options);
    let backlog = match consumer.mode {
        // A backlog of one merges all pending notifications of an object.
        Mode::Merge => 1,
        // Longer than all events together, so that nothing is merged.
        _ => consumer.objects + consumer.events,
    };
    let options = SubscribeOptions::default().with_backlog(backlog);
    let subscription = registry.subscribe(pods(), options).map_err(|error| error.to_string())?;
    subscription.add_index("namespace", IndexFn::namespace()).map_err(|error| error.to_string())?;
    let stopped = || "the informer stopped".to_owned();
    let mut synced = false;
    while !synced {
        // The subscription may sync after the last notification of the list was taken.
        tokio::select! {
            ok = subscription.synced() => synced = ok,
            batch = subscription.next_batch() => drop(batch.ok_or_else(stopped)?),
        }
    }
    if subscription.store().len() < consumer.objects {
        return Err(format!("{} of {} objects were listed", subscription.store().len(), consumer.objects));
    }
    print_line(r#"{"at":"listed"}"#);
    let read = read_nanos(&subscription)?;

    let last = (consumer.objects + consumer.events).to_string();
    let mut delivered = 0;
    let mut latencies = Latencies::after(if consumer.latency { consumer.events / 20 } else { usize::MAX });
    'events: loop {
        let batch = subscription.next_batch().await.ok_or_else(stopped)?;
        for notification in &batch {
            if matches!(notification, Notification::Added { initial: true, .. }) {
                continue;
            }
            delivered += 1;
            if consumer.latency {
                latencies.record(notification.object());
            }
            if notification.object().resource_version() == last {
                break 'events;
            }
        }
    }
    let cached = subscription.store().len();
    let latencies =
        latencies.summary().map_or_else(String::new, |summary| format!(r#","latencyNanos":{summary}"#));
    print_line(&format!(
        r#"{{"at":"done","delivered":{delivered},"cached":{cached},"readNanos":{read}{latencies}}}"#
    ));
    Ok(subscription)
}

/// Measures the mean time to get an object from the cache and to read its text, in nanoseconds. The runner measures memory later, so this
/// does not distort it.
fn read_nanos(subscription: &Subscription) -> Result<u128, String> {
    let store = subscription.store();
    let (keys, begun) = (store.list_keys(), now());
    let bytes: usize = keys.iter().filter_map(|key| store.get(key)).map(|object| object.json().len()).sum();
    if bytes == 0 {
        return Err("the cached objects have no text".to_owned());
    }
    Ok((now() - begun) / (keys.len().max(1) as u128))
}

/// Reads and counts all events without a pipeline, for the cost of reading alone.
async fn drain(consumer: &ConsumerArguments, client: kube::Client) -> Result<(), String> {
    let server: Arc<dyn ListWatch> = Arc::new(KubeListWatch::new(client, pods()));
    let failed = |failure: pilothouse_informer::Failure| failure.to_string();
    let mut list = server.list(&ListParams::default()).await.map_err(failed)?;
    while let Some(chunk) = list.next().await {
        chunk.map_err(failed)?;
    }
    let mut watch = server.watch(&WatchParams::default()).await.map_err(failed)?;
    print_line(r#"{"at":"listed"}"#);
    let mut lines = 0;
    while lines < consumer.events {
        let chunk: Bytes = watch.next().await.ok_or("the watch ended")?.map_err(failed)?;
        lines += count_lines(&chunk);
    }
    print_line(&format!(r#"{{"at":"done","delivered":{lines},"cached":0}}"#));
    Ok(())
}

fn count_lines(chunk: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', chunk).count()
}

/// Returns the Unix time in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "events carry the time of another process")]
pub(crate) fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}
