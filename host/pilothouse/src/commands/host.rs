//! Runs the plugin host and its status server, for `dev` and `run`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_controller::recording::{Recorder, RecordingOptions, WritingTask, start_recording};
use pilothouse_controller::{
    Clients, Compression, Environment, GrantMode, HostOptions, Metrics, PluginHost, PluginName,
    PluginResource, ProvidedPlugins,
};
use pilothouse_listen::RequestGuard;
use pilothouse_plugin::Engine;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::compile;
use super::ingest::IngestThread;
use crate::cli::{AuthMode, CompilerMode, TestHooks, shadow};
use crate::http::authorization::Authorizer;
use crate::shutdown::GRACE_PERIOD;
use crate::startup::StartupSteps;
use crate::{CommandError, CommandResult, http};

/// How long a plugin file must stay unchanged before it is loaded.
const SETTLE_TIME: Duration = Duration::from_millis(200);
/// How often service accounts' read permissions are re-checked.
const ACCESS_REVIEW_INTERVAL: Duration = Duration::from_secs(30);

/// The settings that differ between `dev`, `run` and `test`.
pub(crate) struct HostFlags {
    pub(crate) plugins: PathBuf,
    /// Plugins of another source, such as registries.
    pub(crate) provided: Option<ProvidedPlugins>,
    /// DNS names that the status server accepts in the `Host` header.
    pub(crate) allowed_hosts: Vec<String>,
    /// Who may read the status server.
    pub(crate) auth: AuthMode,
    /// Address of the API server as `host:port`.
    pub(crate) api_server: String,
    pub(crate) grant_crds: bool,
    pub(crate) grants: GrantMode,
    /// The [`engine`] that compiles and runs the plugins.
    pub(crate) engine: Engine,
    /// How cached objects are compressed; `None` for not at all.
    pub(crate) cache_compression: Option<Compression>,
    /// Whether to try a streaming list (WatchList) before a plain list.
    pub(crate) streaming_lists: bool,
    /// Objects of the kind `Plugin`, whose files `provided` has.
    pub(crate) plugin_resource: Option<PluginResource>,
    /// Where traces are sent; `None` for nowhere.
    #[cfg(feature = "traces")]
    pub(crate) traces: Option<crate::traces::TraceSettings>,
    /// What is recorded; `None` for nothing.
    pub(crate) recording: Option<RecordingOptions>,
    /// The files of the new versions that run in the shadow of plugins.
    pub(crate) shadows: Vec<(PluginName, PathBuf)>,
    /// What has to be finished before `/readyz/plugins` answers 200, besides the plugins' work.
    pub(crate) startup: Arc<StartupSteps>,
    /// The registry to which the host adds its metrics. It may have those of the plugins' other source.
    pub(crate) metrics: Registry,
    pub(crate) test: TestHooks,
}

