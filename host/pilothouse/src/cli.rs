//! The command line. It is public: see CHANGELOG.md before changing it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use pilothouse_controller::GrantMode;
use serde::Deserialize;

use crate::build::Language;

/// A WebAssembly host for Kubernetes controller logic.
///
/// Drop a .wasm into the plugins directory, and it controls a cluster. Exit codes: 0 ended as asked, 1 failed, 2 bad
/// usage or configuration. Logs go to standard error, results to standard output.
#[derive(Debug, Parser)]
#[command(name = "pilothouse", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// How log lines are written.
    #[arg(long, global = true, env = "PILOTHOUSE_LOG_FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Which log lines are written: a level, or directives such as `info,plugin=debug`.
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
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Authorization {
    /// Everything is allowed to everyone.
    AlwaysAllow,
    /// By roles and bindings, as in a cluster.
    Rbac,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run plugins against an embedded API server, in one process.
    Dev(Dev),
    /// Run plugins against a real API server.
    Run(Run),
    /// Run the embedded API server alone.
    Apiserver(Apiserver),
    /// Make a project to start from: a working controller with a test.
    New(New),
    /// Build a project, whatever its language, into a plugin.
    Build(Build),
    /// Check a plugin without running it.
    Check(Check),
    /// Print the roles that the host needs for some plugins.
    Rbac(Rbac),
    /// Show the plugins of a running host.
    Status(Status),
    /// Show the log lines of a running host's plugins.
    Logs(Logs),
    /// Compile standard input to standard output: what the host starts for each plugin.
    #[command(hide = true)]
    Compile(Compile),
}

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// A project to build into the plugins directory, now and again on each save.
    #[arg(long, env = "PILOTHOUSE_BUILD", value_name = "DIR")]
    pub(crate) build: Option<PathBuf>,
    /// The directory whose .wasm files run.
    #[arg(long, env = "PILOTHOUSE_PLUGINS", default_value = "plugins", value_name = "DIR")]
    pub(crate) plugins: PathBuf,
    /// Where the kubeconfig for kubectl is written.
    #[arg(
        long,
        env = "PILOTHOUSE_KUBECONFIG_OUT",
        default_value = ".pilothouse/kubeconfig",
        value_name = "FILE"
    )]
    pub(crate) kubeconfig_out: PathBuf,
    /// Where health, metrics and status are served.
    #[arg(long, env = "PILOTHOUSE_LISTEN", default_value = "127.0.0.1:9464", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Where the embedded API server listens; port 0 takes a free one.
    #[arg(long, env = "PILOTHOUSE_API_LISTEN", default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) api_listen: SocketAddr,
    /// How the embedded API server decides what a request may do.
    #[arg(long, env = "PILOTHOUSE_AUTHORIZATION", value_enum, default_value = "always-allow")]
    pub(crate) authorization: Authorization,
    /// What a plugin is granted where its sidecar is silent or absent: `declared`, all that its descriptor declares except HTTP;
    /// `explicit`, nothing.
    #[arg(long, env = "PILOTHOUSE_GRANTS", value_enum, value_name = "HOW")]
    pub(crate) grants: Option<Grants>,
    /// Serve the API as plain HTTP, without TLS; with always-allow, credentials are not needed either.
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
    /// The directory whose .wasm files run.
    #[arg(long, env = "PILOTHOUSE_PLUGINS", default_value = "plugins", value_name = "DIR")]
    pub(crate) plugins: PathBuf,
    /// The kubeconfig; without it, the pod's service account, else what kubectl would use.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; without it, its current one.
    #[arg(long, env = "PILOTHOUSE_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The host's configuration file (YAML).
    #[arg(long, env = "PILOTHOUSE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where health, metrics and status are served.
    #[arg(long, env = "PILOTHOUSE_LISTEN", default_value = "127.0.0.1:9464", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// What a plugin is granted where its sidecar is silent or absent: `declared`, all that its descriptor declares except HTTP;
    /// `explicit`, nothing. Wins over `grants` of --config.
    #[arg(long, env = "PILOTHOUSE_GRANTS", value_enum, value_name = "HOW")]
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
    /// Where the API server listens; port 0 takes a free one.
    #[arg(long, env = "PILOTHOUSE_LISTEN", default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Where the kubeconfig for kubectl is written.
    #[arg(
        long,
        env = "PILOTHOUSE_KUBECONFIG_OUT",
        default_value = ".pilothouse/kubeconfig",
        value_name = "FILE"
    )]
    pub(crate) kubeconfig_out: PathBuf,
    /// How the embedded API server decides what a request may do.
    #[arg(long, env = "PILOTHOUSE_AUTHORIZATION", value_enum, default_value = "always-allow")]
    pub(crate) authorization: Authorization,
    /// Serve the API as plain HTTP, without TLS; with always-allow, credentials are not needed either.
    #[arg(long, env = "PILOTHOUSE_INSECURE_HTTP")]
    pub(crate) insecure_http: bool,
    #[command(flatten)]
    pub(crate) hosts: AllowedHosts,
    #[command(flatten)]
    pub(crate) faults: TestFaults,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// The plugin's name, and the folder that is made: lower-case letters, digits and '-'.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The language that it is written in.
    #[arg(long, env = "PILOTHOUSE_LANG", value_enum)]
    pub(crate) lang: Language,
}

