//! Defines the command line. It is public API: see CHANGELOG.md before you change it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use pilothouse_controller::GrantMode;
use pilothouse_toolchain::Language;
use serde::Deserialize;

/// Run Kubernetes controllers as WebAssembly plugins.
///
/// Copy a plugin's .wasm file into the plugins directory, and the host runs it against a cluster. Results are written to standard
/// output, logs to standard error. Exit codes: 0 success, 1 failure, 2 invalid usage or configuration.
#[derive(Debug, Parser)]
#[command(name = "pilothouse", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Format of log lines.
    #[arg(long, global = true, env = "PILOTHOUSE_LOG_FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Log filter: a level (error, warn, info, debug, trace), or directives such as `info,plugin=debug`.
    #[arg(
        long,
        global = true,
        env = "PILOTHOUSE_LOG_LEVEL",
        default_value = "info",
        value_name = "FILTER",
        value_parser = crate::logging::parse_filter
    )]
    pub(crate) log_level: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Authorization {
    /// Allow every request.
    AlwaysAllow,
    /// Evaluate RBAC roles and bindings, as a cluster does.
    Rbac,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run plugins against an embedded API server in the same process.
    Dev(Dev),
    /// Run plugins against a Kubernetes cluster.
    Run(Run),
    /// Run only the embedded API server.
    Apiserver(Apiserver),
    /// Create a project: a working controller with a test.
    New(New),
    /// Build a project in any supported language into a plugin.
    Build(Build),
    /// Check a plugin without running it.
    Check(Check),
    /// Print the RBAC manifests that running some plugins requires.
    Rbac(Rbac),
    /// Show the status of a running host's plugins.
    Status(Status),
    /// Print the logs of a running host's plugins.
    Logs(Logs),
    /// Compile a plugin from standard input to standard output (started by the host itself).
    #[command(hide = true)]
    Compile(Compile),
}

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Build this project into the plugins directory, and rebuild it whenever a source file changes.
    #[arg(long, env = "PILOTHOUSE_BUILD", value_name = "DIR")]
    pub(crate) build: Option<PathBuf>,
    /// Directory with the plugins to run (.wasm files).
    #[arg(long, env = "PILOTHOUSE_PLUGINS", default_value = "plugins", value_name = "DIR")]
    pub(crate) plugins: PathBuf,
    /// Write a kubeconfig for the embedded API server to this file.
    #[arg(
        long,
        env = "PILOTHOUSE_KUBECONFIG_OUT",
        default_value = ".pilothouse/kubeconfig",
        value_name = "FILE"
    )]
    pub(crate) kubeconfig_out: PathBuf,
    /// Address on which to serve health, metrics, status and logs; port 0 selects a free port.
    #[arg(long, env = "PILOTHOUSE_LISTEN", default_value = "127.0.0.1:9464", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Address of the embedded API server; port 0 selects a free port.
    #[arg(long, env = "PILOTHOUSE_API_LISTEN", default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) api_listen: SocketAddr,
    /// Authorization mode of the embedded API server.
    #[arg(long, env = "PILOTHOUSE_AUTHORIZATION", value_enum, default_value = "always-allow")]
    pub(crate) authorization: Authorization,
    /// Default grants: what a plugin may access when its sidecar does not say.
    #[arg(long, env = "PILOTHOUSE_GRANTS", value_enum, value_name = "MODE")]
    pub(crate) grants: Option<Grants>,
    /// Serve the API over plain HTTP instead of TLS. With always-allow, clients need no credentials either.
    #[arg(long, env = "PILOTHOUSE_INSECURE_HTTP")]
    pub(crate) insecure_http: bool,
    #[command(flatten)]
    pub(crate) hosts: AllowedHosts,
    #[command(flatten)]
    pub(crate) cache: CacheFlags,
    #[command(flatten)]
    pub(crate) test: TestHooks,
    #[command(flatten)]
    pub(crate) faults: TestFaults,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Directory with the plugins to run (.wasm files).
    #[arg(long, env = "PILOTHOUSE_PLUGINS", default_value = "plugins", value_name = "DIR")]
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
    /// Address on which to serve health, metrics, status and logs; port 0 selects a free port.
    #[arg(long, env = "PILOTHOUSE_LISTEN", default_value = "127.0.0.1:9464", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Default grants: what a plugin may access when its sidecar does not say. Overrides `grants` of --config.
    #[arg(long, env = "PILOTHOUSE_GRANTS", value_enum, value_name = "MODE")]
    pub(crate) grants: Option<Grants>,
    #[command(flatten)]
    pub(crate) hosts: AllowedHosts,
    #[command(flatten)]
    pub(crate) cache: CacheFlags,
    #[command(flatten)]
    pub(crate) test: TestHooks,
}

