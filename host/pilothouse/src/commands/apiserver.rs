//! `pilothouse apiserver`: runs only the embedded API server.

use std::net::SocketAddr;
use std::path::Path;

use pilothouse_apiserver::{ApiServer, ControllerOptions, StageError, Stages};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::listen;
use crate::cli::AllowedHosts;
use crate::cli::embedded_server::{
    Apiserver, Authorization, ControllerFlags, DataAndFaults, KubernetesVersion,
};
use crate::{CommandError, CommandResult, output, shutdown};

pub(crate) async fn run(flags: Apiserver) -> CommandResult {
    let shutdown = shutdown::on_signal()?;
    let controllers = controller_options(flags.controllers)?;
    let listener = listen::bind("--listen", flags.listen).await?;
    let address = listen::local_address(&listener)?;
    let server = build(&ApiServerFlags {
        authorization: flags.authorization,
        insecure_http: flags.insecure_http,
        version: &flags.version,
        hosts: &flags.hosts,
        webhooks: flags.webhooks.webhooks,
        data: &flags.data,
    })?;
    write_kubeconfig(&server, address, &flags.kubeconfig_out)?;
    let serving = start(&server, listener, controllers, &shutdown);
    output::print_line(format_args!("API server  {}", server.url(address)));
    output::print_line(format_args!("kubeconfig  {}", flags.kubeconfig_out.display()));
    shutdown.cancelled().await;
    // Watches do not end by themselves, so the server is not drained.
    serving.abort();
    flush(&server).await
}

/// Waits until everything that the controllers wrote is on disk.
///
/// # Errors
/// If it cannot be written.
pub(crate) async fn flush(server: &ApiServer) -> CommandResult {
    let flushed = server.flush().await;
    flushed.map_err(|error| CommandError::Failure(format!("the last changes were not stored: {error}")))
}

/// The flags of the embedded API server, which `apiserver` and `dev` share.
pub(crate) struct ApiServerFlags<'a> {
    pub(crate) authorization: Authorization,
    pub(crate) insecure_http: bool,
    pub(crate) version: &'a KubernetesVersion,
    pub(crate) hosts: &'a AllowedHosts,
    pub(crate) webhooks: bool,
    pub(crate) data: &'a DataAndFaults,
}

/// Creates the server that the flags describe.
///
/// # Errors
/// If the directory of `--data` cannot be used.
pub(crate) fn build(flags: &ApiServerFlags<'_>) -> Result<ApiServer, CommandError> {
    let authorization = match flags.authorization {
        Authorization::AlwaysAllow => pilothouse_apiserver::Authorization::AlwaysAllow,
        Authorization::Rbac => pilothouse_apiserver::Authorization::Rbac,
    };
    let DataAndFaults { data, enable_faults, enable_snapshots } = flags.data;
    let builder = ApiServer::builder()
        .authorization(authorization)
        .kubernetes_minor(flags.version.kubernetes_version)
        .plain_http(flags.insecure_http)
        .anonymous(flags.insecure_http)
        .allowed_hosts(flags.hosts.allowed_hosts.iter().cloned())
        .webhooks(flags.webhooks)
        .faults_over_http(*enable_faults)
        .snapshots_over_http(*enable_faults || *enable_snapshots);
    match data {
        None => Ok(builder.build()),
        Some(directory) => builder
            .build_with_data(directory)
            .map_err(|error| CommandError::Usage(format!("--data {}: {error}", directory.display()))),
    }
}

/// Returns the options of the built-in controllers.
///
/// # Errors
/// Errors if the file of stages cannot be read.
pub(crate) fn controller_options(flags: ControllerFlags) -> Result<ControllerOptions, CommandError> {
    let options = ControllerOptions::default().with_controllers(flags.controllers);
    let Some(file) = flags.stages else { return Ok(options) };
    let usage = |problem: String| CommandError::Usage(format!("--stages {}: {problem}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|error| usage(error.to_string()))?;
    let stages: Stages = text.parse().map_err(|error: StageError| usage(error.to_string()))?;
    Ok(options.with_stages(stages))
}

/// Starts serving on the listener, and starts the built-in controllers.
pub(crate) fn start(
    server: &ApiServer,
    listener: TcpListener,
    controllers: ControllerOptions,
    shutdown: &CancellationToken,
) -> JoinHandle<()> {
    let (server, shutdown) = (server.clone(), shutdown.clone());
    tokio::spawn(async move {
        let _controllers = server.run_controllers_with(controllers, shutdown.clone());
        if let Err(error) = server.serve(listener, shutdown).await {
            tracing::error!("the embedded API server stopped: {error}");
        }
    })
}

pub(crate) fn write_kubeconfig(server: &ApiServer, address: SocketAddr, path: &Path) -> CommandResult {
    server
        .write_kubeconfig(path, address)
        .map_err(|error| CommandError::Usage(format!("--kubeconfig-out: {error}")))
}
