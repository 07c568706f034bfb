//! `pilothouse run`: plugins against a real API server.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::host::{HostFlags, run as run_host};
use super::listen;
use crate::cli::Run;
use crate::{Failed, Outcome, cluster, output, shutdown};

/// The host's configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HostConfig {
    /// Whether the CRDs that plugins bring are applied, unless a sidecar says otherwise. Off: in a shared cluster that
    /// is the operator's decision.
    #[serde(default)]
    pub(super) grant_crds: bool,
}

pub(crate) async fn run(flags: Run) -> Outcome {
    let shutdown = shutdown::on_signal()?;
    let config = config(flags.config.as_deref())?;
    let (client, api_server) =
        cluster::connect(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
    let listener = listen::bind("--listen", flags.listen).await?;
    output::line(format_args!("plugins     {}", flags.plugins.display()));
    output::line(format_args!("status      http://{}/", listen::local(&listener)?));
    let host = HostFlags {
        plugins: PathBuf::from(&flags.plugins),
        api_server,
        grant_crds: config.grant_crds,
        cache_dir: flags.cache.cache_dir,
        test: flags.test,
    };
    run_host(host, client, listener, shutdown).await
}

pub(super) fn config(path: Option<&Path>) -> Result<HostConfig, Failed> {
    let Some(path) = path else { return Ok(HostConfig::default()) };
    let refused = |problem: String| {
        Failed::Usage(format!("--config {}: {problem}; the members are grantCrds", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    serde_saphyr::from_str(&text).map_err(|error| {
        let text = error.to_string();
        refused(text.lines().next().unwrap_or_default().to_owned())
    })
}
