//! The commands for plugin authors that need an embedded API server, a template or a compiler.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use pilothouse_toolchain::Language;

use super::embedded_server::{
    AdmissionFlags, Authorization, ControllerFlags, DataAndFaults, KubernetesVersion, Webhooks,
};
#[cfg(feature = "simulation")]
use super::simulation::Sim;
use super::{
    AllowedHosts, CacheFlags, CompilerMode, DEFAULT_PLUGINS, DefaultGrants, TestHooks, listen_address,
};

// Without a doc comment, because clap would take it for the description of the whole program.
#[derive(Debug, Subcommand)]
pub(crate) enum DeveloperCommand {
    /// Run plugins against an embedded API server in the same process.
    Dev(Box<Dev>),
    /// Create a project: a working controller with a test.
    New(New),
    /// Build a project in any supported language into a plugin.
    Build(Build),
    /// Run a plugin's scenarios, each against an embedded API server of its own, and its simulations.
    Test(Test),
    /// Search for errors of plugins in simulated clusters, with crashes, late watches and lost answers.
    #[cfg(feature = "simulation")]
    Sim(Box<Sim>),
    /// Manage a project's copy of the SDK.
    #[command(subcommand)]
    Sdk(Sdk),
    /// Print the functions and types of the contract for modules that are written without an SDK.
    Abi(Abi),
}

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Build this project into the plugins directory, and rebuild it whenever a source file changes.
    #[arg(long, env = "PILOTHOUSE_BUILD", value_name = "DIR")]
    pub(crate) build: Option<PathBuf>,
    /// Simulate the project after each build, in the background and with a small budget.
    #[cfg(feature = "simulation")]
    #[arg(long, env = "PILOTHOUSE_SIM", requires = "build")]
    pub(crate) sim: bool,
    /// Directory with the plugins to run (.wasm files).
    #[arg(long, env = "PILOTHOUSE_PLUGINS", default_value = DEFAULT_PLUGINS, value_name = "DIR")]
    pub(crate) plugins: PathBuf,
    /// Apply the manifests in this folder to the embedded API server at the start.
    #[arg(long, env = "PILOTHOUSE_APPLY", value_name = "DIR")]
    pub(crate) apply: Option<PathBuf>,
    /// Write a kubeconfig for the embedded API server to this file.
    #[arg(
        long,
        env = "PILOTHOUSE_KUBECONFIG_OUT",
        default_value = ".pilothouse/kubeconfig",
        value_name = "FILE"
    )]
    pub(crate) kubeconfig_out: PathBuf,
    /// Address on which to serve health, metrics, status and logs; port 0 selects a free port.
    #[arg(
        long,
        env = "PILOTHOUSE_LISTEN",
        default_value = "127.0.0.1:9464",
        value_name = "ADDR",
        value_parser = listen_address::parse
    )]
    pub(crate) listen: SocketAddr,
    /// Address of the embedded API server; port 0 selects a free port.
    #[arg(
        long,
        env = "PILOTHOUSE_API_LISTEN",
        default_value = "127.0.0.1:0",
        value_name = "ADDR",
        value_parser = listen_address::parse
    )]
    pub(crate) api_listen: SocketAddr,
    /// Authorization mode of the embedded API server.
    #[arg(long, env = "PILOTHOUSE_AUTHORIZATION", value_enum, default_value = "always-allow")]
    pub(crate) authorization: Authorization,
    /// Default grants: what a plugin may access when its sidecar does not say.
    #[arg(long, env = "PILOTHOUSE_GRANTS", value_enum, value_name = "MODE")]
    pub(crate) grants: Option<DefaultGrants>,
    /// Serve the API over plain HTTP instead of TLS. With always-allow, clients need no credentials either.
    #[arg(long, env = "PILOTHOUSE_INSECURE_HTTP")]
    pub(crate) insecure_http: bool,
    #[command(flatten)]
    pub(crate) version: KubernetesVersion,
    #[command(flatten)]
    pub(crate) hosts: AllowedHosts,
    #[command(flatten)]
    pub(crate) controllers: ControllerFlags,
    #[command(flatten)]
    pub(crate) cache: CacheFlags,
    /// Compiler of plugins.
    #[arg(long, env = "PILOTHOUSE_COMPILER", value_enum, value_name = "MODE", default_value = "quick")]
    pub(crate) compiler: CompilerMode,
    #[cfg(feature = "traces")]
    #[command(flatten)]
    pub(crate) traces: super::traces::TraceFlags,
    #[command(flatten)]
    pub(crate) recording: super::record::RecordFlags,
    #[command(flatten)]
    pub(crate) shadows: super::shadow::ShadowFlags,
    #[command(flatten)]
    pub(crate) webhooks: Webhooks,
    #[command(flatten)]
    pub(crate) admission: AdmissionFlags,
    #[command(flatten)]
    pub(crate) test: TestHooks,
    #[command(flatten)]
    pub(crate) data: DataAndFaults,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// Name of the plugin and of the folder to create: lower-case letters, digits and '-'. `.` for the current folder, which must be empty.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Language of the project.
    #[arg(long, env = "PILOTHOUSE_LANG", value_parser = language_parser())]
    pub(crate) lang: Language,
    /// API group of the project's custom resource. By default, NAME.example.com.
    #[arg(long, env = "PILOTHOUSE_GROUP", conflicts_with = "empty")]
    pub(crate) group: Option<String>,
    /// Kind of the project's custom resource. By default, Foo.
    #[arg(long, env = "PILOTHOUSE_KIND", conflicts_with = "empty")]
    pub(crate) kind: Option<String>,
    /// Create a project without a custom resource, which only watches ConfigMaps.
    #[arg(long, env = "PILOTHOUSE_EMPTY")]
    pub(crate) empty: bool,
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
pub(crate) struct Test {
    /// Folder of the project, which is built, or the plugin's .wasm file. A sidecar next to the plugin is applied.
    #[arg(value_name = "DIR|FILE.wasm", default_value = ".")]
    pub(crate) plugin: PathBuf,
    /// Run this scenario; can be repeated. By default, those in the folder `scenarios` of the project or beside the plugin.
    #[arg(long, env = "PILOTHOUSE_SCENARIO", value_name = "FILE")]
    pub(crate) scenario: Vec<PathBuf>,
    /// Run only the scenarios and simulations of this name. `*` stands for any text.
    #[arg(long, env = "PILOTHOUSE_RUN", value_name = "NAME")]
    pub(crate) run: Option<String>,
    /// Leave the simulations out: those in the folder `simulations`, which run unless --scenario is given.
    #[arg(long, env = "PILOTHOUSE_NO_SIM")]
    pub(crate) no_sim: bool,
    /// Number of runs of each simulation. By default 200, and at most 10 seconds.
    #[arg(long, env = "PILOTHOUSE_SIM_SEEDS", value_name = "N", conflicts_with = "no_sim", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sim_seeds: Option<u64>,
    /// Format of the results.
    #[arg(long, short, env = "PILOTHOUSE_OUTPUT", value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) output: TestOutput,
    /// Directory in which to cache compiled plugins. By default, `pilothouse` in $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, env = "PILOTHOUSE_CACHE_DIR", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Compiler of plugins.
    #[arg(long, env = "PILOTHOUSE_COMPILER", value_enum, value_name = "MODE", default_value = "quick")]
    pub(crate) compiler: CompilerMode,
}

/// The format of the results of `test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestOutput {
    /// A line for each scenario, and the reasons of failures.
    Text,
    /// An XML document for CI systems.
    Junit,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sdk {
    /// Replace the folder sdk of a project by the SDK of this pilothouse.
    Update(SdkUpdate),
}

#[derive(Debug, Args)]
pub(crate) struct SdkUpdate {
    /// Folder of the project.
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Abi {
    /// Form of the output.
    #[arg(long, env = "PILOTHOUSE_FORMAT", value_enum, default_value = "table")]
    pub(crate) format: AbiForm,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum AbiForm {
    /// A table for people.
    Table,
    /// A header for C99 and C++, which needs no C library.
    C,
}
