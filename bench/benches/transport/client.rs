//! A client process: informers that measure themselves.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::try_join_all;
use pilothouse_bench::pods;
use pilothouse_informer::{
    InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions, Subscription,
};
use pilothouse_model::selector::LabelSelector;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::case::{Case, Protocol};
use crate::dial;

/// Executes a task. Prints one line when all caches are synced, and one when all subscribers have received the last event.
pub(crate) fn run(task: &str) -> Result<(), String> {
    let task: Value = serde_json::from_str(task).map_err(|error| error.to_string())?;
    let ingest = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ingest = ingest.map_err(|error| error.to_string())?;
    let handle = ingest.handle().clone();
    std::thread::spawn(move || ingest.block_on(std::future::pending::<()>()));
    let main = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    main.map_err(|error| error.to_string())?.block_on(read(&task, handle))
}

async fn read(task: &Value, ingest: tokio::runtime::Handle) -> Result<(), String> {
    let number =
        |name: &str| task[name].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
    let case = Case::named(task["case"].as_str().unwrap_or_default()).ok_or("the case is unknown")?;
    let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(number("port")).unwrap_or_default()));
    let client = client(&case, address, task["ca"].as_str().unwrap_or_default())?;
    let options = InformerOptions::default().with_runtime(ingest).with_streaming_list(case.streaming);
    let registry = InformerRegistry::new(KubeListWatches::new(client), options);
    let (objects, events) = (number("objects"), number("events"));
    let meter = Meter::start();
    let mut subscriptions = Vec::new();
    for watch in 0..case.watches {
        // Different selectors, so that no informer is served from the cache of another.
        let labels = LabelSelector::parse(&format!("shard=s{watch}")).map_err(|error| error.to_string())?;
        let key = if case.watches > 1 { pods().with_labels(labels) } else { pods() };
        let subscription = subscribe(&registry, key, objects + events)?;
        if watch == 0 {
            // The others then share its connection, if the protocol allows that.
            wait_for_sync(&subscription, objects).await?;
        }
        subscriptions.push(subscription);
    }
    try_join_all(subscriptions.iter().map(|subscription| wait_for_sync(subscription, objects))).await?;
    println!("{}", meter.read()?);
    let meter = Meter::start();
    let last: Arc<str> = (objects + events).to_string().into();
    let tasks = subscriptions
        .into_iter()
        .map(|subscription| tokio::spawn(wait_for_version(subscription, Arc::clone(&last))));
    // Dropped only after the measurement, which includes the memory of the caches.
    let subscriptions = try_join_all(tasks).await.map_err(|error| error.to_string())?;
    println!("{}", meter.read()?);
    drop(subscriptions.into_iter().collect::<Result<Vec<_>, _>>()?);
    Ok(())
}

fn client(case: &Case, address: SocketAddr, ca: &str) -> Result<kube::Client, String> {
    let scheme = if case.protocol == Protocol::Plain { "http" } else { "https" };
    let uri = format!("{scheme}://{address}").parse().map_err(|error| format!("{address}: {error}"))?;
    let mut config = kube::Config::new(uri);
    config.root_cert = Some(vec![unhex(ca)]);
    config.default_retry = false;
    config.disable_compression = !case.gzip;
    match case.protocol {
        Protocol::Plain | Protocol::Http1 => {
            kube::Client::try_from(config).map_err(|error| error.to_string())
        }
        Protocol::Http2 => dial::http2(&config, address),
        Protocol::Buffered => dial::buffered(&config, address),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits
        .chunks(2)
        .filter_map(|pair| u8::try_from(pair.iter().fold(0, |byte, digit| byte * 16 + digit)).ok())
        .collect()
}

fn subscribe(registry: &InformerRegistry, key: InformerKey, backlog: usize) -> Result<Subscription, String> {
    let options = SubscribeOptions::default().with_backlog(backlog);
    registry.subscribe(key, options).map_err(|error| error.to_string())
}

async fn wait_for_sync(subscription: &Subscription, objects: usize) -> Result<(), String> {
    let mut synced = false;
    while !synced {
        tokio::select! {
            ok = subscription.synced() => synced = ok,
            batch = subscription.next_batch() => drop(batch.ok_or("the informer stopped")?),
        }
    }
    let listed = subscription.store().len();
    if listed == objects { Ok(()) } else { Err(format!("{listed} of {objects} objects were listed")) }
}

/// Waits for the event with this resource version, and returns the subscription.
async fn wait_for_version(subscription: Subscription, last: Arc<str>) -> Result<Subscription, String> {
    loop {
        let batch = subscription.next_batch().await.ok_or("the informer stopped")?;
        if batch.iter().any(|notification| *notification.object().resource_version() == *last) {
            return Ok(subscription);
        }
    }
}

/// Measures wall-clock time, CPU time and memory of this process.
struct Meter {
    begun: Instant,
    cpu: f64,
}

impl Meter {
    fn start() -> Self {
        Self { begun: Instant::now(), cpu: cpu() }
    }

    fn read(&self) -> Result<Value, String> {
        let path = "/proc/self/smaps_rollup";
        let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let private = text
            .lines()
            .find_map(|line| line.strip_prefix("Anonymous:")?.trim().split(' ').next()?.parse::<f64>().ok());
        Ok(json!({
            "seconds": self.begun.elapsed().as_secs_f64(),
            "cpu": cpu() - self.cpu,
            "privateMib": private.ok_or_else(|| format!("{path} has no anonymous memory"))? / 1024.0,
        }))
    }
}

/// Returns the CPU time of the process so far, in seconds.
fn cpu() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
