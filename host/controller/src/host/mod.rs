//! Runs the plugins of one directory.

mod control;
mod details;
mod in_memory;
mod load_progress;
mod plugin_objects;
mod provided_plugins;
mod provided_problems;
mod removed_plugins;
mod scanning;
mod unknown_shadows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use pilothouse_informer::{Compression, InformerDump, InformerOptions, InformerRegistry, KubeListWatches};
use pilothouse_plugin::{Engine, HostMemory};
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cache::own_writes::PluginWrites;
use crate::client::clients::Clients;
use crate::client::{ApiClient, Discovery, EventRecorder, ResourceLists};
use crate::config::current_grants::CurrentGrants;
use crate::config::sidecar::GrantMode;
use crate::directory::{Change, Directory, RefusedFile};
use crate::environment::Environment;
use crate::explain::journal::Journal;
use crate::explain::lookup::Lookups;
use crate::guest_host::{PluginObserver, PluginServices};
use crate::lifecycle::task_panics::TaskPanics;
use crate::lifecycle::{CompileStatus, Lifecycle, PluginStatus, RecentErrors, not_provided};
use crate::load::LoadServices;
use crate::load::speculative_compile::SpeculativeCompiler;
use crate::logs::PluginLogs;
use crate::metrics::Metrics;
use crate::metrics::compile::CompileCollector;
use crate::metrics::guest::GuestMetrics;
use crate::metrics::informers::InformerCollector;
use crate::metrics::process::ProcessCollector;
use crate::name::PluginName;
use crate::outgoing::{HttpTransport, Tls};
use crate::rollout::{RecordFile, Rollout};
use crate::runtime::hot_loop::{Authors, HotLoops};
use crate::runtime::queue::PluginQueue;
use crate::runtime::slow_reconciles::SlowReconciles;
use crate::runtime::{PluginHandle, PluginStatusSource, ReloadOptions};
use crate::shadow::ShadowReport;
use crate::trace::Tracer;
pub use in_memory::InMemoryPlugin;
pub use load_progress::LoadProgress;
pub use provided_plugins::{ProvidedFailure, ProvidedPlugins, ProvidedReport, Verification};
use provided_problems::ProblemReports;
use removed_plugins::RemovedPlugins;
use scanning::DirectoryEvents;

/// The options of a host.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The directory with the plugins' .wasm files.
    pub plugins: PathBuf,
    /// The API server as `host:port`; a label of the client metrics.
    pub api_server: String,
    /// Whether the CRDs in plugins are applied, unless a sidecar decides otherwise.
    pub grant_crds: bool,
    /// Whether a plugin gets grants that its sidecar does not mention.
    pub grants: GrantMode,
    /// Identifies this process in Events: their `reportingInstance` ends with it.
    pub instance: String,
    /// The host's own namespace, in which Events about plugins are created.
    pub namespace: String,
    /// How long a file must be unchanged before it is loaded.
    pub settle: Duration,
    /// Whether the file system notifies the host of changes. The directory is polled every two seconds in any case, because network file
    /// systems send no notifications.
    pub file_events: bool,
    /// How often the read permissions of plugins' service accounts are re-checked. A permission that is revoked stays effective for about
    /// that long.
    pub access_review_interval: Duration,
    /// The runtime for informers; `None` for the runtime of the plugins.
    pub informer_runtime: Option<Handle>,
    /// How cached objects are compressed; `None` for not at all.
    pub cache_compression: Option<Compression>,
    /// Whether watches request streaming lists first. API servers compress plain lists, but not streams.
    pub streaming_lists: bool,
    /// Whether a reload queues every object again. Disabled only in tests.
    pub requeue_on_reload: bool,
    /// Whether each request of a plugin has a [`RequestOrigin`](crate::RequestOrigin) among its extensions. Enabled only in simulations.
    pub name_request_origins: bool,
    /// The time of day and randomness. [`Environment::default`] takes them from the operating system.
    pub environment: Environment,
}

