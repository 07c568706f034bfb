//! What is fed with events: a native subscriber, and a host with one plugin. Each has a runtime of its own on the one thread, so that nobody
//! runs while the other is measured.

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

use crate::pods::{SPECIAL, change};
use crate::server::{self, Feed};

/// How long anything may take before it is taken for stuck.
const PATIENCE: Duration = Duration::from_secs(300);

fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread().enable_all().build().map_err(|error| format!("a runtime: {error}"))
}

fn send(feed: &Feed, chunks: &[Bytes]) -> Result<(), String> {
    chunks.iter().try_for_each(|chunk| feed.send(chunk.clone())).map_err(|_| "the watch has ended".to_owned())
}

/// An informer and a subscriber that counts.
pub(crate) struct Native {
    runtime: Runtime,
    subscription: Subscription,
    feed: Feed,
}

impl Native {
    pub(crate) fn start(list: &[Bytes], objects: usize) -> Result<Self, String> {
        let runtime = runtime()?;
        let (subscription, feed) = runtime.block_on(async {
            let (client, feed) = server::client(list);
            (subscribe(client), feed)
        });
        let mut native = Self { runtime, subscription: subscription?, feed };
        native.take(objects + SPECIAL)?;
        Ok(native)
    }

    /// Takes notifications until that of the mark.
    pub(crate) fn round(&mut self, chunks: &[Bytes]) -> Result<(), String> {
        send(&self.feed, chunks)?;
        self.take(usize::MAX)
    }

    /// Takes so many notifications, or until that of the mark.
    fn take(&mut self, count: usize) -> Result<(), String> {
        let mut left = count;
        let taken = async {
            while left > 0 {
                let Some(batch) = self.subscription.next_batch().await else {
                    return Err("the informer has ended".to_owned());
                };
                left = left.saturating_sub(batch.len());
                if count == usize::MAX && batch.last().is_some_and(|last| last.key().name() == "mark") {
                    return Ok(());
                }
            }
            Ok(())
        };
        let taken = self.runtime.block_on(async { timeout(PATIENCE, taken).await });
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
    /// The lines of its log that were read.
    seen: u64,
    mark: Option<(u64, u64)>,
    _directory: tempfile::TempDir,
}

impl Plugin {
    /// Starts it and waits until it was told of the list.
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
            review_every: Duration::from_secs(30),
            requeue_on_reload: true,
            file_events: true,
            informer_runtime: None,
            compress_caches: false,
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
        let mut plugin = Self { runtime, host, feed, seen: 0, mark: None, _directory: directory };
        plugin.settle()?;
        Ok(plugin)
    }

    /// Waits until the first list is dealt with. Its mark is somewhere among the others, so further ones are sent until one is answered and
    /// no key is left.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..PATIENCE.as_secs() {
            self.change("mark", 0)?;
            self.runtime.block_on(async { sleep(Duration::from_secs(1)).await });
            let has_marked = self.take_lines("marked ").is_some();
            if has_marked && self.host.status().iter().all(|plugin| plugin.queue_depth == 0) {
                return Ok(());
            }
        }
        Err(format!("the plugin does not come to rest: {:?}", self.host.status()))
    }

    /// Feeds a round, and waits until the plugin has worked on its mark.
    pub(crate) fn round(&mut self, chunks: &[Bytes]) -> Result<(), String> {
        send(&self.feed, chunks)?;
        self.wait_for_mark()
    }

    /// What the guest said of the last mark: its reconciles and fields found, or notifications and batches, all in all.
    pub(crate) fn last_mark(&self) -> Result<(u64, u64), String> {
        self.mark.ok_or_else(|| "no mark was seen".to_owned())
    }

    /// Changes the mark alone and waits for it: nothing is left to do then.
    pub(crate) fn mark(&mut self) -> Result<(u64, u64), String> {
        self.change("mark", 0)?;
        self.wait_for_mark()?;
        self.last_mark()
    }

    /// Has the plugin queue all keys.
    pub(crate) fn fill(&mut self) -> Result<(), String> {
        self.change("fill", 0)?;
        // The worker goes on until the runtime has it give way, which is after some dozens of the keys.
        self.wait_for("filled").map(drop)
    }

    /// Has the plugin read so many objects in one reconcile.
    pub(crate) fn read(&mut self, times: usize) -> Result<(), String> {
        self.change("read", times)?;
        let said = self.wait_for("read ")?;
        if said == format!("read {times}") { Ok(()) } else { Err(format!("of {times} reads: {said}")) }
    }

    pub(crate) fn wait_for_mark(&mut self) -> Result<(), String> {
        let said = self.wait_for("marked ")?;
        let mut numbers = said.split(' ').skip(1).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(first)), Some(Ok(second))) => self.mark = Some((first, second)),
            _ => return Err(format!("the guest says {said:?}")),
        }
        Ok(())
    }

    fn change(&mut self, name: &str, reads: usize) -> Result<(), String> {
        send(&self.feed, &[change(name, reads)])
    }

    fn wait_for(&mut self, prefix: &str) -> Result<String, String> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(said) = self.take_lines(prefix) {
                return Ok(said);
            }
            let (logs, seen) = (self.host.logs(), self.seen);
            // An error is patience that has ended.
            let _ = self.runtime.block_on(async { timeout(PATIENCE, logs.wait_after(seen)).await });
        }
        Err(format!("the guest never said {prefix:?}: {:?}", self.host.status()))
    }

    /// The last new line of the log that begins so.
    fn take_lines(&mut self, prefix: &str) -> Option<String> {
        let mut said = None;
        for line in self.host.logs().after(self.seen, None) {
            self.seen = line.sequence;
            if line.message.starts_with(prefix) {
                said = Some(line.message);
            } else if line.level == "warn" || line.level == "error" {
                eprintln!("the guest says: {}", line.message);
            }
        }
        said
    }
}