#[derive(Debug, Args)]
pub(crate) struct Apiserver {
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, env = "PILOTHOUSE_LISTEN", default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Write a kubeconfig for the embedded API server to this file.
    #[arg(
        long,
        env = "PILOTHOUSE_KUBECONFIG_OUT",
        default_value = ".pilothouse/kubeconfig",
        value_name = "FILE"
    )]
    pub(crate) kubeconfig_out: PathBuf,
    /// Authorization mode of the embedded API server.
    #[arg(long, env = "PILOTHOUSE_AUTHORIZATION", value_enum, default_value = "always-allow")]
    pub(crate) authorization: Authorization,
    /// Serve the API over plain HTTP instead of TLS. With always-allow, clients need no credentials either.
    #[arg(long, env = "PILOTHOUSE_INSECURE_HTTP")]
    pub(crate) insecure_http: bool,
    #[command(flatten)]
    pub(crate) hosts: AllowedHosts,
    #[command(flatten)]
    pub(crate) faults: TestFaults,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// Name of the plugin and of the folder to create: lower-case letters, digits and '-'.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Language of the project.
    #[arg(long, env = "PILOTHOUSE_LANG", value_parser = language_parser())]
    pub(crate) lang: Language,
}

/// Returns a parser for the names of the guest languages, which `--help` lists with their descriptions.
fn language_parser() -> impl TypedValueParser<Value = Language> {
    let values =
        Language::ALL.map(|language| PossibleValue::new(language.name()).help(language.description()));
    PossibleValuesParser::new(values)
        .try_map(|name| Language::from_name(&name).ok_or_else(|| format!("{name} is not a guest language")))
}

#[derive(Debug, Args)]
pub(crate) struct Build {
    /// Folder of the project, with a Cargo.toml, package.json, pyproject.toml, requirements.txt, go.mod or C files.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// File to write the plugin to. By default, DIR/NAME.wasm with the project's name.
    #[arg(long, short, env = "PILOTHOUSE_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Plugin to check. A sidecar FILE.yaml next to it is applied.
    #[arg(value_name = "FILE.wasm")]
    pub(crate) file: PathBuf,
    /// Print the report as JSON.
    #[arg(long, env = "PILOTHOUSE_JSON")]
    pub(crate) json: bool,
    /// Check against the cluster of this kubeconfig: the kinds it serves and the permissions of the user.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Rbac {
    /// Plugins that one host runs together. A sidecar FILE.yaml next to each is applied.
    #[arg(value_name = "FILE.wasm", required = true)]
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
    /// Path to the host's configuration file (YAML). Its `grants` and `grantCrds` affect the roles.
    #[arg(long, env = "PILOTHOUSE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Look up the plural names of custom resources in the cluster of this kubeconfig.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print the JSON response of /api/plugins unchanged.
    #[arg(long, env = "PILOTHOUSE_JSON")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Print only the logs of this plugin.
    pub(crate) plugin: Option<String>,
    /// Keep printing new log lines as they are written.
    #[arg(long, short, env = "PILOTHOUSE_FOLLOW")]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// The DNS names that the servers accept in a request's `Host` header.
#[derive(Debug, Args)]
pub(crate) struct AllowedHosts {
    /// Comma-separated DNS names to accept in the Host header. IP addresses and localhost are always accepted.
    #[arg(
        long,
        env = "PILOTHOUSE_ALLOWED_HOSTS",
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = parse_host
    )]
    pub(crate) allowed_hosts: Vec<String>,
}

