//! The two consumers that are compared: a native subscriber, and a host with one plugin. Each has its own runtime on the same thread, so
//! that one does not run while the other is measured.

use std::time::Duration;

use bytes::Bytes;
use kube::Client;
use pilothouse_bench::pods;
use pilothouse_controller::{HostOptions, Metrics, PluginHost};
use pilothouse_informer::{
    InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions, Subscription,
};
use pilothouse_plugin::{Engine, EngineOptions};
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::pods::{COMMAND_OBJECTS, change};
use crate::server::{self, Feed};

/// How long to wait for anything.
const TIMEOUT: Duration = Duration::from_secs(300);

fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread().enable_all().build().map_err(|error| format!("a runtime: {error}"))
}

fn send(feed: &Feed, chunks: &[Bytes]) -> Result<(), String> {
    chunks.iter().try_for_each(|chunk| feed.send(chunk.clone())).map_err(|_| "the watch has ended".to_owned())
}

/// An informer with a subscriber that counts notifications.
pub(crate) struct NativeSubscriber {
    runtime: Runtime,
    subscription: Subscription,
    feed: Feed,
}

impl NativeSubscriber {
    pub(crate) fn start(list: &[Bytes], objects: usize) -> Result<Self, String> {
        let runtime = runtime()?;
        let (subscription, feed) = runtime.block_on(async {
            let (client, feed) = server::client(list);
            (subscribe(client), feed)
        });
        let mut native = Self { runtime, subscription: subscription?, feed };
        native.take(Some(objects + COMMAND_OBJECTS))?;
        Ok(native)
    }

    /// Sends a round and takes notifications until that of `mark`.
    pub(crate) fn round(&mut self, chunks: &[Bytes]) -> Result<(), String> {
        send(&self.feed, chunks)?;
        self.take(None)
    }

    /// Takes `count` notifications; without a count, takes notifications until that of `mark`.
    fn take(&mut self, count: Option<usize>) -> Result<(), String> {
        let taken = async {
            let mut notifications = 0;
            while count.is_none_or(|count| notifications < count) {
                let Some(batch) = self.subscription.next_batch().await else {
                    return Err("the informer has ended".to_owned());
                };
                notifications += batch.len();
                if count.is_none() && batch.last().is_some_and(|last| last.key().name() == "mark") {
                    return Ok(());
                }
            }
            Ok(())
        };
        let taken = self.runtime.block_on(async { timeout(TIMEOUT, taken).await });
        taken.map_err(|_| "the mark was not delivered".to_owned())?
    }
}

fn subscribe(client: Client) -> Result<Subscription, String> {
    let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
    registry.subscribe(pods(), SubscribeOptions::default()).map_err(|error| error.to_string())
}

/// A host with the guest `probe`.
pub(crate) struct Plugin {
    runtime: Runtime,
    host: PluginHost,
    feed: Feed,
    /// The number of the last log line that was read.
    last_line: u64,
    /// The counters that the guest logged for the last `mark`.
    mark: Option<(u64, u64)>,
    _directory: tempfile::TempDir,
}