/// Runs plugins until `shutdown` is cancelled, then drains them for at most [`GRACE_PERIOD`].
pub(crate) async fn run(
    flags: HostFlags,
    clients: impl Into<Clients>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> CommandResult {
    let clients: Clients = clients.into();
    let reviewing = (flags.auth == AuthMode::Kubernetes).then(|| clients.requests.clone());
    let guard = RequestGuard::new(false, &flags.allowed_hosts);
    let startup = Arc::clone(&flags.startup);
    let (running, registry) = RunningHost::start(flags, clients, shutdown.clone())?;
    let authorizer = reviewing.map(|client| Authorizer::new(running.host().measure(client)));
    let state = http::AppState::new(running.host().clone(), registry, startup);
    let serving = tokio::spawn(http::serve(listener, state, guard, authorizer, shutdown));
    let result = running.wait().await;
    serving.abort();
    result
}

/// A plugin host that runs in the background, without a status server.
pub(crate) struct RunningHost {
    host: PluginHost,
    task: JoinHandle<()>,
    shutdown: CancellationToken,
    #[cfg(feature = "traces")]
    export: Option<crate::traces::ExportTask>,
    recording: Option<WritingTask>,
    _ingest: IngestThread,
}

impl RunningHost {
    /// Starts a host, which runs until `shutdown` is cancelled. Returns it with the registry of its metrics. Serves nothing, so the flags
    /// of the status server are not used.
    ///
    /// # Errors
    /// Errors if the operating system starts no thread, if the directory of recordings cannot be created, or if a plugin has two shadows.
    pub(crate) fn start(
        flags: HostFlags,
        clients: impl Into<Clients>,
        shutdown: CancellationToken,
    ) -> Result<(Self, Registry), CommandError> {
        compile::raise_open_file_limit();
        let ingest = IngestThread::start().map_err(|error| {
            CommandError::Failure(format!("cannot start the thread that reads watches: {error}"))
        })?;
        let mut registry = flags.metrics;
        let metrics = Metrics::register(&mut registry);
        let environment = Environment::default();
        let options = HostOptions {
            plugins: flags.plugins,
            api_server: flags.api_server,
            grant_crds: flags.grant_crds,
            grants: flags.grants,
            instance: instance(),
            namespace: namespace(),
            settle: SETTLE_TIME,
            file_events: true,
            access_review_interval: flags
                .test
                .test_review_every
                .map_or(ACCESS_REVIEW_INTERVAL, Duration::from_millis),
            informer_runtime: Some(ingest.runtime()),
            cache_compression: flags.cache_compression,
            streaming_lists: flags.streaming_lists,
            requeue_on_reload: !flags.test.test_no_requeue_on_reload,
            name_request_origins: false,
            environment: environment.clone(),
        };
        #[cfg(feature = "traces")]
        let (tracer, export) = flags.traces.map(|traces| traces.start(&metrics)).unzip();
        let shadows = shadow::by_plugin(flags.shadows).map_err(CommandError::Usage)?;
        let started = flags.recording.map(|options| record(&options, &environment, &metrics)).transpose()?;
        let host = PluginHost::new(options, clients, flags.engine, metrics);
        let recording = started.map(|(recorder, task)| {
            host.set_recorder_factory(Arc::new(recorder));
            task
        });
        #[cfg(feature = "traces")]
        if let Some(tracer) = tracer {
            host.set_tracer(tracer);
        }
        host.set_shadows(shadows);
        host.register_collectors(&mut registry);
        #[cfg(feature = "jemalloc")]
        registry.register_collector(Box::new(crate::allocator_metrics::AllocatorCollector));
        if let Some(provided) = flags.provided {
            host.add_provided_plugins(provided);
        }
        if let Some(resource) = flags.plugin_resource {
            let (host, shutdown) = (host.clone(), shutdown.clone());
            tokio::spawn(async move { host.run_plugin_objects(resource, shutdown).await });
        }
        let task = tokio::spawn({
            let (host, shutdown) = (host.clone(), shutdown.clone());
            async move { host.run(shutdown).await }
        });
        let running = Self {
            host,
            task,
            shutdown,
            #[cfg(feature = "traces")]
            export,
            recording,
            _ingest: ingest,
        };
        Ok((running, registry))
    }

    /// Returns the host.
    pub(crate) fn host(&self) -> &PluginHost {
        &self.host
    }

    /// Waits until the host is shut down, and then at most [`GRACE_PERIOD`] until its plugins have stopped.
    ///
    /// # Errors
    /// Errors if the host panicked.
    pub(crate) async fn wait(self) -> CommandResult {
        self.shutdown.cancelled().await;
        let abort = self.task.abort_handle();
        match tokio::time::timeout(GRACE_PERIOD, self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                return Err(CommandError::Failure(format!("the plugin host stopped unexpectedly: {error}")));
            }
            Err(_) => {
                tracing::warn!("some work did not finish within {} s and is aborted", GRACE_PERIOD.as_secs());
                abort.abort();
            }
        }
        #[cfg(feature = "traces")]
        if let Some(export) = self.export {
            export.finish().await;
        }
        if let Some(recording) = self.recording {
            recording.finish().await;
        }
        Ok(())
    }
}

/// Starts to record.
///
/// # Errors
/// Returns a usage error if the directory cannot be created.
fn record(
    options: &RecordingOptions,
    environment: &Environment,
    metrics: &Metrics,
) -> Result<(Recorder, WritingTask), CommandError> {
    start_recording(options, environment, metrics).map_err(|error| {
        let directory = options.directory.display();
        CommandError::Usage(format!("--record {directory}: {error}; give a directory that can be created"))
    })
}

/// Creates the engine of a host. `cache_dir` is the directory for compiled plugins; `None` for the default.
///
/// # Errors
/// Errors if wasm cannot run on this machine.
pub(crate) fn engine(cache_dir: Option<PathBuf>, compiler: CompilerMode) -> Result<Engine, CommandError> {
    Engine::new(compile::engine_options(cache_dir, compiler))
        .map_err(|error| CommandError::Failure(format!("cannot start the wasm engine: {error}")))
}

/// Checks that the plugins directory exists. One that is created because of a misspelled path would run nothing, without an error.
///
/// # Errors
/// Returns a usage error if it does not exist, or is something else.
pub(crate) fn require_directory(directory: &Path) -> CommandResult {
    let remedy = "give the directory with the plugins' .wasm files, or create it";
    let problem = match std::fs::metadata(directory) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(CommandError::Usage(format!("--plugins {}: {problem}; {remedy}", directory.display())))
}

/// Returns the name that identifies this process in Events: in a cluster, the pod's.
fn instance() -> String {
    std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "pilothouse".to_owned())
}

/// Returns the host's namespace, which a Deployment sets through the downward API.
fn namespace() -> String {
    let namespace = std::env::var("POD_NAMESPACE").ok().filter(|name| !name.is_empty());
    namespace.unwrap_or_else(|| "default".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugins_directory_that_does_not_exist_is_not_created_but_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let (typo, file) = (folder.path().join("plugns"), folder.path().join("file"));
        std::fs::write(&file, "").expect("written");
        assert!(require_directory(folder.path()).is_ok());
        for path in [&typo, &file] {
            let Err(CommandError::Usage(text)) = require_directory(path) else { panic!("{path:?}") };
            assert!(text.contains(&format!("--plugins {}", path.display())), "{text}");
            assert!(text.contains("give the directory with the plugins' .wasm files"), "{text}");
        }
        assert!(!typo.exists());
    }
}
