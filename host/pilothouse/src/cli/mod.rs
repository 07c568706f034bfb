//! Defines the command line. It is public API: see CHANGELOG.md before you change it.

#[cfg(feature = "developer-tools")]
pub(crate) mod developer_tools;
#[cfg(feature = "embedded-server")]
pub(crate) mod embedded_server;
mod listen_address;
#[cfg(feature = "registry")]
pub(crate) mod registry;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pilothouse_controller::GrantMode;
use pilothouse_plugin::Compiler;
use serde::Deserialize;

use crate::CommandError;

/// The commands that a build can leave out, each with the Cargo feature that includes it.
const OPTIONAL_COMMANDS: [(&str, &str); 10] = [
    ("dev", "developer-tools"),
    ("new", "developer-tools"),
    ("build", "developer-tools"),
    ("test", "developer-tools"),
    ("sdk", "developer-tools"),
    ("abi", "developer-tools"),
    ("apiserver", "embedded-server"),
    ("push", "registry"),
    ("pull", "registry"),
    ("verify", "registry"),
];

/// Parses the arguments of this process. If they are invalid, or ask for help or for the version, prints clap's text and exits.
///
/// # Errors
/// Returns a usage error if the command is one that this build leaves out.
pub(crate) fn parse() -> Result<Cli, CommandError> {
    Cli::try_parse().map_err(|error| match left_out_command(&error) {
        Some((command, feature)) => CommandError::Usage(format!(
            "this pilothouse was built without the command `{command}`, which needs the Cargo feature `{feature}`; use a build with the \
             default features"
        )),
        None => without_hidden_commands(error).exit(),
    })
}

/// Removes the commands that `--help` does not list from the suggestions of an error.
fn without_hidden_commands(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::Strings(suggested)) = error.get(ContextKind::SuggestedSubcommand) else {
        return error;
    };
    let cli = Cli::command();
    let is_hidden = |name: &str| cli.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
    let shown: Vec<String> = suggested.iter().filter(|name| !is_hidden(name)).cloned().collect();
    if shown.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand);
    } else {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
    }
    error
}

/// Returns the subcommand that clap did not know and its feature, if other builds have it.
fn left_out_command(error: &clap::Error) -> Option<(&'static str, &'static str)> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    OPTIONAL_COMMANDS.into_iter().find(|(command, _)| command == name)
}

/// The plugins directory without `--plugins`.
pub(crate) const DEFAULT_PLUGINS: &str = "plugins";

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
    /// Log filter: a level (error, warn, info, debug, trace), or directives such as `info,plugin=debug`. By default `info`, and `off` for
    /// `test`, which prints the log of a plugin whose scenario fails.
    #[arg(
        long,
        global = true,
        env = "PILOTHOUSE_LOG_LEVEL",
        value_name = "FILTER",
        value_parser = crate::logging::parse_filter
    )]
    log_level: Option<String>,
}

