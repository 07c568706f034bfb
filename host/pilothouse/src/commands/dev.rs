//! `pilothouse dev`: the embedded API server and the host in one process.

use pilothouse_controller::GrantMode;

use super::host::{HostFlags, run as run_host};
use super::rebuild::Rebuild;
use super::{apiserver, listen};
use crate::cli::Dev;
use crate::{Outcome, output, shutdown};

pub(crate) async fn run(flags: Dev) -> Outcome {
    let shutdown = shutdown::on_signal()?;
    let rebuild = match flags.build {
        Some(project) => Some(Rebuild::new(project, flags.plugins.clone())?),
        None => None,
    };
    let api_listener = listen::bind("--api-listen", flags.api_listen).await?;
    let listener = listen::bind("--listen", flags.listen).await?;
    let server = apiserver::build(&apiserver::Serving {
        authorization: flags.authorization,
        insecure_http: flags.insecure_http,
        hosts: &flags.hosts,
        faults: &flags.faults,
    });
    let address = listen::local(&api_listener)?;
    apiserver::write_kubeconfig(&server, address, &flags.kubeconfig_out)?;
    let serving = apiserver::start(&server, api_listener, &shutdown);
    output::line(format_args!("API server  {}", server.url(address)));
    output::line(format_args!("kubeconfig  {}", flags.kubeconfig_out.display()));
    output::line(format_args!("plugins     {}", flags.plugins.display()));
    output::line(format_args!("status      http://{}/", listen::local(&listener)?));
    // In process: the host's own requests cross no socket, and are the administrator's.
    let client = kube::Client::new(server.service(), "default");
    let host = HostFlags {
        plugins: flags.plugins,
        allowed_hosts: flags.hosts.allowed_hosts,
        api_server: address.to_string(),
        grant_crds: true,
        grants: flags.grants.map(GrantMode::from).unwrap_or_default(),
        cache_dir: flags.cache.cache_dir,
        cache_compression: flags.cache.cache_compression.unwrap_or_default(),
        streaming_lists: true,
        test: flags.test,
    };
    let building = rebuild.map(|rebuild| tokio::spawn(rebuild.run(shutdown.clone())));
    let outcome = run_host(host, client, listener, shutdown).await;
    if let Some(building) = building {
        // It ends its tools, and takes away what it had begun.
        let _ = building.await;
    }
    serving.abort();
    outcome
}