/// How often the directory is scanned even without a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

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
    status_sources: RwLock<BTreeMap<PluginName, Arc<PluginStatusSource>>>,
    /// Whether the files that existed at the start have settled.
    scanned: AtomicBool,
    /// Whether the API server has accepted the host's credentials.
    reached: AtomicBool,
    /// Files that cannot be plugins.
    refused: RwLock<Vec<RefusedFile>>,
    /// The objects about which `explain` asks the API server.
    lookups: Lookups,
    /// Another source of plugins, besides the directory.
    provided: OnceLock<ProvidedPlugins>,
    /// Records traces; unset if tracing is off.
    tracer: OnceLock<Tracer>,
    /// Observes the guests of all plugins.
    observer: OnceLock<Arc<dyn PluginObserver>>,
    /// The files of the new versions that run in the shadow of the running ones.
    shadows: OnceLock<BTreeMap<PluginName, PathBuf>>,
    /// Whether plugins' reads show their own writes at once, and a write without an answer holds its key.
    settles_writes: AtomicBool,
    /// Whether guests do not learn why a key is reconciled.
    withholds_reasons: Arc<AtomicBool>,
    /// What answers plugins' HTTP requests in place of the network; unset for the network.
    http_transport: OnceLock<Arc<dyn HttpTransport>>,
}