impl Cli {
    /// Returns the log filter: the flag's, or else the command's default.
    pub(crate) fn log_filter(&self) -> &str {
        let default = match self.command {
            #[cfg(feature = "developer-tools")]
            Command::DeveloperTools(developer_tools::DeveloperCommand::Test(_)) => "off",
            _ => "info",
        };
        self.log_level.as_deref().unwrap_or(default)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "developer-tools")]
    #[command(flatten)]
    DeveloperTools(developer_tools::DeveloperCommand),
    /// Run plugins against a Kubernetes cluster.
    Run(Run),
    /// Run only the embedded API server.
    #[cfg(feature = "embedded-server")]
    Apiserver(embedded_server::Apiserver),
    /// Check a plugin without running it.
    Check(Check),
    #[cfg(feature = "registry")]
    #[command(flatten)]
    Registry(registry::RegistryCommand),
    /// Check whether this machine and a cluster have what a host needs.
    Preflight(Preflight),
    /// Compute the resources that a host needs for some plugins in a cluster.
    Size(Size),
    /// Collect what a bug report needs, without secrets, in one file.
    Bundle(Bundle),
    /// Print the RBAC manifests that running some plugins requires.
    Rbac(Rbac),
    /// Show the status of a running host's plugins.
    Status(Status),
    /// Print the logs of a running host's plugins.
    Logs(Logs),
    /// Show the keys that a plugin of a running host has queued.
    Keys(Keys),
    /// Show why a plugin of a running host reconciled a key, or did not.
    Explain(Explain),
    /// Queue a key of a running host's plugin at once, as if it had never failed.
    Requeue(Requeue),
    /// Let a running host's plugin start no work until it is resumed.
    Pause(OnePlugin),
    /// Let a paused plugin continue.
    Resume(OnePlugin),
    /// Run an older version of a running host's plugin until its file changes.
    Rollback(Rollback),
    /// Print a script with which a shell completes the commands and flags.
    Completions(Completions),
    /// Write the man pages of all commands into a directory (used by `cargo xtask dist`).
    #[command(hide = true)]
    ManPages(ManPages),
    /// Compile a plugin from standard input to standard output (started by the host itself).
    #[command(hide = true)]
    Compile(Compile),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
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
    /// Address on which to serve health, metrics, status and logs; port 0 selects a free port.
    #[arg(
        long,
        env = "PILOTHOUSE_LISTEN",
        default_value = "127.0.0.1:9464",
        value_name = "ADDR",
        value_parser = listen_address::parse
    )]
    pub(crate) listen: SocketAddr,
    /// Who may read the status port. By default, everyone who reaches it.
    #[arg(long, env = "PILOTHOUSE_AUTH", value_enum, value_name = "MODE")]
    pub(crate) auth: Option<AuthMode>,
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
    #[cfg(feature = "registry")]
    #[command(flatten)]
    pub(crate) registry: registry::RegistryFlags,
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
}

