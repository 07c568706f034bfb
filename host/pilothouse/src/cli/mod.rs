//! Defines the command line. It is public API: see CHANGELOG.md before you change it.

#[cfg(feature = "developer-tools")]
pub(crate) mod developer_tools;
#[cfg(feature = "embedded-server")]
pub(crate) mod embedded_server;
mod inspect;
mod listen_address;
mod parsing;
#[cfg(feature = "embedded-server")]
mod program_name;
pub(crate) mod record;
#[cfg(feature = "registry")]
pub(crate) mod registry;
pub(crate) mod shadow;
mod shared;
#[cfg(feature = "simulation")]
pub(crate) mod simulation;
#[cfg(feature = "traces")]
pub(crate) mod traces;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use inspect::{Bundle, Check, Preflight, Rbac, RbacFormat, Show, Size, SizeFormat};
pub(crate) use parsing::parse;
pub(crate) use shared::{
    AllowedHosts, AuthMode, CacheCompression, CacheFlags, CompilerMode, DefaultGrants, ServerUrl, TestHooks,
};

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
    /// `test`, which prints the log of a plugin whose scenario fails, and for `sim`.
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
            #[cfg(feature = "simulation")]
            Command::DeveloperTools(developer_tools::DeveloperCommand::Sim(_)) => "off",
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
    /// Create a directory for KUBEBUILDER_ASSETS, from which envtest starts the embedded API server, and print its path.
    #[cfg(feature = "embedded-server")]
    Envtest(embedded_server::Envtest),
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
    /// Open what `bundle` has written in the status page, on this machine.
    Show(Show),
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
    /// Run an older version of a running host's plugin until its file changes, or end its canary.
    Rollback(Rollback),
    /// Let the canary of a running host's plugin reconcile all keys.
    Promote(OnePlugin),
    /// Print a script with which a shell completes the commands and flags.
    Completions(Completions),
    /// Write the man pages of all commands into a directory (used by `cargo xtask dist`).
    #[command(hide = true)]
    ManPages(ManPages),
    /// Report the health of an etcd without storing anything (started by envtest).
    #[cfg(feature = "embedded-server")]
    #[command(hide = true)]
    Etcd(embedded_server::Etcd),
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
    pub(crate) grants: Option<DefaultGrants>,
    #[command(flatten)]
    pub(crate) hosts: AllowedHosts,
    #[command(flatten)]
    pub(crate) cache: CacheFlags,
    #[cfg(feature = "traces")]
    #[command(flatten)]
    pub(crate) traces: traces::TraceFlags,
    #[command(flatten)]
    pub(crate) recording: record::RecordFlags,
    #[command(flatten)]
    pub(crate) shadows: shadow::ShadowFlags,
    #[command(flatten)]
    pub(crate) test: TestHooks,
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
    /// Keep printing what changes: lines of text, or the whole JSON document in one line.
    #[arg(long, short = 'w', env = "PILOTHOUSE_FOLLOW")]
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
    /// SHA-256 of the version to run, or its first characters. By default, the newest version that is older than the running one, or the one
    /// beside the canary.
    pub(crate) digest: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

#[derive(Debug, Args)]
pub(crate) struct Compile {
    /// Memory limit in bytes.
    pub(crate) memory: u64,
    /// Compiler to use.
    #[arg(value_enum)]
    pub(crate) compiler: CompilerMode,
    /// Whether the code counts its instructions, for simulations.
    #[arg(action = clap::ArgAction::Set)]
    pub(crate) counts_instructions: bool,
    /// Size of the plugin in bytes.
    pub(crate) size: usize,
    /// What to do with the plugin.
    #[arg(value_enum, default_value_t = CompileTask::Compile)]
    pub(crate) task: CompileTask,
}