impl PluginHost {
    /// Creates a host that runs nothing yet. Must be called in a tokio runtime.
    #[must_use]
    pub fn new(options: HostOptions, clients: impl Into<Clients>, engine: Engine, metrics: Metrics) -> Self {
        let Clients { requests, watches } = clients.into();
        let measure = |client| metrics.rest.measure(client, &options.api_server);
        let server = ApiClient::new(measure(requests)).naming_origins(options.name_request_origins);
        let environment = &options.environment;
        let mut informer_options = InformerOptions::default()
            .with_runtime(options.informer_runtime.clone())
            .with_streaming_list(options.streaming_lists)
            .with_compression(options.cache_compression);
        informer_options.seed = environment.randomness.seed();
        let informers = InformerRegistry::new(KubeListWatches::new(measure(watches)), informer_options);
        let services = LoadServices {
            engine,
            discovery: Discovery::new(server.clone()),
            server: server.clone(),
            informers,
            grant_crds: options.grant_crds,
            grants: options.grants,
            access_review_interval: options.access_review_interval,
            tls: Tls::default(),
            http_transport: None,
            speculative_compiler: SpeculativeCompiler::default(),
            environment: environment.clone(),
        };
        let clock = environment.clock;
        let logs = PluginLogs::new(clock);
        let events = EventRecorder::start(server, options.instance.as_str().into(), logs.clone(), clock);
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
                status_sources: RwLock::default(),
                scanned: AtomicBool::new(false),
                reached: AtomicBool::new(false),
                refused: RwLock::default(),
                lookups: Lookups::default(),
                provided: OnceLock::new(),
                tracer: OnceLock::new(),
                observer: OnceLock::new(),
                shadows: OnceLock::new(),
                settles_writes: AtomicBool::new(true),
                withholds_reasons: Arc::default(),
                http_transport: OnceLock::new(),
            }),
        }
    }

    /// Also runs the plugins of another source. Must be called before [`run`](Self::run); only the first call has an effect.
    pub fn add_provided_plugins(&self, provided: ProvidedPlugins) {
        let _ = self.shared.provided.set(provided);
    }

    /// Traces the reconciles of all plugins. Must be called before [`run`](Self::run); only the first call has an effect.
    pub fn set_tracer(&self, tracer: Tracer) {
        let _ = self.shared.tracer.set(tracer);
    }

    /// Reports the calls of all plugins' guests to this observer. Must be called before [`run`](Self::run); only the first call has an effect.
    pub fn set_observer(&self, observer: Arc<dyn PluginObserver>) {
        let _ = self.shared.observer.set(observer);
    }

    /// Runs the version in each of these files in the shadow of the plugin with that name, unless its sidecar names another one. Must be called
    /// before [`run`](Self::run); only the first call has an effect.
    pub fn set_shadows(&self, shadows: BTreeMap<PluginName, PathBuf>) {
        let _ = self.shared.shadows.set(shadows);
    }

    /// Gives plugins what other frameworks give controllers: their reads show their own writes once a watch delivers them, and a key
    /// whose write had no answer is retried like any other. For simulations that show what these guarantees are worth. Must be called
    /// before [`run`](Self::run).
    pub fn drop_write_guarantees(&self) {
        self.shared.settles_writes.store(false, Ordering::Relaxed);
    }

    /// From now on, guests do not learn why a key is reconciled: each request has the reason `other` alone, and is a first attempt. For
    /// simulations that show whether a plugin does the same without that information.
    pub fn withhold_reasons(&self) {
        self.shared.withholds_reasons.store(true, Ordering::Relaxed);
    }

    /// Queues each object of each plugin's target watches as a resync does. For simulations that show whether a plugin is at rest.
    pub fn requeue_all(&self) {
        self.shared.status_sources.read().values().for_each(|source| source.requeue_all());
    }

    /// Answers plugins' HTTP requests by this transport in place of the network, for simulations. Must be called before
    /// [`run`](Self::run); only the first call has an effect.
    pub fn set_http_transport(&self, transport: Arc<dyn HttpTransport>) {
        let _ = self.shared.http_transport.set(transport);
    }

    /// Shares parsed resource lists with other hosts, for simulations.
    pub fn share_resource_lists(&self, lists: ResourceLists) {
        self.shared.services.discovery.share_lists(lists);
    }

    /// Runs the plugins until shutdown, then stops them. Each may finish its reconciles for up to eight seconds.
    pub async fn run(&self, shutdown: CancellationToken) {
        let events = Arc::new(DirectoryEvents::default());
        let (mut watcher, mut watched_folder) = (None, None);
        let server_probe = tokio::spawn(self.clone().reach_server());
        let progress_log = tokio::spawn(self.clone().log_load_progress());
        let mut directory = Directory::new(self.shared.options.settle);
        let mut plugins = BTreeMap::new();
        let mut removed = RemovedPlugins::default();
        let mut problem_reports = ProblemReports::default();
        let mut logged_problems = Vec::new();
        let mut are_shadows_checked = false;
        while !shutdown.is_cancelled() {
            let found = self.scan(&mut logged_problems).await;
            let folder = found.as_ref().map(|found| found.folder);
            if folder != watched_folder {
                // The directory was replaced or created again. A watcher of the old one does not see the new one.
                watcher = folder.and_then(|_| self.watch_directory(&events));
                watched_folder = folder;
                // A change between the scan and the start of the watcher is found by another scan.
                events.changed.notify_one();
            }
            self.forget_removed(&mut plugins, &mut removed);
            self.report_problems(&mut problem_reports);
            if let Some(found) = found {
                let now = Instant::now();
                let wall_clock = self.shared.options.environment.clock.system_time();
                directory.settle_old_files(&found.plugins, wall_clock, now);
                let changes = directory.observe(&found.plugins, &events.writers.lock(), now);
                self.apply(changes, &mut plugins, &shutdown);
                self.shared.scanned.fetch_or(!directory.is_settling(now), Ordering::Relaxed);
            }
            // `dev --build` starts with an empty directory.
            let has_plugins = self.shared.scanned.load(Ordering::Relaxed) && !plugins.is_empty();
            if has_plugins && !are_shadows_checked {
                self.warn_about_unknown_shadows();
                are_shadows_checked = true;
            }
            let now = Instant::now();
            let poll = now + POLL_INTERVAL;
            let next = directory.next_scan(now).map_or(poll, |next| next.min(poll));
            tokio::select! {
                // After the shutdown, all branches lead to the same scan.
                biased;
                () = shutdown.cancelled() => {}
                () = events.changed.notified() => {}
                () = self.provided_changed() => {}
                () = sleep_until(next) => {}
            }
        }
        drop(watcher);
        server_probe.abort();
        progress_log.abort();
        futures::future::join_all(plugins.into_values().map(PluginHandle::join)).await;
        self.shared.services.informers.stop().await;
    }

    /// Returns the status of each plugin, in the order of their names, then that of the files that cannot be plugins.
    #[must_use]
    pub fn status(&self) -> Vec<PluginStatus> {
        let mut status: Vec<_> =
            self.shared.status_sources.read().values().map(|source| source.status()).collect();
        let refused = self.shared.refused.read();
        // A link whose target was removed is shown as such, and not as a plugin whose file was removed.
        status.retain(|status| !status.removed || refused.iter().all(|file| file.stem() != status.name));
        status.extend(refused.iter().map(|file| PluginStatus::refused(file.stem(), file)));
        if let Some(provided) = self.shared.provided.get() {
            provided.add_problems(&mut status);
        }
        status
    }

    /// Returns the status of each plugin that is not in the state `Running`, in the order of their names.
    #[must_use]
    pub fn status_of_plugins_not_running(&self) -> Vec<PluginStatus> {
        let sources = self.shared.status_sources.read();
        sources.values().filter_map(|source| source.status_unless_running()).collect()
    }

    /// Whether the host is ready: the API server has accepted its credentials, the directory was read, and every plugin runs, has failed, is
    /// stopped, or waits for something outside of the host. A server that becomes unreachable later does not make the host unready, because
    /// another replica could not do better. [`PluginStatus::ready`] says whether a plugin does its work.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.scanned.load(Ordering::Relaxed)
            && self.shared.reached.load(Ordering::Relaxed)
            && !self.status().iter().any(load_progress::is_loading)
    }

    /// The plugins' log lines.
    #[must_use]
    pub fn logs(&self) -> &PluginLogs {
        &self.shared.logs
    }

    /// Returns a client whose requests are counted as the host's own. Must be called within a tokio runtime.
    #[must_use]
    pub fn measure(&self, client: kube::Client) -> kube::Client {
        self.shared.metrics.rest.measure(client, &self.shared.options.api_server)
    }

    /// The metrics that guests record.
    #[must_use]
    pub fn guest_metrics(&self) -> &GuestMetrics {
        &self.shared.guest_metrics
    }

    /// Registers the metrics of the informers, the engine and the process.
    pub fn register_collectors(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(InformerCollector(self.shared.services.informers.clone())));
        registry.register_collector(Box::new(CompileCollector(self.shared.services.engine.clone())));
        registry.register_collector(Box::new(ProcessCollector::of_this_process()));
    }

    /// Returns the state of every informer, for bug reports. Contains no content of objects.
    #[must_use]
    pub fn informers(&self) -> Vec<InformerDump> {
        self.shared.services.informers.informers()
    }

    /// Updates the gauges of the host and of all plugins. Must be called before the metrics are scraped.
    pub fn update_gauges(&self) {
        self.shared.metrics.ready.set(i64::from(self.is_ready()));
        self.shared.status_sources.read().values().for_each(|source| source.update_gauges());
    }

    /// Requests the API server's version until it accepts the host's credentials. A server that starts, a load balancer without a server, and
    /// one that is overloaded respond before they check credentials. A server that forbids the request knows who sent it.
    async fn reach_server(self) {
        while let Err(error) = self.shared.services.server.get("/version").await {
            match error.code() {
                Some(401) => tracing::warn!("{error}: the host's credentials are refused; trying again"),
                Some(code) if code != 429 && code < 500 => break,
                _ => tracing::warn!("{error}; trying again"),
            }
            sleep(POLL_INTERVAL).await;
        }
        self.shared.reached.store(true, Ordering::Relaxed);
    }

    /// Writes Events about the plugins that another source cannot provide. One that cannot be queued is lost; the status has the problem, too.
    fn report_problems(&self, reports: &mut ProblemReports) {
        let Some(provided) = self.shared.provided.get() else { return };
        for (name, problem) in reports.due(&provided.problems(), Instant::now()) {
            let event = not_provided(&name, &self.shared.options.namespace, &problem);
            if let Some(event) = event {
                self.shared.events.record(event);
            }
        }
    }

    /// Waits until another source of plugins has changed its folder; for ever if there is none.
    async fn provided_changed(&self) {
        match self.shared.provided.get() {
            Some(provided) => provided.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Passes changes of files to the plugins' tasks.
    fn apply(
        &self,
        changes: Vec<Change>,
        plugins: &mut BTreeMap<PluginName, PluginHandle>,
        shutdown: &CancellationToken,
    ) {
        let LoadServices { speculative_compiler, engine, .. } = &self.shared.services;
        for change in changes {
            match change {
                Change::StartCompile(name, files) => speculative_compiler.start(engine, name, files),
                Change::CancelCompile(name) => speculative_compiler.cancel(&name),
                Change::Load(name, files) => {
                    let handle = match plugins.remove(&name) {
                        Some(handle) if !handle.is_removed() => handle,
                        predecessor => {
                            let handle = self.start(&name, shutdown, predecessor);
                            self.shared
                                .status_sources
                                .write()
                                .insert(name.clone(), Arc::clone(handle.status_source()));
                            handle
                        }
                    };
                    handle.set_desired_files(Some(files));
                    plugins.insert(name, handle);
                }
                Change::Remove(name) => {
                    speculative_compiler.cancel(&name);
                    // The handle is kept, so that the status shows how the plugin drains and stops.
                    if let Some(handle) = plugins.get(&name) {
                        handle.set_desired_files(None);
                    }
                }
            }
        }
    }

    /// Forgets plugins that were removed a while ago. Until then, the status shows how they ended.
    fn forget_removed(&self, plugins: &mut BTreeMap<PluginName, PluginHandle>, removed: &mut RemovedPlugins) {
        let ended = plugins.iter().filter(|(_, handle)| handle.is_removed() && handle.has_ended());
        let forgotten = removed.forget(ended.map(|(name, _)| name), Instant::now());
        for name in &forgotten {
            plugins.remove(name);
            self.shared.status_sources.write().remove(name);
            self.shared.logs.forget(name);
        }
    }

    /// Returns the file with what a restarted host must know of the plugin's versions; `None` without a cache directory.
    fn record_file(&self, plugin: &PluginName) -> Option<RecordFile> {
        let cache = self.shared.services.engine.cache_directory()?;
        Some(RecordFile::new(cache, &self.shared.options.plugins, plugin))
    }

    /// Starts the task of a plugin.
    fn start(
        &self,
        name: &PluginName,
        shutdown: &CancellationToken,
        predecessor: Option<PluginHandle>,
    ) -> PluginHandle {
        let metrics = self.shared.metrics.of(name);
        let host_memory = HostMemory::default();
        self.shared.logs.charge_to(name, &host_memory);
        let environment = self.shared.options.environment.fork();
        let clock = environment.clock;
        let file = self.shared.shadows.get().and_then(|shadows| shadows.get(name)).cloned();
        let shadow = Arc::new(ShadowReport::new(file, Arc::clone(&metrics), clock));
        let plugin = PluginServices {
            name: name.clone(),
            current_grants: CurrentGrants::default(),
            queue: PluginQueue::new(metrics.clone(), host_memory.clone()),
            events: self.shared.events.clone(),
            log: self.shared.logs.of(name),
            metrics,
            writes: PluginWrites::new(host_memory.clone()),
            hot_loops: HotLoops::new(name.to_shared(), self.shared.authors.clone()).charged_to(&host_memory),
            guest_metrics: self.shared.guest_metrics.clone(),
            journal: Journal::new(&host_memory, clock),
            host_memory,
            rate_limiters: Arc::default(),
            refusals: Arc::default(),
            panics: TaskPanics::default(),
            paused: Arc::default(),
            recent_errors: RecentErrors::new(clock),
            slow_reconciles: SlowReconciles::default(),
            compile_status: CompileStatus::default(),
            rollout: Rollout::new(self.record_file(name), clock),
            tracer: self.shared.tracer.get().cloned().unwrap_or_default(),
            settles_writes: self.shared.settles_writes.load(Ordering::Relaxed),
            withholds_reasons: Arc::clone(&self.shared.withholds_reasons),
            observer: self.shared.observer.get().cloned(),
            shadow,
            environment,
            started: self.shared.started,
        };
        let options = ReloadOptions { requeue_all: self.shared.options.requeue_on_reload };
        let lifecycle = Lifecycle::begin(
            name.clone(),
            &self.shared.options.namespace,
            Arc::clone(&plugin.metrics),
            plugin.events.clone(),
            clock,
        );
        let http_transport = self.shared.http_transport.get().cloned();
        PluginHandle::start(
            plugin,
            lifecycle,
            LoadServices { http_transport, ..self.shared.services.clone() },
            options,
            shutdown.child_token(),
            predecessor,
        )
    }
}

#[cfg(test)]
mod tests;
