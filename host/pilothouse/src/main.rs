//! `pilothouse`: a WebAssembly host for Kubernetes controller logic.

mod build;
mod checking;
mod cli;
mod cluster;
mod commands;
mod http;
mod logging;
mod output;
mod shutdown;
mod template;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

/// Objects are allocated by the task that reads a watch and freed by whoever used them last. The system's allocator makes the two wait
/// for each other; this one does not, and gives back what is free while nobody allocates. See `docs/decisions/0011-allocator.md`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Why a command ended badly, by exit code.
#[derive(Debug)]
pub(crate) enum Failed {
    /// 1: what was asked for did not succeed.
    Work(String),
    /// 2: the way it was asked for is wrong: a flag, a file, a configuration.
    Usage(String),
}

/// What commands return; the text of a failure is one line.
pub(crate) type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    // Bad flags end here, with exit code 2 and clap's text.
    let cli = Cli::parse();
    logging::start(cli.log_format, &cli.log_level);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return end(Err(Failed::Work(format!("the async runtime cannot be started: {error}")))),
    };
    let outcome = runtime.block_on(run(cli));
    // A guest that computes, or a file that is being compiled, must not hold the exit up.
    runtime.shutdown_background();
    end(outcome)
}

async fn run(cli: Cli) -> Outcome {
    match cli.command {
        Command::Dev(flags) => commands::dev::run(flags).await,
        Command::Run(flags) => commands::run::run(flags).await,
        Command::Apiserver(flags) => commands::apiserver::run(flags).await,
        Command::New(flags) => commands::new::run(&flags),
        Command::Build(flags) => commands::build::run(flags).await,
        Command::Check(flags) => commands::check::run(flags).await,
        Command::Rbac(flags) => commands::rbac::run(flags).await,
        Command::Status(flags) => commands::status::run(flags).await,
        Command::Logs(flags) => commands::logs::run(flags).await,
        Command::Compile(flags) => commands::compile::run(&flags),
    }
}

fn end(outcome: Outcome) -> ExitCode {
    let (code, text) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failed::Work(text)) => (1, text),
        Err(Failed::Usage(text)) => (2, text),
    };
    eprintln!("error: {}", output::Shown(&text));
    ExitCode::from(code)
}
