//! `cargo xtask conformance`: compares the embedded API server with kube-apiserver.
//!
//! The cases and the comparison are a test of `host/apiserver`. This command builds and starts the kube-apiserver. Without one, the test uses
//! the answers that were recorded from it.

mod server;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub(crate) use self::server::KubeApiServer;
use crate::{cargo, tools};

/// The test that runs the cases on both servers.
const CASES: &str = "answers_are_those_of_a_running_kube_apiserver";
/// The test that runs random scripts on both servers.
const SCRIPTS: &str = "random_scripts_have_the_answers_of_a_running_kube_apiserver";
/// The first seed of the scripts that are not recorded.
const FIRST_SEED: u64 = 1000;
/// The number of recorded scripts.
const RECORDED_SCRIPTS: u64 = 40;

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build kube-apiserver if it was not built before, which takes up to half an hour. Needs Go.
    #[arg(long)]
    build: bool,
    /// Record the answers of kube-apiserver, which the tests replay, in place of comparing them. Implies --build.
    #[arg(long)]
    record: bool,
    /// Run only the cases whose name contains this text.
    #[arg(long, conflicts_with = "record")]
    only: Option<String>,
    /// Number of random scripts.
    #[arg(long, default_value_t = 100)]
    scripts: u64,
    /// Seed of the first random script.
    #[arg(long, default_value_t = FIRST_SEED)]
    seed: u64,
}

/// Runs the cases and the random scripts.
///
/// # Errors
/// Errors if the kube-apiserver cannot be built or started, or if the servers differ in an unexpected way.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let program = match arguments.build || arguments.record {
        true => Some(tools::KUBE_APISERVER.install(root)?),
        false => tools::KUBE_APISERVER.installed(root)?,
    };
    let Some(program) = program else {
        println!(
            "conformance: no kube-apiserver was built on this machine: comparing with its RECORDED answers, without random scripts; \
             `cargo xtask conformance --build` compares with a running one"
        );
        return test(root, arguments, &["--nocapture"], &[]);
    };
    let server = KubeApiServer::start(&root.join("target/conformance"), &program)?;
    let kubeconfig = server.kubeconfig();
    let kubeconfig = kubeconfig.to_str().context("the path of the kubeconfig is not UTF-8")?;
    let (seed, scripts) =
        if arguments.record { (0, RECORDED_SCRIPTS) } else { (arguments.seed, arguments.scripts) };
    let (seed, scripts) = (seed.to_string(), scripts.to_string());
    let mut variables = vec![
        ("PILOTHOUSE_CONFORMANCE_KUBECONFIG", kubeconfig),
        ("PILOTHOUSE_CONFORMANCE_SEED", &seed),
        ("PILOTHOUSE_CONFORMANCE_SCRIPTS", &scripts),
    ];
    if arguments.record {
        variables.push(("PILOTHOUSE_CONFORMANCE_RECORD", "1"));
    }
    // Both run and report, whatever the first one finds.
    let mut problems = Vec::new();
    for name in [SCRIPTS, CASES] {
        println!("conformance: {name}");
        let flags = ["--ignored", "--exact", "--nocapture", name];
        if let Err(error) = test(root, arguments, &flags, &variables) {
            problems.push(format!("{name}: {error:#}"));
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

fn test(root: &Path, arguments: &Arguments, flags: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let mut command: Command = cargo::cargo();
    command
        .current_dir(root)
        .args(["test", "--locked", "--package", "pilothouse-apiserver", "--test", "conformance", "--"])
        .args(flags)
        .envs(variables.iter().copied());
    if let Some(only) = &arguments.only {
        command.env("PILOTHOUSE_CONFORMANCE_ONLY", only);
    }
    let status = command.status().context("start cargo to run the cases")?;
    ensure!(status.success(), "the servers differ, or a case could not run (see above): {status}");
    Ok(())
}
