//! `pilothouse run`: plugins against a real API server.

use std::path::{Path, PathBuf};

use pilothouse_controller::GrantMode;
use serde::Deserialize;

use super::host::{HostFlags, run as run_host};
use super::listen;
use crate::cli::{CacheCompression, Run};
use crate::{Failed, Outcome, cluster, output, shutdown};

/// The host's configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HostConfig {
    /// Whether the CRDs that plugins bring are applied, unless a sidecar says otherwise. Off: in a shared cluster that
    /// is the operator's decision.
    #[serde(default)]
    pub(super) grant_crds: bool,
    /// What a plugin gets of what its sidecar does not mention.
    #[serde(default)]
    pub(super) grants: GrantMode,
    /// The objects that are kept in memory.
    #[serde(default)]
    pub(super) cache: CacheConfig,
    /// How watches get what there is at their beginning.
    #[serde(default)]
    pub(super) lists: Lists,
}

/// API servers compress plain lists and no streams: which is the quicker depends on the link.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) enum Lists {
    /// As the beginning of the watch, where the server can do that.
    #[default]
    Streaming,
    /// By themselves.
    Plain,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CacheConfig {
    /// Whether they are compressed.
    #[serde(default)]
    pub(super) compression: CacheCompression,
}

pub(crate) async fn run(flags: Run) -> Outcome {
    let shutdown = shutdown::on_signal()?;
    let config = config(flags.config.as_deref())?;
    let (clients, api_server) =
        cluster::connect(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
    let listener = listen::bind("--listen", flags.listen).await?;
    output::line(format_args!("plugins     {}", flags.plugins.display()));
    output::line(format_args!("status      http://{}/", listen::local(&listener)?));
    let host = HostFlags {
        plugins: PathBuf::from(&flags.plugins),
        allowed_hosts: flags.hosts.allowed_hosts,
        api_server,
        grant_crds: config.grant_crds,
        grants: flags.grants.map_or(config.grants, GrantMode::from),
        cache_dir: flags.cache.cache_dir,
        cache_compression: flags.cache.cache_compression.unwrap_or(config.cache.compression),
        streaming_lists: config.lists == Lists::Streaming,
        test: flags.test,
    };
    run_host(host, clients, listener, shutdown).await
}

pub(super) fn config(path: Option<&Path>) -> Result<HostConfig, Failed> {
    let Some(path) = path else { return Ok(HostConfig::default()) };
    let refused = |problem: String| {
        Failed::Usage(format!(
            "--config {}: {problem}; the members are grantCrds, grants, cache.compression and lists",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    serde_saphyr::from_str(&text).map_err(|error| {
        let text = error.to_string();
        refused(text.lines().next().unwrap_or_default().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_of_the_configuration_has_its_default() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.yaml");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            let config = config(Some(&path)).expect("a configuration");
            (config.grant_crds, config.cache.compression)
        };
        assert_eq!(read("{}"), (false, CacheCompression::None));
        assert_eq!(read("grantCrds: true\ncache: {}\n"), (true, CacheCompression::None));
        assert_eq!(read("cache:\n  compression: zstd\n"), (false, CacheCompression::Zstd));
        assert_eq!(read("cache: {compression: none}"), (false, CacheCompression::None));
        let none = config(None).expect("no file");
        assert_eq!((none.cache.compression, none.lists), (CacheCompression::None, Lists::Streaming));
        assert_eq!(none.grants, GrantMode::Declared);
        std::fs::write(&path, "grants: explicit").expect("written");
        assert_eq!(config(Some(&path)).expect("a configuration").grants, GrantMode::Explicit);
        std::fs::write(&path, "lists: plain").expect("written");
        assert_eq!(config(Some(&path)).expect("a configuration").lists, Lists::Plain);
    }
}
