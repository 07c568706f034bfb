//! The development commands of this repository: `cargo xtask demo`, `cargo xtask test` and others.
//!
//! The program is compiled in up to three forms. Without features, it depends on almost nothing and compiles in seconds: it is what the alias
//! `cargo xtask` starts, and it starts one of the other forms ([`launcher`]). With the feature `demo`, it runs the steps of the demo. With the
//! feature `full`, it has all commands.

#[cfg(feature = "full")]
mod api;
#[cfg(feature = "full")]
mod bench;
#[cfg(feature = "full")]
mod bindings;
mod cargo;
#[cfg(feature = "full")]
mod catalogue;
#[cfg(feature = "full")]
mod chart;
#[cfg(feature = "full")]
mod checkout;
#[cfg(feature = "full")]
mod cli;
#[cfg(feature = "full")]
mod collector;
#[cfg(feature = "full")]
mod conformance;
#[cfg(feature = "full")]
mod container;
#[cfg(feature = "full")]
mod delivery;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "full")]
mod determinism;
#[cfg(feature = "full")]
mod documented_paths;
#[cfg(feature = "full")]
mod documented_tests;
#[cfg(feature = "full")]
mod excerpts;
#[cfg(feature = "full")]
mod features;
#[cfg(feature = "full")]
mod fuzz;
#[cfg_attr(
    not(feature = "full"),
    allow(dead_code, unused_imports, reason = "the other commands use all of it")
)]
mod guests;
#[cfg(feature = "full")]
mod host;
#[cfg(feature = "full")]
mod hostile;
#[cfg(feature = "full")]
mod http_server;
#[cfg(feature = "full")]
mod languages;
#[cfg_attr(feature = "demo", allow(dead_code, reason = "only the form without features launches others"))]
mod launcher;
#[cfg(feature = "full")]
mod loopback;
#[cfg(feature = "full")]
mod monitoring;
#[cfg(feature = "full")]
mod mutants;
#[cfg(feature = "full")]
mod page_test;
#[cfg(feature = "full")]
mod peers_tests;
#[cfg(feature = "full")]
mod planted;
#[cfg(feature = "full")]
mod prometheus;
#[cfg(feature = "full")]
mod registries;
#[cfg(feature = "full")]
mod release;
#[cfg(feature = "full")]
mod requirements;
#[cfg(feature = "full")]
mod run_hashes;
#[cfg(feature = "full")]
mod running_host;
#[cfg(feature = "full")]
mod soak;
#[cfg(feature = "full")]
mod test;
#[cfg(feature = "full")]
mod test_clients;
#[cfg(feature = "full")]
mod tidy;
#[cfg(feature = "full")]
mod tools;
#[cfg(feature = "full")]
mod vocabulary;
#[cfg(feature = "full")]
mod wit;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&root()) {
        Ok(code) => code,
        Err(error) => {
            // `{:#}` prints the chain of causes without a backtrace into xtask.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "full")]
fn run(root: &Path) -> anyhow::Result<ExitCode> {
    cli::run(root).map(|()| ExitCode::SUCCESS)
}

#[cfg(all(feature = "demo", not(feature = "full")))]
fn run(root: &Path) -> anyhow::Result<ExitCode> {
    demo::run_from_command_line(root).map(|()| ExitCode::SUCCESS)
}

#[cfg(not(feature = "demo"))]
fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    launcher::run(root, &arguments)
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    // `cargo run` says where the package is. The path of the compilation is that of another checkout if both have one target directory.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map_or_else(|| xtask.clone(), Path::to_path_buf)
}
