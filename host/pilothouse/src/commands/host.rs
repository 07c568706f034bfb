//! The plugin host with its HTTP surface: what `dev` and `run` have in common.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_apiserver::listen::RequestGuard;
use pilothouse_controller::{Clients, GrantMode, HostOptions, Metrics, PluginHost};
use pilothouse_plugin::Engine;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::compile;
use super::ingest::IngestThread;
use crate::cli::{CacheCompression, TestHooks};
use crate::shutdown::GRACE;
use crate::{Failed, Outcome, http};

/// How long a plugin file must look the same before it is loaded.
const SETTLE: Duration = Duration::from_millis(200);
/// How often it is reviewed what service accounts may read.
const REVIEW: Duration = Duration::from_secs(30);

/// What differs between `dev` and `run`.
pub(crate) struct HostFlags {
    pub(crate) plugins: PathBuf,
    /// DNS names that the status port answers to.
    pub(crate) allowed_hosts: Vec<String>,
    /// The API server as `host:port`.
    pub(crate) api_server: String,
    pub(crate) grant_crds: bool,
    pub(crate) grants: GrantMode,
    /// Where compiled plugins are kept, if not in the usual place.
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) cache_compression: CacheCompression,
    /// Whether lists are asked for as streams first.
    pub(crate) streaming_lists: bool,
    pub(crate) test: TestHooks,
}

/// Runs plugins until shutdown.
pub(crate) async fn run(
    flags: HostFlags,
    clients: impl Into<Clients>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Outcome {
    check_directory(&flags.plugins)?;
    compile::allow_open_files();
    let engine = Engine::new(compile::engine_options(flags.cache_dir))
        .map_err(|error| Failed::Work(format!("the wasm engine: {error}")))?;
    let ingest = IngestThread::start()
        .map_err(|error| Failed::Work(format!("the thread of the watches cannot be started: {error}")))?;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let options = HostOptions {
        plugins: flags.plugins,
        api_server: flags.api_server,
        grant_crds: flags.grant_crds,
        grants: flags.grants,
        instance: instance(),
        namespace: namespace(),
        settle: SETTLE,
        file_events: true,
        review_every: flags.test.test_review_every.map_or(REVIEW, Duration::from_millis),
        informer_runtime: Some(ingest.runtime()),
        compress_caches: flags.cache_compression == CacheCompression::Zstd,
        streaming_lists: flags.streaming_lists,
        requeue_on_reload: !flags.test.test_no_requeue_on_reload,
    };
    let host = PluginHost::new(options, clients, engine, metrics);
    host.register_informers(&mut registry);
    let surface = http::Surface::new(host.clone(), registry);
    let guard = RequestGuard::new(false, &flags.allowed_hosts);
    let serving = tokio::spawn(http::serve(listener, surface, guard, shutdown.clone()));
    let running = tokio::spawn({
        let (host, shutdown) = (host.clone(), shutdown.clone());
        async move { host.run(shutdown).await }
    });
    shutdown.cancelled().await;
    match tokio::time::timeout(GRACE, running).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(Failed::Work(format!("the plugin host ended badly: {error}"))),
        Err(_) => tracing::warn!("not all work ended within {} s; it is cut off", GRACE.as_secs()),
    }
    serving.abort();
    drop(ingest);
    Ok(())
}

/// An absent directory is made: its absence is no mistake, a file in its place is.
fn check_directory(directory: &Path) -> Outcome {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failed::Usage(format!(
            "--plugins {}: {error}; give a directory that can be read",
            directory.display()
        ))
    })
}

/// What tells this process from others in Events: the pod's name in a cluster.
fn instance() -> String {
    std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "pilothouse".to_owned())
}

/// The host's namespace, as a Deployment gives it by the downward API.
fn namespace() -> String {
    let given = std::env::var("POD_NAMESPACE").ok().filter(|name| !name.is_empty());
    given.unwrap_or_else(|| "default".to_owned())
}