/// What a compiler process does with a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompileTask {
    /// Compile it.
    Compile,
    /// Only check it.
    Check,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::parsing::OPTIONAL_COMMANDS;
    use super::*;

    #[test]
    fn the_host_starts_a_check_by_its_name() {
        assert_eq!(CompileTask::from_str(pilothouse_plugin::CHECK_ARGUMENT, false), Ok(CompileTask::Check));
    }

    #[test]
    fn clap_accepts_the_definition() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_an_environment_variable_of_its_name() {
        let cli = Cli::command();
        // `etcd` has the flags of another program.
        let commands = cli.get_subcommands().filter(|command| command.get_name() != "etcd");
        for command in commands.chain([&cli]) {
            let flags = command.get_arguments().filter(|flag| !flag.is_positional());
            // `ignored_flag` is only for the flags of another program.
            let without = ["help", "version", "ignored_flag"];
            for flag in flags.filter(|flag| !without.contains(&flag.get_id().as_str())) {
                let name = format!("PILOTHOUSE_{}", flag.get_id().as_str().to_uppercase());
                assert_eq!(flag.get_env(), Some(name.as_ref()), "{}", command.get_name());
            }
        }
    }

    #[cfg(feature = "developer-tools")]
    #[test]
    fn test_and_sim_are_quiet_unless_a_log_level_is_given() {
        let filter = |line: &str| {
            let cli = Cli::try_parse_from(line.split(' ')).expect(line);
            cli.log_filter().to_owned()
        };
        assert_eq!(filter("pilothouse test"), "off");
        assert_eq!(filter("pilothouse sim a.wasm"), "off");
        assert_eq!(filter("pilothouse test --log-level info"), "info");
        assert_eq!(filter("pilothouse dev"), "info");
    }

    #[cfg(feature = "simulation")]
    #[test]
    fn dev_simulates_only_what_it_builds() {
        assert!(Cli::try_parse_from(["pilothouse", "dev", "--build", "d", "--sim"]).is_ok());
        assert!(Cli::try_parse_from(["pilothouse", "dev", "--sim"]).is_err());
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
             --webhooks false --controllers *,-job --stages s.yaml --record d",
            "pilothouse run --record d,last=5,secrets=plain --shadow a=b.wasm --shadow c=d.wasm,e=f.wasm",
            "pilothouse run --plugins p --kubeconfig k --context c --config f --listen 127.0.0.1:1 --grants explicit --cache-dir c --allowed-hosts a.example --log-format json",
            "pilothouse apiserver --listen 127.0.0.1:1 --kubeconfig-out k --authorization always-allow --insecure-http --allowed-hosts a --webhooks true --controllers none --stages s.yaml \
             --enable-admission-plugins ServiceAccount --disable-admission-plugins PodSecurity,Priority",
            "pilothouse apiserver --tls-cert-file c --tls-private-key-file k --client-ca-file a",
            "pilothouse envtest d",
            "pilothouse new greeter --lang js --group example.com --kind Greeting",
            "pilothouse new . --lang js --empty",
            "pilothouse sdk update d",
            "pilothouse abi --format c",
            "pilothouse build d -o a.wasm",
            "pilothouse test d --scenario a.yaml --scenario b.yaml --run a* -o junit --cache-dir c",
            "pilothouse test d --no-sim",
            "pilothouse test d --sim-seeds 7",
            "pilothouse sim a.wasm b.wasm --scenario s.yaml --seeds 10 --seed 0x51f2 --strategy plans,random --faults crash,5xx --guarantees none \
             --upgrade c.wasm --no-shrink --threads 2 --traces d -o json",
            "pilothouse sim a.wasm --objects d --time 30s --faults none -o junit",
            "pilothouse sim d --seeds 10 --time 30s",
            "pilothouse sim a.wasm --replay finding-1.trace",
            "pilothouse sim a.wasm --check-determinism",
            "pilothouse sim a.wasm --seeds 10 --hashes f",
            "pilothouse sim a.wasm --recording d",
            "pilothouse sim --diff old.wasm new.wasm --scenario s.yaml",
            "pilothouse sim --rules",
            "pilothouse check a.wasm --json --kubeconfig k --crds d",
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
            "pilothouse promote sample --server http://127.0.0.1:1",
            "pilothouse completions bash",
        ] {
            if !line.split(' ').nth(1).is_some_and(is_left_out) {
                Cli::try_parse_from(line.split(' ')).expect(line);
            }
        }
    }
}
