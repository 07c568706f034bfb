//! The commands that inspect plugins, files, a machine or a cluster without running anything.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

#[cfg(feature = "registry")]
use super::registry;
use super::{AuthMode, CacheCompression, DEFAULT_PLUGINS, ServerUrl};

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Plugin to check: a file, or a reference oci://REGISTRY/REPOSITORY:TAG. A sidecar FILE.yaml next to a file is applied. Without a plugin, the files of --config and --sidecars are checked.
    #[arg(value_name = "FILE.wasm", required_unless_present_any = ["config", "sidecars"])]
    pub(crate) file: Option<PathBuf>,
    /// Path to the host's configuration file (YAML). Its `grants` and `grantCrds` affect the plugin's permissions.
    #[arg(long, env = "PILOTHOUSE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Check all sidecars in this directory, without their plugins.
    #[arg(long, env = "PILOTHOUSE_SIDECARS", value_name = "DIR", conflicts_with = "file")]
    pub(crate) sidecars: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long, env = "PILOTHOUSE_JSON")]
    pub(crate) json: bool,
    /// Check against the cluster of this kubeconfig: the kinds it serves and the permissions of the user.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Read the CRDs in this folder, or this file, as YAML or JSON: their kinds are served, and their schemas have the fields that indexes and triggers may name.
    #[arg(long, env = "PILOTHOUSE_CRDS", value_name = "DIR", requires = "file")]
    pub(crate) crds: Option<PathBuf>,
    #[cfg(feature = "registry")]
    #[command(flatten)]
    pub(crate) registry: registry::RegistryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Rbac {
    /// Plugins that one host runs together, beside those that --config takes from registries. A sidecar FILE.yaml next to each file is applied. A
    /// file with the ending .yaml has manifests of objects of the kind Plugin.
    #[arg(value_name = "FILE.wasm", required_unless_present = "config")]
    pub(crate) files: Vec<PathBuf>,
    /// Name of the roles and bindings.
    #[arg(long, env = "PILOTHOUSE_NAME", default_value = "pilothouse")]
    pub(crate) name: String,
    /// Service account that the host runs as.
    #[arg(
        long,
        env = "PILOTHOUSE_SERVICE_ACCOUNT",
        default_value = "pilothouse/pilothouse",
        value_name = "NAMESPACE/NAME"
    )]
    pub(crate) service_account: String,
    /// Path to the host's configuration file (YAML). Its `grants` and `grantCrds` affect the roles, and the roles include those of its `plugins`.
    #[arg(long, env = "PILOTHOUSE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the permissions that `run --auth kubernetes` requires, too, and roles for those who read the status port.
    #[arg(long, env = "PILOTHOUSE_AUTH", value_enum, value_name = "MODE")]
    pub(crate) auth: Option<AuthMode>,
    /// Look up the plural names of custom resources in the cluster of this kubeconfig.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, env = "PILOTHOUSE_FORMAT", value_enum, default_value = "manifests")]
    pub(crate) format: RbacFormat,
}

/// The format in which `rbac` prints permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RbacFormat {
    /// Roles and bindings, for kubectl apply.
    Manifests,
    /// Values of the Helm chart, which creates the roles and bindings.
    HelmValues,
}

#[derive(Debug, Args)]
pub(crate) struct Preflight {
    /// Directory with the plugins to run (.wasm files).
    #[arg(long, env = "PILOTHOUSE_PLUGINS", default_value = DEFAULT_PLUGINS, value_name = "DIR")]
    pub(crate) plugins: PathBuf,
    /// Path to the kubeconfig file. By default, the pod's service account, or else the configuration that kubectl would use.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use. By default, the current context.
    #[arg(long, env = "PILOTHOUSE_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Path to the host's configuration file (YAML).
    #[arg(long, env = "PILOTHOUSE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory in which to cache compiled plugins. By default, `pilothouse` in $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, env = "PILOTHOUSE_CACHE_DIR", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Review the permissions that `run --auth kubernetes` requires, too.
    #[arg(long, env = "PILOTHOUSE_AUTH", value_enum, value_name = "MODE")]
    pub(crate) auth: Option<AuthMode>,
}

