//! `cargo xtask peers-tests`: runs the test suites of other projects on the embedded API server.
//!
//! The sources are those that the projects publish, unmodified: Go modules and Rust crates. xtask/peers-tests.yaml has the number of tests that pass
//! on kube-apiserver and lists the tests that do not pass on the embedded server. The list may only shrink.

mod expectations;
mod ginkgo;
mod go;
mod go_events;
mod helm;
mod kube_rs;
mod libtest;
mod manifests;
mod outcome;
mod server;
mod suites;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::expectations::{Expectation, Expectations, FILE};
use self::outcome::{Outcomes, ServerKind};
use self::server::TestServer;
use self::suites::{SUITES, Suite, Tests};
use crate::{host, tools};

/// The folder for sources and reports, in the repository.
const FOLDER: &str = "target/peers-tests";

/// The options of the command.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Run only the suites whose name contains this text.
    #[arg(long)]
    only: Option<String>,
    /// Use this `pilothouse` instead of building one.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    /// Run the suites on a kube-apiserver, which is built the first time, and compare the outcomes with those that the list says. Leaves out helm and
    /// kube-rs.
    #[arg(long, conflicts_with_all = ["host", "controllers"])]
    kube_apiserver: bool,
    /// Run the suites with these built-in controllers, in place of their own.
    #[arg(long, value_name = "LIST")]
    controllers: Option<String>,
    /// Record the answers of kube-apiserver to the suites `manifests` in xtask/peers-manifests. Implies --kube-apiserver.
    #[arg(long, conflicts_with_all = ["host", "controllers"])]
    record: bool,
}

/// The programs that the suites run on.
struct Programs {
    kind: ServerKind,
    /// The embedded server, or kube-apiserver.
    server: PathBuf,
    /// Replaces recorded answers.
    record: bool,
}

/// Runs the suites and prints a line for each.
///
/// # Errors
/// Errors if a program cannot be built or started, or if an outcome is not the expected one.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let expectations = Expectations::read(root)?;
    let only = arguments.only.as_deref().unwrap_or_default();
    let suites: Vec<&Suite> = SUITES.iter().filter(|suite| suite.name.contains(only)).collect();
    ensure!(!suites.is_empty(), "no suite has {only:?} in its name");
    let record = arguments.record;
    let (kind, server) = match &arguments.host {
        _ if arguments.kube_apiserver || record => {
            (ServerKind::KubeApiServer, tools::KUBE_APISERVER.install(root)?)
        }
        Some(host) => (ServerKind::Embedded, absolute(host)?),
        None => (ServerKind::Embedded, host::build(root)?),
    };
    let programs = Programs { kind, server, record };
    let mut problems = 0;
    for suite in suites {
        if programs.kind == ServerKind::KubeApiServer && matches!(suite.tests, Tests::Helm | Tests::KubeRs) {
            println!("peers-tests: {}: NOT run, because it needs controllers", suite.name);
            continue;
        }
        if let Tests::Manifests(project) = &suite.tests
            && !record
            && !project.recorded(root).is_file()
        {
            println!(
                "peers-tests: {}: NOT run, because no answers of kube-apiserver are recorded: use --record",
                suite.name
            );
            continue;
        }
        let controllers = arguments.controllers.as_deref().unwrap_or(suite.controllers);
        problems += run_suite(root, suite, controllers, &programs, expectations.of(suite.name)?)?;
    }
    ensure!(problems == 0, "{problems} outcomes differ from {FILE} (see above)");
    Ok(())
}

/// Runs a suite on a new server and prints the result. Returns the number of problems.
fn run_suite(
    root: &Path,
    suite: &Suite,
    controllers: &str,
    programs: &Programs,
    expectation: &Expectation,
) -> Result<usize> {
    let folder = root.join(FOLDER);
    let report = folder.join("reports").join(suite.name);
    if report.exists() {
        fs::remove_dir_all(&report).with_context(|| format!("remove {}", report.display()))?;
    }
    fs::create_dir_all(&report).with_context(|| format!("create {}", report.display()))?;
    let server = TestServer::start(programs.kind, &programs.server, controllers, &report)?;
    let outcomes = run_tests(&suite.tests, &server, root, &report, programs.record)
        .with_context(|| format!("run the suite {}", suite.name))?;
    drop(server);
    let failures = report.join("failures.txt");
    fs::write(&failures, outcomes.failures()).with_context(|| format!("write {}", failures.display()))?;
    let problems = outcomes.compare(expectation, programs.kind);
    println!(
        "peers-tests: {}: {} of {} tests pass, {} expected differences, {} problems",
        suite.name,
        outcomes.passed(),
        expectation.passed,
        expectation.difference_count(),
        problems.len()
    );
    for problem in &problems {
        println!("  {problem}");
    }
    if !problems.is_empty() {
        println!("  the failures are in {}", failures.display());
    }
    Ok(problems.len())
}

fn run_tests(
    tests: &Tests,
    server: &TestServer,
    root: &Path,
    report: &Path,
    record: bool,
) -> Result<Outcomes> {
    let (kubeconfig, modules) = (server.kubeconfig(), root.join(FOLDER).join("go"));
    match tests {
        Tests::Go(package) => package.run(&kubeconfig, &modules, report),
        Tests::GoWithCrds(package, crds) => {
            server.create_crds(&package.sources(&modules)?.join(crds))?;
            package.run(&kubeconfig, &modules, report)
        }
        Tests::Helm => helm::run(&kubeconfig, report),
        Tests::KubeRs => kube_rs::run(&kubeconfig),
        Tests::Manifests(project) => project.run(server, root, report, record),
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("find {}", path.display()))
}
