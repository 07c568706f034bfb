//! `pilothouse apiserver`: runs only the embedded API server.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use pilothouse_apiserver::{
    ApiServer, ApiServerBuilder, ClusterIpRange, ControllerOptions, StageError, Stages,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::listen;
use crate::cli::AllowedHosts;
use crate::cli::embedded_server::{
    AdmissionFlags, Apiserver, Authorization, CertificateFiles, ControllerFlags, DataAndFaults,
    KubernetesVersion,
};
use crate::{CommandError, CommandResult, input_file, output, shutdown};

/// The largest PEM file in bytes.
const MAX_PEM: u64 = 1 << 20;
/// About the time that kube-apiserver needs to write to etcd and to report that to a watch.
const POD_REMOVAL_PAUSE: Duration = Duration::from_millis(5);
/// The largest file with stages in bytes.
const MAX_STAGES: u64 = 16 << 20;

pub(crate) async fn run(flags: Apiserver) -> CommandResult {
    let shutdown = shutdown::on_signal()?;
    for flag in &flags.ignored_flag {
        tracing::warn!(flag, "the flag has no effect on the embedded API server");
    }
    let controllers = controller_options(flags.controllers)?;
    let listener = listen::bind("--listen", flags.listen).await?;
    let address = listen::local_address(&listener)?;
    let server = build(&ApiServerFlags {
        authorization: flags.authorization,
        insecure_http: flags.insecure_http,
        version: &flags.version,
        hosts: &flags.hosts,
        webhooks: flags.webhooks.webhooks,
        admission: &flags.admission,
        cluster_ips: flags.service_cluster_ip_range,
        pod_removal_pause: POD_REMOVAL_PAUSE,
        data: &flags.data,
        certificates: &flags.certificates,
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
    pub(crate) admission: &'a AdmissionFlags,
    pub(crate) cluster_ips: ClusterIpRange,
    pub(crate) pod_removal_pause: Duration,
    pub(crate) data: &'a DataAndFaults,
    pub(crate) certificates: &'a CertificateFiles,
}

/// Creates the server that the flags describe.
///
/// # Errors
/// If a plugin is both enabled and disabled, or the directory of `--data`, the file of `--audit-log` or a file with certificates cannot be used.
pub(crate) fn build(flags: &ApiServerFlags<'_>) -> Result<ApiServer, CommandError> {
    let authorization = match flags.authorization {
        Authorization::AlwaysAllow => pilothouse_apiserver::Authorization::AlwaysAllow,
        Authorization::Rbac => pilothouse_apiserver::Authorization::Rbac,
    };
    let DataAndFaults { data, audit_log, enable_faults, enable_snapshots } = flags.data;
    let problem = |flag: &str, path: &Path, error: &dyn std::fmt::Display| {
        CommandError::Usage(format!("{flag} {}: {error}", path.display()))
    };
    let AdmissionFlags { enable_admission_plugins: enabled, disable_admission_plugins: disabled } =
        flags.admission;
    if let Some(plugin) = enabled.iter().find(|plugin| disabled.contains(plugin)) {
        return Err(CommandError::Usage(format!(
            "--enable-admission-plugins and --disable-admission-plugins both name {plugin}; remove it from one of them"
        )));
    }
    let builder = ApiServer::builder()
        .enable_admission_plugins(enabled.iter().copied())
        .disable_admission_plugins(disabled.iter().copied())
        .service_cluster_ip_range(flags.cluster_ips)
        .pod_removal_pause(flags.pod_removal_pause)
        .authorization(authorization)
        .kubernetes_minor(flags.version.kubernetes_version)
        .plain_http(flags.insecure_http)
        .anonymous(flags.insecure_http)
        .allowed_hosts(flags.hosts.allowed_hosts.iter().cloned())
        .webhooks(flags.webhooks)
        .faults_over_http(*enable_faults)
        .snapshots_over_http(*enable_faults || *enable_snapshots);
    let mut builder = with_certificates(builder, flags.certificates)?;
    if let Some(file) = audit_log {
        builder = builder.audit_log(file).map_err(|error| problem("--audit-log", file, &error))?;
    }
    match data {
        None => Ok(builder.build()),
        #[cfg(feature = "persistence")]
        Some(directory) => {
            builder.build_with_data(directory).map_err(|error| problem("--data", directory, &error))
        }
        #[cfg(not(feature = "persistence"))]
        Some(_) => Err(CommandError::left_out("`--data`", "persistence")),
    }
}

/// Sets the certificates that are in files.
///
/// # Errors
/// If a file cannot be read or has no certificate that can be used.
fn with_certificates(
    mut builder: ApiServerBuilder,
    files: &CertificateFiles,
) -> Result<ApiServerBuilder, CommandError> {
    let unusable = |flag: &str, path: &Path, problem: String| {
        CommandError::Usage(format!("{flag} {}: {problem}", path.display()))
    };
    let read = |flag: &str, path: &Path| {
        let text = input_file::read_text_or_pipe(path, MAX_PEM);
        text.map_err(|problem| {
            unusable(flag, path, format!("{problem}; name a file with certificates or a key in PEM"))
        })
    };
    if let (Some(certificate), Some(key)) = (&files.tls_cert_file, &files.tls_private_key_file) {
        let flag = "--tls-cert-file";
        let (chain, key) = (read(flag, certificate)?, read("--tls-private-key-file", key)?);
        builder = builder
            .serving_certificate(&chain, &key)
            .map_err(|error| unusable(flag, certificate, error.to_string()))?;
    }
    if let Some(authority) = &files.client_ca_file {
        let flag = "--client-ca-file";
        builder = builder
            .client_authority(&read(flag, authority)?)
            .map_err(|error| unusable(flag, authority, error.to_string()))?;
    }
    Ok(builder)
}

/// Returns the options of the built-in controllers.
///
/// # Errors
/// Errors if the file of stages cannot be read.
pub(crate) fn controller_options(flags: ControllerFlags) -> Result<ControllerOptions, CommandError> {
    let options = ControllerOptions::default().with_controllers(flags.controllers);
    let Some(file) = flags.stages else { return Ok(options) };
    let usage = |problem: String| CommandError::Usage(format!("--stages {}: {problem}", file.display()));
    let text = input_file::read_text_or_pipe(&file, MAX_STAGES).map_err(usage)?;
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