#[derive(Debug, Args)]
pub(crate) struct Size {
    /// Plugins that one host runs together, beside those that --config takes from registries. A sidecar FILE.yaml next to each file is applied. A
    /// file with the ending .yaml has manifests of objects of the kind Plugin.
    #[arg(value_name = "FILE.wasm", required_unless_present = "config")]
    pub(crate) files: Vec<PathBuf>,
    /// Path to the kubeconfig file. By default, the pod's service account, or else the configuration that kubectl would use.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use. By default, the current context.
    #[arg(long, env = "PILOTHOUSE_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Path to the host's configuration file (YAML). Its `cache.compression` affects the result, and its `plugins` are included.
    #[arg(long, env = "PILOTHOUSE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Compression of cached objects in memory. Overrides `cache.compression` of --config.
    #[arg(long, env = "PILOTHOUSE_CACHE_COMPRESSION", value_enum, value_name = "MODE")]
    pub(crate) cache_compression: Option<CacheCompression>,
    /// Number of workers that use their whole `memory` limit at the same time.
    #[arg(long, env = "PILOTHOUSE_BUSY_WORKERS", default_value_t = 4, value_name = "N")]
    pub(crate) busy_workers: usize,
    /// Format of the result.
    #[arg(
        long,
        short,
        env = "PILOTHOUSE_OUTPUT",
        value_enum,
        default_value = "table",
        value_name = "FORMAT"
    )]
    pub(crate) output: SizeFormat,
}

/// Format of the result of `size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SizeFormat {
    /// Text for people.
    Table,
    /// JSON.
    Json,
    /// YAML, whose `resources` can be pasted into a pod.
    Yaml,
}

#[derive(Debug, Args)]
pub(crate) struct Bundle {
    /// File to write, or `-` for standard output. By default, pilothouse-bundle-TIME.tar.gz.
    #[arg(long, short, env = "PILOTHOUSE_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Directory with the host's plugins and sidecars.
    #[arg(long, env = "PILOTHOUSE_PLUGINS", default_value = DEFAULT_PLUGINS, value_name = "DIR")]
    pub(crate) plugins: PathBuf,
    /// Path to the host's configuration file (YAML).
    #[arg(long, env = "PILOTHOUSE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Review in the cluster of this kubeconfig whether the plugins have their rights. By default, in the pod's cluster.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use.
    #[arg(long, env = "PILOTHOUSE_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Time between the two snapshots of the metrics, such as 5s or 1m; at most 5m.
    #[arg(long, env = "PILOTHOUSE_INTERVAL", default_value = "5s", value_name = "DURATION", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// Replace names of objects, namespaces, accounts, plugins and machines by hashes.
    #[arg(long, env = "PILOTHOUSE_ANONYMISE")]
    pub(crate) anonymise: bool,
    /// Leave secrets as they are: `config` in sidecars, credentials, tokens.
    #[arg(long, env = "PILOTHOUSE_UNREDACTED")]
    pub(crate) unredacted: bool,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Bundle to open (.tar.gz).
    pub(crate) bundle: PathBuf,
    /// Port on 127.0.0.1 on which to serve the page; 0 selects a free port.
    #[arg(long, env = "PILOTHOUSE_LISTEN_PORT", default_value_t = 0, value_name = "PORT")]
    pub(crate) listen_port: u16,
}

/// Parses a duration of at most five minutes.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let error = || "expected a duration of at most 5m, such as 500ms, 10s or 1m".to_owned();
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| error())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        _ => None,
    };
    milliseconds.filter(|&time| time <= 300_000).map(Duration::from_millis).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_duration_of_at_most_five_minutes() {
        for (text, milliseconds) in [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("0s", 0)] {
            assert_eq!(parse_interval(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in ["", "10", "s", "6m", "1h", "-1s", "99999999999999999999s"] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
    }
}