impl Plugin {
    /// Starts the host and waits until the plugin has handled the list.
    pub(crate) fn start(list: &[Bytes], guest: &[u8], config: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| format!("a directory: {error}"))?;
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(directory.path().join(name), bytes).map_err(|error| format!("{name}: {error}"))
        };
        write("probe.yaml", format!("workers: 1\nconfig: {config}\n").as_bytes())?;
        write("probe.wasm", guest)?;
        let options = HostOptions {
            plugins: directory.path().to_owned(),
            api_server: "in-process".into(),
            grant_crds: false,
            grants: pilothouse_controller::GrantMode::Declared,
            instance: "bench".into(),
            settle: Duration::from_millis(50),
            access_review_interval: Duration::from_secs(30),
            requeue_on_reload: true,
            name_request_origins: false,
            environment: Default::default(),
            file_events: true,
            informer_runtime: None,
            cache_compression: None,
            streaming_lists: true,
            namespace: "default".into(),
        };
        let runtime = runtime()?;
        let engine = Engine::new(EngineOptions::default()).map_err(|error| error.to_string())?;
        let (host, feed) = runtime.block_on(async {
            let (client, feed) = server::client(list);
            let metrics = Metrics::register(&mut Registry::default());
            let host = PluginHost::new(options, client, engine, metrics);
            let running = host.clone();
            tokio::spawn(async move { running.run(CancellationToken::new()).await });
            (host, feed)
        });
        let mut plugin = Self { runtime, host, feed, last_line: 0, mark: None, _directory: directory };
        plugin.wait_for_list()?;
        Ok(plugin)
    }

    /// Waits until the plugin has handled the first list. The `mark` in the list may be handled before other objects, so further marks are sent
    /// until one is handled and the queue is empty.
    fn wait_for_list(&mut self) -> Result<(), String> {
        for _ in 0..TIMEOUT.as_secs() {
            self.change("mark", 0)?;
            self.runtime.block_on(async { sleep(Duration::from_secs(1)).await });
            let has_marked = self.take_lines("marked ").is_some();
            if has_marked && self.host.status().iter().all(|plugin| plugin.queue_depth == 0) {
                return Ok(());
            }
        }
        Err(format!("the plugin does not settle: {:?}", self.host.status()))
    }

    /// Sends a round and waits until the plugin has handled its `mark`.
    pub(crate) fn round(&mut self, chunks: &[Bytes]) -> Result<(), String> {
        send(&self.feed, chunks)?;
        self.wait_for_mark()
    }

    /// Returns the counters that the guest logged for the last `mark`: its reconciles and the fields that it found, or its notifications and
    /// batches, each since the start.
    pub(crate) fn last_mark(&self) -> Result<(u64, u64), String> {
        self.mark.ok_or_else(|| "no mark was seen".to_owned())
    }

    /// Changes only `mark` and waits until it is handled.
    pub(crate) fn mark(&mut self) -> Result<(u64, u64), String> {
        self.change("mark", 0)?;
        self.wait_for_mark()?;
        self.last_mark()
    }

    /// Makes the plugin queue all keys.
    pub(crate) fn fill(&mut self) -> Result<(), String> {
        self.change("fill", 0)?;
        // The worker continues until tokio's cooperative budget makes it yield, after some dozens of keys, so some keys may be reconciled
        // before this returns.
        self.wait_for("filled").map(drop)
    }

    /// Makes the plugin read `times` objects in one reconcile.
    pub(crate) fn read(&mut self, times: usize) -> Result<(), String> {
        self.change("read", times)?;
        let line = self.wait_for("read ")?;
        if line == format!("read {times}") {
            Ok(())
        } else {
            Err(format!("after {times} reads, the guest logged {line:?}"))
        }
    }

    /// Waits until the plugin has handled the last `mark`.
    pub(crate) fn wait_for_mark(&mut self) -> Result<(), String> {
        let line = self.wait_for("marked ")?;
        let mut numbers = line.split(' ').skip(1).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(first)), Some(Ok(second))) => self.mark = Some((first, second)),
            _ => return Err(format!("the guest logged {line:?}")),
        }
        Ok(())
    }

    fn change(&mut self, name: &str, reads: usize) -> Result<(), String> {
        send(&self.feed, &[change(name, reads)])
    }

    /// Waits for a log line that starts with `prefix`.
    fn wait_for(&mut self, prefix: &str) -> Result<String, String> {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            if let Some(line) = self.take_lines(prefix) {
                return Ok(line);
            }
            let (logs, last_line) = (self.host.logs(), self.last_line);
            // An error means that the timeout has elapsed, which ends the loop.
            let _ = self.runtime.block_on(async { timeout(TIMEOUT, logs.wait_after(last_line)).await });
        }
        Err(format!("the guest never logged {prefix:?}: {:?}", self.host.status()))
    }

    /// Reads the new log lines and returns the last one that starts with `prefix`.
    fn take_lines(&mut self, prefix: &str) -> Option<String> {
        let mut found = None;
        for line in self.host.logs().after(self.last_line, None) {
            self.last_line = line.sequence;
            if line.message.starts_with(prefix) {
                found = Some(line.message);
            } else if line.level == "warn" || line.level == "error" {
                eprintln!("the guest logged: {}", line.message);
            }
        }
        found
    }
}