#[derive(Debug, Args)]
pub(crate) struct Build {
    /// The project: a folder with a Cargo.toml, package.json, pyproject.toml, requirements.txt, go.mod or C files.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Where the plugin goes; without it, DIR/NAME.wasm with the project's name.
    #[arg(long, short, env = "PILOTHOUSE_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The plugin; a sidecar beside it counts.
    #[arg(value_name = "FILE.wasm")]
    pub(crate) file: PathBuf,
    /// Print the report as JSON.
    #[arg(long, env = "PILOTHOUSE_JSON")]
    pub(crate) json: bool,
    /// Hold the plugin against this API server: its kinds, and what the user may do.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Rbac {
    /// The plugins; a sidecar beside each counts.
    #[arg(value_name = "FILE.wasm", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What the roles and bindings are called.
    #[arg(long, env = "PILOTHOUSE_NAME", default_value = "pilothouse")]
    pub(crate) name: String,
    /// Who gets the roles: the service account that the host runs under.
    #[arg(
        long,
        env = "PILOTHOUSE_SERVICE_ACCOUNT",
        default_value = "pilothouse/pilothouse",
        value_name = "NAMESPACE/NAME"
    )]
    pub(crate) service_account: String,
    /// The host's configuration file (YAML), which says whether it may apply the CRDs that plugins bring.
    #[arg(long, env = "PILOTHOUSE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Ask this API server for the plural names of kinds that are not built in.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print the answer of /api/plugins as it is.
    #[arg(long, env = "PILOTHOUSE_JSON")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Only this plugin's lines.
    pub(crate) plugin: Option<String>,
    /// Go on with new lines.
    #[arg(long, short, env = "PILOTHOUSE_FOLLOW")]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Which names of its ports a host answers to.
#[derive(Debug, Args)]
pub(crate) struct AllowedHosts {
    /// DNS names that requests may have as their Host, separated by commas; IP addresses and localhost always may.
    #[arg(
        long,
        env = "PILOTHOUSE_ALLOWED_HOSTS",
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = parse_host
    )]
    pub(crate) allowed_hosts: Vec<String>,
}

/// A DNS name, without a scheme and a port.
fn parse_host(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if text.is_empty() || !text.bytes().all(is_part) {
        return Err("expected a DNS name such as pilothouse.example.com, without scheme and port".to_owned());
    }
    Ok(text.to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ServerUrl {
    /// The host to ask: what its --listen is.
    #[arg(long, env = "PILOTHOUSE_SERVER", default_value = "http://127.0.0.1:9464", value_name = "URL")]
    pub(crate) server: String,
}

#[derive(Debug, Args)]
pub(crate) struct CacheFlags {
    /// Where compiled plugins are kept between runs; without it, `pilothouse` in $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, env = "PILOTHOUSE_CACHE_DIR", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Whether cached objects are compressed in memory: `none`, or `zstd`. Wins over `cache.compression` of --config.
    #[arg(long, env = "PILOTHOUSE_CACHE_COMPRESSION", value_enum, value_name = "HOW")]
    pub(crate) cache_compression: Option<CacheCompression>,
}

/// What a plugin gets without its operator's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grants {
    /// What its descriptor declares.
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

/// How cached objects are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CacheCompression {
    /// As they are.
    #[default]
    None,
    /// By zstd, with a dictionary for each watch.
    Zstd,
}

#[derive(Debug, Args)]
pub(crate) struct Compile {
    /// Bytes of memory that may be used.
    pub(crate) memory: u64,
    /// Bytes of the plugin.
    pub(crate) size: usize,
}

/// Switches that only tests turn, so that a fault cannot hide.
#[derive(Debug, Args)]
pub(crate) struct TestHooks {
    /// Do not queue every object again at a reload.
    #[arg(long, env = "PILOTHOUSE_TEST_NO_REQUEUE_ON_RELOAD", hide = true)]
    pub(crate) test_no_requeue_on_reload: bool,
    /// Review the rights of service accounts every so many milliseconds.
    #[arg(long, env = "PILOTHOUSE_TEST_REVIEW_EVERY", value_name = "MILLISECONDS", hide = true)]
    pub(crate) test_review_every: Option<u64>,
}

/// As [`TestHooks`], for the embedded API server.
#[derive(Debug, Args)]
pub(crate) struct TestFaults {
    /// Let requests to the embedded API server inject faults.
    #[arg(long, env = "PILOTHOUSE_TEST_FAULTS", hide = true)]
    pub(crate) test_faults: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_its_variable() {
        for command in Cli::command().get_subcommands().chain([&Cli::command()]) {
            let flags = command.get_arguments().filter(|flag| !flag.is_positional());
            for flag in flags.filter(|flag| !["help", "version"].contains(&flag.get_id().as_str())) {
                let name = format!("PILOTHOUSE_{}", flag.get_id().as_str().to_uppercase());
                assert_eq!(flag.get_env(), Some(name.as_ref()), "{}", command.get_name());
            }
        }
    }

    #[test]
    fn an_allowed_host_is_a_name() {
        assert_eq!(parse_host("host.example"), Ok("host.example".to_owned()));
        for bad in ["", "http://host.example", "host.example:80", "*", "a/b"] {
            assert!(parse_host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_stable_flags_are_taken() {
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
