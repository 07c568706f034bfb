//! `pilothouse dev`: runs the embedded API server and the host in one process.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use pilothouse_apiserver::ClusterIpRange;
use pilothouse_controller::GrantMode;
use pilothouse_plugin::Engine;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::apply::Manifests;
use super::rebuild::Rebuilder;
use crate::cli::developer_tools::Dev;
use crate::cli::embedded_server::CertificateFiles;
use crate::cli::{AuthMode, DEFAULT_PLUGINS};
use crate::commands::host::{HostFlags, engine as host_engine, require_directory, run as run_host};
use crate::commands::{apiserver, listen};
use crate::startup::{StartupStep, StartupSteps};
use crate::{CommandError, CommandResult, output, shutdown};

pub(super) async fn run(flags: Dev) -> CommandResult {
    let shutdown = shutdown::on_signal()?;
    let cache_compression = flags.cache.cache_compression.unwrap_or_default().options()?;
    // The default directory is created, so that `dev` works in an empty folder. Another one is probably misspelled.
    if flags.build.is_none() && flags.plugins != Path::new(DEFAULT_PLUGINS) {
        require_directory(&flags.plugins)?;
    }
    let manifests = flags.apply.as_deref().map(Manifests::read).transpose()?;
    #[cfg(feature = "traces")]
    let traces = crate::traces::TraceSettings::resolve(&flags.traces, &Default::default())?;
    let engine = host_engine(flags.cache.cache_dir.clone(), flags.compiler)?;
    let startup = Arc::<StartupSteps>::default();
    let rebuilder = rebuilder(&flags, &engine, &startup)?;
    let controllers = apiserver::controller_options(flags.controllers)?;
    let api_listener = listen::bind("--api-listen", flags.api_listen).await?;
    let listener = listen::bind("--listen", flags.listen).await?;
    let server = apiserver::build(&apiserver::ApiServerFlags {
        authorization: flags.authorization,
        insecure_http: flags.insecure_http,
        version: &flags.version,
        hosts: &flags.hosts,
        webhooks: flags.webhooks.webhooks,
        admission: &flags.admission,
        cluster_ips: ClusterIpRange::default(),
        pod_removal_pause: Duration::ZERO,
        data: &flags.data,
        certificates: &CertificateFiles::default(),
    })?;
    let address = listen::local_address(&api_listener)?;
    apiserver::write_kubeconfig(&server, address, &flags.kubeconfig_out)?;
    let serving = apiserver::start(&server, api_listener, controllers, &shutdown);
    print_addresses(
        &server.url(address),
        &flags.kubeconfig_out,
        &flags.plugins,
        listen::local_address(&listener)?,
    );
    create_directory(&flags.plugins)?;
    // The host's own requests do not go through a socket and have administrator permissions.
    let client = Client::new(server.service(), "default");
    if let Some(manifests) = manifests {
        // Before the plugins start, so that they find the objects in their first lists.
        apply(manifests, &client, &startup, &shutdown).await;
    }
    let host = HostFlags {
        plugins: flags.plugins,
        provided: None,
        allowed_hosts: flags.hosts.allowed_hosts,
        auth: AuthMode::None,
        api_server: address.to_string(),
        grant_crds: true,
        grants: flags.grants.map(GrantMode::from).unwrap_or_default(),
        engine,
        cache_compression,
        streaming_lists: true,
        plugin_resource: None,
        #[cfg(feature = "traces")]
        traces,
        recording: flags.recording.record,
        shadows: flags.shadows.shadow,
        startup,
        metrics: prometheus_client::registry::Registry::default(),
        test: flags.test,
    };
    let rebuild_task = rebuilder.map(|rebuilder| tokio::spawn(rebuilder.run(shutdown.clone())));
    let result = run_host(host, client, listener, shutdown.clone()).await;
    end(rebuild_task, &shutdown).await;
    serving.abort();
    let flushed = apiserver::flush(&server).await;
    result.and(flushed)
}

/// Creates what `--build` and `--sim` ask for; `None` without `--build`.
fn rebuilder(
    flags: &Dev,
    engine: &Engine,
    startup: &Arc<StartupSteps>,
) -> Result<Option<Rebuilder>, CommandError> {
    let Some(project) = flags.build.clone() else { return Ok(None) };
    let rebuilder = Rebuilder::new(project, flags.plugins.clone(), engine.clone(), startup)?;
    #[cfg(feature = "simulation")]
    if flags.sim {
        return Ok(Some(rebuilder.with_simulations(flags.cache.cache_dir.clone())));
    }
    Ok(Some(rebuilder))
}

/// Prints where the API server and the status port are, and which files belong to them.
fn print_addresses(api_server: &str, kubeconfig: &Path, plugins: &Path, status: SocketAddr) {
    output::print_line(format_args!("API server  {api_server}"));
    output::print_line(format_args!("kubeconfig  {}", kubeconfig.display()));
    output::print_line(format_args!("plugins     {}", plugins.display()));
    output::print_line(format_args!("status      http://{status}/"));
}

/// Applies the manifests that the server accepts now, and the others in a task once their kinds are served.
async fn apply(
    manifests: Manifests,
    client: &Client,
    startup: &Arc<StartupSteps>,
    shutdown: &CancellationToken,
) {
    let pending = manifests.apply(client).await;
    let step = StartupStep::begin(startup, "--apply: not every manifest is applied yet; the log names them");
    let applying = pending.apply_when_served(client.clone(), shutdown.clone());
    tokio::spawn(async move {
        applying.await;
        drop(step);
    });
}

/// Ends the task that rebuilds the project, also after a host that could not start. Waits until the task has terminated its tools and removed its
/// temporary files.
async fn end(rebuild_task: Option<JoinHandle<()>>, shutdown: &CancellationToken) {
    shutdown.cancel();
    if let Some(task) = rebuild_task {
        let _ = task.await;
    }
}

/// Creates the plugins directory if it does not exist.
///
/// # Errors
/// Returns a usage error if it cannot be created.
fn create_directory(directory: &Path) -> CommandResult {
    std::fs::create_dir_all(directory).map_err(|error| {
        CommandError::Usage(format!(
            "--plugins {}: {error}; give a directory that exists or can be created",
            directory.display()
        ))
    })
}
