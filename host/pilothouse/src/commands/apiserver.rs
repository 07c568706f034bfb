//! `pilothouse apiserver`: the embedded API server alone.

use std::net::SocketAddr;
use std::path::Path;

use pilothouse_apiserver::ApiServer;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::listen;
use crate::cli::{AllowedHosts, Apiserver, Authorization, TestFaults};
use crate::{Failed, Outcome, output, shutdown};

pub(crate) async fn run(flags: Apiserver) -> Outcome {
    let shutdown = shutdown::on_signal()?;
    let listener = listen::bind("--listen", flags.listen).await?;
    let address = listen::local(&listener)?;
    let server = build(&Serving {
        authorization: flags.authorization,
        insecure_http: flags.insecure_http,
        hosts: &flags.hosts,
        faults: &flags.faults,
    });
    write_kubeconfig(&server, address, &flags.kubeconfig_out)?;
    let serving = start(&server, listener, &shutdown);
    output::line(format_args!("API server  {}", server.url(address)));
    output::line(format_args!("kubeconfig  {}", flags.kubeconfig_out.display()));
    shutdown.cancelled().await;
    // Watches have no end of their own: they are cut.
    serving.abort();
    Ok(())
}

/// The flags of the embedded API server.
pub(crate) struct Serving<'a> {
    pub(crate) authorization: Authorization,
    pub(crate) insecure_http: bool,
    pub(crate) hosts: &'a AllowedHosts,
    pub(crate) faults: &'a TestFaults,
}

/// The server that the flags describe.
pub(crate) fn build(flags: &Serving<'_>) -> ApiServer {
    let authorization = match flags.authorization {
        Authorization::AlwaysAllow => pilothouse_apiserver::Authorization::AlwaysAllow,
        Authorization::Rbac => pilothouse_apiserver::Authorization::Rbac,
    };
    ApiServer::builder()
        .authorization(authorization)
        .plain_http(flags.insecure_http)
        .anonymous(flags.insecure_http)
        .allowed_hosts(flags.hosts.allowed_hosts.iter().cloned())
        .faults_over_http(flags.faults.test_faults)
        .build()
}

/// Starts the API on its socket, with the simulated controllers behind it.
pub(crate) fn start(
    server: &ApiServer,
    listener: TcpListener,
    shutdown: &CancellationToken,
) -> JoinHandle<()> {
    let (server, shutdown) = (server.clone(), shutdown.clone());
    tokio::spawn(async move {
        let _controllers = server.run_controllers(shutdown.clone());
        if let Err(error) = server.serve(listener, shutdown).await {
            tracing::error!("the API server stopped: {error}");
        }
    })
}

pub(crate) fn write_kubeconfig(server: &ApiServer, address: SocketAddr, path: &Path) -> Outcome {
    server
        .write_kubeconfig(path, address)
        .map_err(|error| Failed::Usage(format!("--kubeconfig-out: {error}")))
}
