//! All plugins of one directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use parking_lot::{Mutex, RwLock};
use pilothouse_informer::{Compression, InformerDump, InformerOptions, InformerRegistry, KubeListWatches};
use pilothouse_plugin::{Engine, HostMemory};
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cache::own_writes::PluginWrites;
use crate::client::clients::Clients;
use crate::client::{Discovery, EventRecorder, Server};
use crate::config::operator::Operator;
use crate::config::sidecar::GrantMode;
use crate::directory::{Change, Directory, Scan, Writers, scan};
use crate::guest_host::GuestServices;
use crate::lifecycle::task_panics::TaskPanics;
use crate::lifecycle::{Lifecycle, PluginStatus};
use crate::load::LoadServices;
use crate::load::ahead::Ahead;
use crate::logs::PluginLogs;
use crate::metrics::Metrics;
use crate::metrics::compile::CompileCollector;
use crate::metrics::guest::GuestMetrics;
use crate::metrics::informers::InformerCollector;
use crate::name::{NameError, PluginName};
use crate::outgoing::Tls;
use crate::runtime::hot_loop::{Authors, HotLoops};
use crate::runtime::queue::PluginQueue;
use crate::runtime::{PluginHandle, PluginView, ReloadOptions};

/// How a host runs.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The directory whose .wasm files run.
    pub plugins: PathBuf,
    /// The API server as `host:port`, a label of its clients' metrics.
    pub api_server: String,
    /// Whether the CRDs that plugins bring are applied, unless a sidecar says otherwise.
    pub grant_crds: bool,
    /// What a plugin gets of what its sidecar does not mention.
    pub grants: GrantMode,
    /// What tells this process from others in Events.
    pub instance: String,
    /// The namespace of the Events about plugins themselves: the host's own.
    pub namespace: String,
    /// How long a file must look the same before it is loaded.
    pub settle: Duration,
    /// Whether the file system is asked to tell of changes. Where it cannot, as on a network, and where this is off, the
    /// directory is looked at every two seconds.
    pub file_events: bool,
    /// How often it is reviewed what a plugin's service account may read, where it has one; a right that is taken away counts for
    /// about that long.
    pub review_every: Duration,
    /// The runtime that informers run on, if not that of the plugins.
    pub informer_runtime: Option<Handle>,
    /// Whether cached objects are compressed.
    pub compress_caches: bool,
    /// Whether watches ask for streaming lists first. API servers compress plain lists and no streams.
    pub streaming_lists: bool,
    /// Whether a reload queues every object again. Off only in tests.
    pub requeue_on_reload: bool,
}

/// Stopped plugins that are shown.
const STOPPED: usize = 32;

/// What the file system tells.
#[derive(Default)]
struct Told {
    changed: Notify,
    writers: Mutex<Writers>,
}

/// How often the directory is looked at even if nothing was notified: network file systems notify nobody.
const POLL: Duration = Duration::from_secs(2);

/// Runs the plugins of a directory against one API server. Cheap to clone.
#[derive(Clone)]
pub struct PluginHost {
    shared: Arc<Shared>,
}

struct Shared {
    options: HostOptions,
    services: LoadServices,
    events: EventRecorder,
    authors: Authors,
    logs: PluginLogs,
    metrics: Metrics,
    guest_metrics: GuestMetrics,
    started: Instant,
    views: RwLock<BTreeMap<PluginName, Arc<PluginView>>>,
    /// What was there at the start has settled.
    scanned: AtomicBool,
    reached: AtomicBool,
    /// Files that cannot be plugins, with the reason.
    refused: RwLock<Vec<NameError>>,
}

impl PluginHost {
    /// A host that runs nothing yet. Needs a tokio runtime.
    #[must_use]
    pub fn new(options: HostOptions, clients: impl Into<Clients>, engine: Engine, metrics: Metrics) -> Self {
        let Clients { requests, watches } = clients.into();
        let measure = |client| metrics.rest.measure(client, &options.api_server);
        let server = Server::new(measure(requests));
        let informer_options = InformerOptions {
            runtime: options.informer_runtime.clone(),
            streaming_list: options.streaming_lists,
            compression: options.compress_caches.then(Compression::default),
            ..InformerOptions::default()
        };
        let informers = InformerRegistry::new(KubeListWatches::new(measure(watches)), informer_options);
        let services = LoadServices {
            engine,
            discovery: Discovery::new(server.clone()),
            server: server.clone(),
            informers,
            grant_crds: options.grant_crds,
            grants: options.grants,
            review_every: options.review_every,
            tls: Tls::default(),
            ahead: Ahead::default(),
        };
        let logs = PluginLogs::default();
        let events = EventRecorder::start(server, options.instance.as_str().into(), logs.clone());
        Self {
            shared: Arc::new(Shared {
                options,
                services,
                events,
                authors: Authors::default(),
                logs,
                metrics,
                guest_metrics: GuestMetrics::default(),
                started: Instant::now(),
                views: RwLock::default(),
                scanned: AtomicBool::new(false),
                reached: AtomicBool::new(false),
                refused: RwLock::default(),
            }),
        }
    }

