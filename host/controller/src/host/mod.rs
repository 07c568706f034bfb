//! Runs the plugins of one directory.

mod control;
mod details;
mod in_memory;
mod load_progress;
mod options;
mod plugin_objects;
mod plugin_start;
mod provided_plugins;
mod provided_problems;
mod removed_plugins;
mod scanning;
mod setup;
mod status;
mod unknown_shadows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use pilothouse_informer::{InformerOptions, InformerRegistry, KubeListWatches};
use pilothouse_plugin::{Engine, LogLevel};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::client::clients::Clients;
use crate::client::{ApiClient, Discovery, EventRecorder};
use crate::directory::{Change, Directory, RefusedFile};
use crate::explain::lookup::Lookups;
use crate::guest_host::CallRecorderFactory;
use crate::lifecycle::{self, not_provided};
use crate::load::LoadServices;
use crate::load::speculative_compile::SpeculativeCompiler;
use crate::logs::PluginLogs;
use crate::metrics::Metrics;
use crate::metrics::guest::GuestMetrics;
use crate::name::PluginName;
use crate::outgoing::{HttpTransport, Tls};
use crate::runtime::hot_loop::Authors;
use crate::runtime::{PluginHandle, PluginStatusSource};
use crate::trace::Tracer;
pub use in_memory::InMemoryPlugin;
pub use load_progress::LoadProgress;
pub use options::HostOptions;
pub use provided_plugins::{ProvidedFailure, ProvidedPlugins, ProvidedReport, Verification};
use provided_problems::ProblemReports;
use removed_plugins::RemovedPlugins;
use scanning::DirectoryEvents;

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
    recorder_factory: OnceLock<Arc<dyn CallRecorderFactory>>,
    /// The files of the new versions that run in the shadow of the running ones.
    shadows: OnceLock<BTreeMap<PluginName, PathBuf>>,
    /// Whether plugins' reads show their own writes at once, and a write without an answer holds its key.
    write_guarantees: AtomicBool,
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
            crd_lock: Arc::default(),
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
                recorder_factory: OnceLock::new(),
                shadows: OnceLock::new(),
                write_guarantees: AtomicBool::new(true),
                withholds_reasons: Arc::default(),
                http_transport: OnceLock::new(),
            }),
        }
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

    /// Writes Events about the plugins that another source provides or cannot provide. One that cannot be queued is lost; the status has the
    /// problem, too.
    fn report_problems(&self, reports: &mut ProblemReports) {
        let Some(provided) = self.shared.provided.get() else { return };
        for (name, problem) in reports.due(&provided.problems(), Instant::now()) {
            let event = not_provided(&name, &self.shared.options.namespace, &problem);
            if let Some(event) = event {
                self.shared.events.record(event);
            }
        }
        for (name, text) in provided.take_updates() {
            if let Ok(plugin) = PluginName::of_file(Path::new(&format!("{name}.wasm"))) {
                self.shared.logs.for_plugin(&plugin).state(LogLevel::Info, format_args!("{text}"));
            }
            if let Some(event) = lifecycle::provided(&name, &self.shared.options.namespace, &text) {
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
                            let handle = self.start_plugin(&name, shutdown, predecessor);
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
}

#[cfg(test)]
mod tests;