/// Parses a DNS name without scheme or port.
fn parse_host(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if text.is_empty() || !text.bytes().all(is_allowed) {
        return Err("expected a DNS name such as pilothouse.example.com, without scheme or port".to_owned());
    }
    Ok(text.to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ServerUrl {
    /// URL of the running host: the address of its --listen.
    #[arg(long, env = "PILOTHOUSE_SERVER", default_value = "http://127.0.0.1:9464", value_name = "URL")]
    pub(crate) server: String,
}

#[derive(Debug, Args)]
pub(crate) struct CacheFlags {
    /// Directory in which to cache compiled plugins. By default, `pilothouse` in $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, env = "PILOTHOUSE_CACHE_DIR", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Compression of cached objects in memory. Overrides `cache.compression` of --config.
    #[arg(long, env = "PILOTHOUSE_CACHE_COMPRESSION", value_enum, value_name = "MODE")]
    pub(crate) cache_compression: Option<CacheCompression>,
}

/// Default grants: what a plugin may access when its sidecar does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grants {
    /// Everything that its descriptor declares, except HTTP requests.
    Declared,
    /// Nothing.
    Explicit,
}

impl From<Grants> for GrantMode {
    fn from(grants: Grants) -> Self {
        match grants {
            Grants::Declared => Self::Declared,
            Grants::Explicit => Self::Explicit,
        }
    }
}

/// Compression of cached objects in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CacheCompression {
    /// No compression.
    #[default]
    None,
    /// zstd with a dictionary for each watch.
    Zstd,
}

#[derive(Debug, Args)]
pub(crate) struct Compile {
    /// Memory limit in bytes.
    pub(crate) memory: u64,
    /// Size of the plugin in bytes.
    pub(crate) size: usize,
}

/// Hidden flags for the end-to-end tests.
#[derive(Debug, Args)]
pub(crate) struct TestHooks {
    /// Do not requeue every object after a reload. Otherwise the requeue would mask events that a reload loses.
    #[arg(long, env = "PILOTHOUSE_TEST_NO_REQUEUE_ON_RELOAD", hide = true)]
    pub(crate) test_no_requeue_on_reload: bool,
    /// Interval in milliseconds at which the permissions of service accounts are reviewed.
    #[arg(long, env = "PILOTHOUSE_TEST_REVIEW_EVERY", value_name = "MILLISECONDS", hide = true)]
    pub(crate) test_review_every: Option<u64>,
}

/// Hidden flags of the embedded API server for the end-to-end tests.
#[derive(Debug, Args)]
pub(crate) struct TestFaults {
    /// Accept requests that inject faults into the embedded API server.
    #[arg(long, env = "PILOTHOUSE_TEST_FAULTS", hide = true)]
    pub(crate) test_faults: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_accepts_the_definition() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_an_environment_variable_of_its_name() {
        for command in Cli::command().get_subcommands().chain([&Cli::command()]) {
            let flags = command.get_arguments().filter(|flag| !flag.is_positional());
            for flag in flags.filter(|flag| !["help", "version"].contains(&flag.get_id().as_str())) {
                let name = format!("PILOTHOUSE_{}", flag.get_id().as_str().to_uppercase());
                assert_eq!(flag.get_env(), Some(name.as_ref()), "{}", command.get_name());
            }
        }
    }

    #[test]
    fn allowed_hosts_are_names_without_scheme_port_or_wildcard() {
        assert_eq!(parse_host("host.example"), Ok("host.example".to_owned()));
        for bad in ["", "http://host.example", "host.example:80", "*", "a/b"] {
            assert!(parse_host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_stable_flags_are_accepted() {
        for line in [
            "pilothouse dev --build d --plugins p --kubeconfig-out k --listen 127.0.0.1:1 --api-listen 127.0.0.1:2 \
             --authorization rbac --grants declared --cache-dir c --insecure-http --allowed-hosts a.example,b.example",
            "pilothouse run --plugins p --kubeconfig k --context c --config f --listen 127.0.0.1:1 --grants explicit --cache-dir c --allowed-hosts a.example --log-format json",
            "pilothouse apiserver --listen 127.0.0.1:1 --kubeconfig-out k --authorization always-allow --insecure-http --allowed-hosts a",
            "pilothouse new greeter --lang js",
            "pilothouse build d -o a.wasm",
            "pilothouse check a.wasm --json --kubeconfig k",
            "pilothouse rbac a.wasm b.wasm --name n --service-account a/b --config f --kubeconfig k",
            "pilothouse status --json --server http://127.0.0.1:1",
            "pilothouse logs sample --server http://127.0.0.1:1",
        ] {
            Cli::try_parse_from(line.split(' ')).expect(line);
        }
    }
}