    /// Runs the plugins until shutdown, then stops them: each may finish what it holds, for at most eight seconds.
    pub async fn run(&self, shutdown: CancellationToken) {
        let told = Arc::new(Told::default());
        let (mut watcher, mut watched) = (None, None);
        let reaching = tokio::spawn(self.clone().reach_server());
        let mut directory = Directory::new(self.shared.options.settle);
        let mut plugins = BTreeMap::new();
        let mut complaints = Vec::new();
        while !shutdown.is_cancelled() {
            let found = self.scan(&mut complaints).await;
            let folder = found.as_ref().map(|found| found.folder);
            if folder != watched {
                // A watch on a directory that is gone does not come back with it, nor does it see the one in its place.
                watcher = folder.and_then(|_| self.watch_directory(&told));
                watched = folder;
                // What happened between the look and the watch is looked for once more.
                told.changed.notify_one();
            }
            self.forget_stopped(&mut plugins);
            if let Some(found) = found {
                let now = Instant::now();
                directory.begin(&found.plugins, SystemTime::now(), now);
                let changes = directory.observe(&found.plugins, &told.writers.lock(), now);
                self.act(changes, &mut plugins, &shutdown);
                self.shared.scanned.fetch_or(!directory.is_settling(now), Ordering::Relaxed);
            }
            let now = Instant::now();
            let next = directory.next_look(now).map_or(now + POLL, |next| next.min(now + POLL));
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = told.changed.notified() => {}
                () = sleep_until(next) => {}
            }
        }
        drop(watcher);
        reaching.abort();
        futures::future::join_all(plugins.into_values().map(PluginHandle::join)).await;
        self.shared.services.informers.stop().await;
    }

    /// What there is to see of each plugin, by name; then the files that cannot be plugins.
    #[must_use]
    pub fn status(&self) -> Vec<PluginStatus> {
        let mut status: Vec<_> = self.shared.views.read().values().map(|view| view.status()).collect();
        status.extend(
            self.shared.refused.read().iter().map(|error| PluginStatus::refused(error.stem(), error)),
        );
        status
    }

    /// Whether the API server has been reached, the directory has been read, and every plugin of it has got as far as it
    /// can by itself: it runs, has failed, is stopped, or waits for something outside. A server that goes away later
    /// does not make the host unready: there is nothing that another replica could do better.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        use crate::lifecycle::PluginState::{Compiling, Describing, Found};
        let on_its_way = |status: &PluginStatus| matches!(status.state, Found | Compiling | Describing);
        self.shared.scanned.load(Ordering::Relaxed)
            && self.shared.reached.load(Ordering::Relaxed)
            && !self.status().iter().any(on_its_way)
    }

    /// The plugins' log lines.
    #[must_use]
    pub fn logs(&self) -> &PluginLogs {
        &self.shared.logs
    }

    /// The metrics that guests record.
    #[must_use]
    pub fn guest_metrics(&self) -> &GuestMetrics {
        &self.shared.guest_metrics
    }

    /// Adds the informers' and the engine's metrics to what is scraped.
    pub fn register_informers(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(InformerCollector(self.shared.services.informers.clone())));
        registry.register_collector(Box::new(CompileCollector(self.shared.services.engine.clone())));
    }

    /// The state of every informer, for a bug report. It has no object's content.
    #[must_use]
    pub fn informers(&self) -> Vec<InformerDump> {
        self.shared.services.informers.informers()
    }

    /// Brings the gauges up to date, before the metrics are read.
    pub fn observe_queues(&self) {
        self.shared.views.read().values().for_each(|view| view.observe_queue());
    }

    /// A watcher that notifies of changes; without one the directory is only polled.
    fn watch_directory(&self, told: &Arc<Told>) -> Option<notify::RecommendedWatcher> {
        let directory = &self.shared.options.plugins;
        // A watcher that is new knows of no writer.
        *told.writers.lock() = Writers::default();
        if !self.shared.options.file_events {
            return None;
        }
        let told = Arc::clone(told);
        let tell = move |event: notify::Result<notify::Event>| {
            told.writers.lock().told(&event, Instant::now());
            if is_worth_a_look(&event) {
                told.changed.notify_one();
            }
        };
        let watching = notify::recommended_watcher(tell)
            .and_then(|mut watcher| watcher.watch(directory, RecursiveMode::NonRecursive).map(|()| watcher));
        match watching {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                let every = POLL.as_secs();
                tracing::warn!("{} is only looked at every {every} s: {error}", directory.display());
                None
            }
        }
    }

    /// Asks the API server for its version until it answers.
    async fn reach_server(self) {
        while let Err(error) = self.shared.services.server.get("/version").await {
            if error.code().is_some() {
                break;
            }
            tracing::warn!("{error}; trying again");
            sleep(POLL).await;
        }
        self.shared.reached.store(true, Ordering::Relaxed);
    }

    async fn scan(&self, complaints: &mut Vec<String>) -> Option<Scan> {
        let directory = self.shared.options.plugins.clone();
        let scanned = spawn_blocking(move || scan(&directory)).await.ok()?;
        let mut problems: Vec<String> = Vec::new();
        let found = match scanned {
            Ok(found) => {
                problems.extend(found.refused.iter().map(ToString::to_string));
                self.shared.refused.write().clone_from(&found.refused);
                Some(found)
            }
            Err(error) => {
                problems.push(unreadable(&self.shared.options.plugins, &error));
                None
            }
        };
        // Each problem is told once, not at every look.
        for problem in problems.iter().filter(|problem| !complaints.contains(problem)) {
            tracing::error!("{problem}");
        }
        *complaints = problems;
        found
    }

    fn act(
        &self,
        changes: Vec<Change>,
        plugins: &mut BTreeMap<PluginName, PluginHandle>,
        shutdown: &CancellationToken,
    ) {
        let LoadServices { ahead, engine, .. } = &self.shared.services;
        for change in changes {
            match change {
                Change::Coming(name, files) => ahead.begin(engine, name, files),
                Change::NotComing(name) => ahead.give_up(&name),
                Change::Load(name, files) => {
                    let handle = match plugins.remove(&name) {
                        Some(handle) if !handle.is_unwanted() => handle,
                        predecessor => {
                            let handle = self.start(&name, shutdown, predecessor);
                            self.shared.views.write().insert(name.clone(), Arc::clone(handle.view()));
                            handle
                        }
                    };
                    handle.want(Some(files));
                    plugins.insert(name, handle);
                }
                Change::Remove(name) => {
                    ahead.give_up(&name);
                    // The handle stays, and its status shows how the plugin drains and stops.
                    if let Some(handle) = plugins.get(&name) {
                        handle.want(None);
                    }
                }
            }
        }
    }

    /// Plugins that were removed stay in sight, but not without end: plugins may be named by a counter.
    fn forget_stopped(&self, plugins: &mut BTreeMap<PluginName, PluginHandle>) {
        let ended = plugins.iter().filter(|(_, handle)| handle.is_unwanted() && handle.has_ended());
        let ended: Vec<_> = ended.map(|(name, _)| name.clone()).collect();
        for name in ended.iter().take(ended.len().saturating_sub(STOPPED)) {
            plugins.remove(name);
            self.shared.views.write().remove(name);
            self.shared.logs.forget(name);
        }
    }

    fn start(
        &self,
        name: &PluginName,
        shutdown: &CancellationToken,
        predecessor: Option<PluginHandle>,
    ) -> PluginHandle {
        let metrics = self.shared.metrics.of(name);
        let host_memory = HostMemory::default();
        self.shared.logs.charge_to(name, &host_memory);
        let guest = GuestServices {
            name: name.clone(),
            operator: Operator::default(),
            queue: PluginQueue::new(metrics.clone(), host_memory.clone()),
            events: self.shared.events.clone(),
            log: self.shared.logs.of(name),
            metrics,
            writes: PluginWrites::new(host_memory.clone()),
            hot_loops: HotLoops::new(name.to_shared(), self.shared.authors.clone()).charged_to(&host_memory),
            guest_metrics: self.shared.guest_metrics.clone(),
            host_memory,
            refusals: Arc::default(),
            panics: TaskPanics::default(),
            started: self.shared.started,
        };
        let options = ReloadOptions { requeue_all: self.shared.options.requeue_on_reload };
        let lifecycle = Lifecycle::begin(
            name.clone(),
            &self.shared.options.namespace,
            Arc::clone(&guest.metrics),
            guest.events.clone(),
        );
        PluginHandle::start(
            guest,
            lifecycle,
            self.shared.services.clone(),
            options,
            shutdown.child_token(),
            predecessor,
        )
    }
}

/// Whether the directory may be another than before. Looking at it is itself an access: to look again because of that
/// would never end. That a writer has finished is one, too. An error means that events were missed.
fn is_worth_a_look(event: &notify::Result<notify::Event>) -> bool {
    let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
    event.as_ref().map_or(true, |event| !event.kind.is_access() || event.kind == closed)
}

fn unreadable(directory: &Path, error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        std::io::ErrorKind::NotFound => "make it again, its plugins go on meanwhile",
        _ => "check its permissions",
    };
    format!("the plugins directory {} cannot be read: {error}; {remedy}", directory.display())
}

#[cfg(test)]
mod tests;