#[derive(Debug, Args)]
pub(crate) struct Size {
    /// Plugins that one host runs together. A sidecar FILE.yaml next to each is applied.
    #[arg(value_name = "FILE.wasm", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Path to the kubeconfig file. By default, the pod's service account, or else the configuration that kubectl would use.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use. By default, the current context.
    #[arg(long, env = "PILOTHOUSE_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Path to the host's configuration file (YAML). Its `cache.compression` affects the result.
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
    /// Time between the two snapshots of the metrics, such as 10s or 1m; at most 5m.
    #[arg(long, env = "PILOTHOUSE_INTERVAL", default_value = "10s", value_name = "DURATION", value_parser = parse_interval)]
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

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Show only this plugin.
    pub(crate) plugin: Option<String>,
    /// Keep printing what changes.
    #[arg(long, short, env = "PILOTHOUSE_WATCH", conflicts_with = "json")]
    pub(crate) watch: bool,
    /// Print the JSON response of /api/plugins unchanged, or the part of it about one plugin.
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

#[derive(Debug, Args)]
pub(crate) struct Keys {
    /// Name of the plugin.
    pub(crate) plugin: String,
    /// Show only keys that have failed.
    #[arg(long, env = "PILOTHOUSE_FAILING")]
    pub(crate) failing: bool,
    /// Print the JSON response of /api/plugins/PLUGIN/keys unchanged.
    #[arg(long, env = "PILOTHOUSE_JSON", conflicts_with = "failing")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Name of the plugin.
    pub(crate) plugin: String,
    /// Key of the object: NAMESPACE/NAME, or NAME for a cluster-scoped kind.
    pub(crate) key: String,
    /// Target watch of the key. Required if the plugin has several.
    #[arg(long, env = "PILOTHOUSE_WATCH_NAME", value_name = "NAME")]
    pub(crate) watch_name: Option<String>,
    /// Keep printing what changes.
    #[arg(long, short = 'w', env = "PILOTHOUSE_FOLLOW", conflicts_with = "output")]
    pub(crate) follow: bool,
    /// Form of the output.
    #[arg(long, short, env = "PILOTHOUSE_OUTPUT", value_enum, default_value = "text", value_name = "FORM")]
    pub(crate) output: ExplainOutput,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Form of the output of `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainOutput {
    /// Lines of text: the cause, what decides now, and what happened to the key.
    Text,
    /// The JSON response of /api/explain unchanged.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Requeue {
    /// Name of the plugin.
    pub(crate) plugin: String,
    /// Key of the object: NAMESPACE/NAME, or NAME for a cluster-scoped kind.
    pub(crate) key: String,
    /// Target watch of the key. Required if the plugin has several.
    #[arg(long, env = "PILOTHOUSE_WATCH_NAME", value_name = "NAME")]
    pub(crate) watch_name: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

#[derive(Debug, Args)]
pub(crate) struct OnePlugin {
    /// Name of the plugin.
    pub(crate) plugin: String,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to write the script for.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManPages {
    /// Directory to write the pages into. It is created if it does not exist.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// Name of the plugin.
    pub(crate) plugin: String,
    /// SHA-256 of the version to run, or its first characters. By default, the newest version that is older than the running one.
    pub(crate) digest: Option<String>,
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

/// Who may read the status port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthMode {
    /// Everyone who reaches it.
    None,
    /// Clients with a token of a user whom the API server allows to get the path (TokenReview, SubjectAccessReview).
    Kubernetes,
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum CacheCompression {
    /// No compression.
    #[default]
    None,
    /// zstd with a dictionary for each watch.
    Zstd,
}

/// Compiler of plugins to machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompilerMode {
    /// Compile in the least time, to slower code.
    Quick,
    /// Compile to the fastest code, as `run` does.
    Optimizing,
}

impl CompilerMode {
    /// Returns the name that the command line uses.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Optimizing => "optimizing",
        }
    }
}

impl From<CompilerMode> for Compiler {
    fn from(mode: CompilerMode) -> Self {
        match mode {
            CompilerMode::Quick => Self::QUICKEST,
            CompilerMode::Optimizing => Self::Cranelift,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Compile {
    /// Memory limit in bytes.
    pub(crate) memory: u64,
    /// Compiler to use.
    #[arg(value_enum)]
    pub(crate) compiler: CompilerMode,
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

#[cfg(test)]
mod tests {
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
    fn compiler_modes_have_the_names_that_the_command_line_accepts() {
        for mode in CompilerMode::value_variants() {
            assert_eq!(CompilerMode::from_str(mode.name(), false), Ok(*mode));
        }
    }

    #[test]
    fn an_interval_is_a_duration_of_at_most_five_minutes() {
        for (text, milliseconds) in [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("0s", 0)] {
            assert_eq!(parse_interval(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in ["", "10", "s", "6m", "1h", "-1s", "99999999999999999999s"] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn allowed_hosts_are_names_without_scheme_port_or_wildcard() {
        assert_eq!(parse_host("host.example"), Ok("host.example".to_owned()));
        for bad in ["", "http://host.example", "host.example:80", "*", "a/b"] {
            assert!(parse_host(bad).is_err(), "{bad}");
        }
    }

    #[cfg(feature = "developer-tools")]
    #[test]
    fn test_is_quiet_unless_a_log_level_is_given() {
        let filter = |line: &str| {
            let cli = Cli::try_parse_from(line.split(' ')).expect(line);
            cli.log_filter().to_owned()
        };
        assert_eq!(filter("pilothouse test"), "off");
        assert_eq!(filter("pilothouse test --log-level info"), "info");
        assert_eq!(filter("pilothouse dev"), "info");
    }

    #[test]
    fn an_optional_command_exists_if_its_feature_is_enabled() {
        for (command, feature) in OPTIONAL_COMMANDS {
            let is_enabled = match feature {
                "developer-tools" => cfg!(feature = "developer-tools"),
                "embedded-server" => cfg!(feature = "embedded-server"),
                "registry" => cfg!(feature = "registry"),
                _ => panic!("{command} needs {feature}, which is not a feature of this package"),
            };
            assert_eq!(Cli::command().find_subcommand(command).is_some(), is_enabled, "{command}");
        }
    }

    #[test]
    fn the_error_for_a_command_that_was_left_out_has_its_feature() {
        let without = clap::Command::new("pilothouse")
            .subcommand_required(true)
            .subcommand(clap::Command::new("run"))
            .subcommand(clap::Command::new("rbac"));
        let error_of = |line: &str| without.clone().try_get_matches_from(line.split(' ')).expect_err(line);
        for (command, feature) in OPTIONAL_COMMANDS {
            for line in [format!("pilothouse {command} --flag value"), format!("pilothouse help {command}")] {
                assert_eq!(left_out_command(&error_of(&line)), Some((command, feature)), "{line}");
            }
        }
        for line in ["pilothouse fly", "pilothouse run dev", "pilothouse --dev"] {
            assert_eq!(left_out_command(&error_of(line)), None, "{line}");
        }
    }

    #[test]
    fn a_hidden_command_is_not_suggested_for_a_misspelled_one() {
        let error_of = |name: &str| Cli::try_parse_from(["pilothouse", name]).expect_err(name);
        for name in ["complie", "compiel", "compil"] {
            let error = error_of(name);
            assert!(error.to_string().contains("'compile'"), "clap suggests it: {error}");
            let text = without_hidden_commands(error).to_string();
            assert!(text.contains(name) && !text.contains("'compile'"), "{text}");
        }
        let text = without_hidden_commands(error_of("statsu")).to_string();
        assert!(text.contains("'status'"), "{text}");
        let text = without_hidden_commands(error_of("qqqq")).to_string();
        assert!(!text.contains("similar"), "{text}");
    }

    #[test]
    fn the_stable_flags_are_accepted() {
        let commands = Cli::command();
        let is_left_out = |name: &str| {
            commands.find_subcommand(name).is_none()
                && OPTIONAL_COMMANDS.iter().any(|(command, _)| *command == name)
        };
        for line in [
            "pilothouse dev --build d --apply m --plugins p --kubeconfig-out k --listen 127.0.0.1:1 --api-listen 127.0.0.1:2 \
             --authorization rbac --grants declared --cache-dir c --compiler quick --insecure-http --allowed-hosts a.example,b.example \
             --controllers *,-job --stages s.yaml",
            "pilothouse run --plugins p --kubeconfig k --context c --config f --listen 127.0.0.1:1 --grants explicit --cache-dir c --allowed-hosts a.example --log-format json",
            "pilothouse apiserver --listen 127.0.0.1:1 --kubeconfig-out k --authorization always-allow --insecure-http --allowed-hosts a --controllers none --stages s.yaml",
            "pilothouse new greeter --lang js --group example.com --kind Greeting",
            "pilothouse new . --lang js --empty",
            "pilothouse sdk update d",
            "pilothouse abi --format c",
            "pilothouse build d -o a.wasm",
            "pilothouse test d --scenario a.yaml --scenario b.yaml --run a* -o junit --cache-dir c",
            "pilothouse check a.wasm --json --kubeconfig k",
            "pilothouse push a.wasm oci://r.example/a:1 --layout legacy --credentials c --certificate-authority p --trusted-host h --plain-http",
            "pilothouse pull oci://r.example/a:1 -o a.wasm --policy p",
            "pilothouse verify oci://r.example/a:1 --policy p",
            "pilothouse check --config f --sidecars d --json",
            "pilothouse preflight --plugins p --kubeconfig k --context c --config f --cache-dir d",
            "pilothouse size a.wasm b.wasm --kubeconfig k --cache-compression zstd --busy-workers 2 -o yaml",
            "pilothouse bundle -o f --plugins p --config f --kubeconfig k --interval 1s --anonymise --unredacted --server http://127.0.0.1:1",
            "pilothouse rbac a.wasm b.wasm --name n --service-account a/b --config f --kubeconfig k --format helm-values",
            "pilothouse status --json --server http://127.0.0.1:1",
            "pilothouse status sample -w --server http://127.0.0.1:1",
            "pilothouse logs sample --server http://127.0.0.1:1",
            "pilothouse keys sample --failing --server http://127.0.0.1:1",
            "pilothouse explain sample shop/a --watch-name foos -o json --server http://127.0.0.1:1",
            "pilothouse explain sample shop/a -w",
            "pilothouse requeue sample shop/a --watch-name foos --server http://127.0.0.1:1",
            "pilothouse pause sample --server http://127.0.0.1:1",
            "pilothouse resume sample --server http://127.0.0.1:1",
            "pilothouse rollback sample --server http://127.0.0.1:1",
            "pilothouse rollback sample 0123abcd --server http://127.0.0.1:1",
            "pilothouse completions bash",
        ] {
            if !line.split(' ').nth(1).is_some_and(is_left_out) {
                Cli::try_parse_from(line.split(' ')).expect(line);
            }
        }
    }
}
