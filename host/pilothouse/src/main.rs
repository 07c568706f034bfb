//! The `pilothouse` binary: runs Kubernetes controllers that are compiled to WebAssembly.
//!
//! docs/cli.md lists the Cargo features. A host in production needs neither `embedded-server`, `developer-tools` nor `simulation`.

#[cfg(feature = "jemalloc")]
mod allocator_metrics;
#[cfg(feature = "developer-tools")]
mod build;
mod bundle;
mod cli;
mod cluster;
mod commands;
mod explanation;
mod host_facts;
mod http;
mod input_file;
mod logging;
mod output;
mod plugin_check;
mod preflight;
mod process_facts;
#[cfg(test)]
mod published_schema;
mod shutdown;
mod sizing;
mod startup;
mod summary;
#[cfg(feature = "developer-tools")]
mod template;
#[cfg(feature = "traces")]
mod traces;

use std::process::ExitCode;

use cli::{Cli, Command};

/// jemalloc: objects are allocated by the task that reads a watch and freed on whichever thread used them last. The system allocator
/// makes these threads contend; jemalloc does not, and it returns free memory in the background. See
/// `docs/decisions/0011-allocator.md`.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// An error that ends a command. The variant determines the exit code; the text names what failed, why, and what to do.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// Exit code 1: the command was valid but did not succeed.
    Failure(String),
    /// Exit code 2: a flag, an input file or the configuration is invalid.
    Usage(String),
}

impl CommandError {
    /// Returns the error for `what`, such as a flag, which needs a Cargo feature that this build does not have.
    pub(crate) fn left_out(what: &str, feature: &str) -> Self {
        Self::Usage(format!(
            "this pilothouse was built without {what}, which needs the Cargo feature `{feature}`; use a build with the default \
             features, or build one with `--features {feature}`"
        ))
    }
}

/// The result of a subcommand.
pub(crate) type CommandResult = Result<(), CommandError>;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => return exit_code(Err(error)),
    };
    logging::start(cli.log_format, cli.log_filter());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return exit_code(Err(CommandError::Failure(format!("cannot start the async runtime: {error}"))));
        }
    };
    let result = runtime.block_on(run(cli));
    // Does not wait for blocking tasks: a running guest or a compilation must not delay the exit.
    runtime.shutdown_background();
    exit_code(result)
}

async fn run(cli: Cli) -> CommandResult {
    match cli.command {
        #[cfg(feature = "developer-tools")]
        Command::DeveloperTools(command) => commands::developer_tools::run(command).await,
        Command::Run(flags) => commands::run::run(flags).await,
        #[cfg(feature = "embedded-server")]
        Command::Apiserver(flags) => commands::apiserver::run(flags).await,
        #[cfg(feature = "embedded-server")]
        Command::Envtest(flags) => commands::envtest::run(&flags),
        #[cfg(feature = "embedded-server")]
        Command::Etcd(flags) => commands::envtest::run_etcd(flags).await,
        Command::Check(flags) => commands::check::run(flags).await,
        #[cfg(feature = "registry")]
        Command::Registry(command) => commands::registry::run(command).await,
        Command::Preflight(flags) => Box::pin(commands::preflight::run(flags)).await,
        Command::Size(flags) => Box::pin(commands::size::run(flags)).await,
        Command::Bundle(flags) => Box::pin(commands::bundle::run(flags)).await,
        Command::Show(flags) => commands::show::run(flags).await,
        Command::Rbac(flags) => commands::rbac::run(flags).await,
        Command::Status(flags) => commands::status::run(flags).await,
        Command::Logs(flags) => commands::logs::run(flags).await,
        Command::Keys(flags) => commands::keys::run(flags).await,
        Command::Explain(flags) => commands::explain::run(flags).await,
        Command::Requeue(flags) => commands::control::requeue(flags).await,
        Command::Pause(flags) => commands::control::pause(flags).await,
        Command::Resume(flags) => commands::control::resume(flags).await,
        Command::Rollback(flags) => commands::control::rollback(flags).await,
        Command::Promote(flags) => commands::control::promote(flags).await,
        Command::Completions(flags) => commands::completions::run(&flags),
        Command::ManPages(flags) => commands::completions::write_man_pages(&flags),
        Command::Compile(flags) => commands::compile::run(&flags),
    }
}

/// Prints the error, if any, and returns the exit code.
fn exit_code(result: CommandResult) -> ExitCode {
    let (code, text) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(CommandError::Failure(text)) => (1, text),
        Err(CommandError::Usage(text)) => (2, text),
    };
    eprintln!("error: {}", output::TerminalSafe(&text));
    ExitCode::from(code)
}
