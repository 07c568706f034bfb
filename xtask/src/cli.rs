//! The command line of all commands.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{
    api, bench, bindings, catalogue, chart, collector, conformance, container, delivery, demo, fuzz, guests,
    host, hostile, languages, monitoring, mutants, page_test, peers_tests, planted, prometheus, registries,
    release, run_hashes, soak, test, tidy, wit,
};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development commands of this repository")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the host and a plugin, and show the plugin at work on the embedded API server.
    Demo(demo::Arguments),
    /// Run all tests: guests, host, end to end.
    Test {
        /// Also run the tests that need programs of others (xtask/src/tools.rs), which are built from published Go modules. Fails if a program
        /// is missing that it does not build.
        #[arg(long)]
        full: bool,
    },
    /// Build the example plugins.
    BuildGuests {
        /// Names of the examples to build; all by default.
        packages: Vec<String>,
        /// Build with the profile `small`, which users ship, into `examples/target/guests/small`. Rust examples only.
        #[arg(long, requires = "packages")]
        small: bool,
    },
    /// Mutation testing: insert known faults into a copy of the informer, one at a time, and check that its tests fail.
    Mutants {
        /// Test only mutants whose name contains this text.
        only: Option<String>,
    },
    /// Run the long tests in release mode: the informer's convergence over many seeds, a stuck subscriber over a million events, and
    /// a thousand reloads under load.
    Soak {
        /// Number of seeds for the convergence test.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
    },
    /// Fuzz the parsers of untrusted input: no input may cause a panic, a hang or an error message of several lines.
    Fuzz {
        /// Target: loader, sidecar, descriptor, selector, predicate, json_path, object or imports. By default, all in turn.
        target: Option<String>,
        /// Duration per target in seconds.
        #[arg(long, default_value_t = 600)]
        seconds: u64,
    },
    /// Run the attack tests (`tests/e2e/hostile`) in release mode, then most attacks at once next to a healthy plugin.
    Hostile {
        /// Duration of the combined attacks in seconds.
        #[arg(long, default_value_t = 300)]
        seconds: u64,
    },
    /// Simulate both twins of every bug in examples/catalogue: each wrong one must be found, and no right one reported.
    Catalogue(catalogue::Arguments),
    /// Export findings in the catalogue's wrong twins, and provoke them on a real kube-apiserver. Needs Python 3 and kubectl.
    Exported(catalogue::exported::Arguments),
    /// Insert each bug of examples/catalogue/planted/bugs.yaml into a copy of the host: `pilothouse sim` must find it within a minute, with a
    /// correct plugin.
    Planted(planted::Arguments),
    /// Compare the hashes of simulated runs between a debug and a release build, and between one and two threads.
    Determinism(run_hashes::Arguments),
    /// Benchmark Pilothouse against its peers, and write bench/REPORT.md, bench/results and the figures of README.md.
    Bench {
        /// Run small workloads without writing a report: checks that everything runs and that the ratios point the right way.
        #[arg(long)]
        quick: bool,
        /// Run only this benchmark and update its section of bench/REPORT.md. With --quick, wasm and density are not available.
        #[arg(long, value_enum)]
        only: Option<bench::Benchmark>,
        /// Measure nothing, and only write the figures of the last runs into README.md.
        #[arg(long, conflicts_with_all = ["quick", "only"])]
        readme: bool,
    },
    /// Benchmark the embedded API server beside kube-apiserver with etcd, which is built if it was not built before (up to half an hour).
    /// Needs Go. Writes a section of bench/REPORT.md and bench/results/test-server.json.
    TestserverBench(bench::test_server::Arguments),
    /// Count the instructions of the hot paths with valgrind and compare them with bench/instructions.json, and those of a reconcile with and
    /// without tracing.
    Instructions(bench::instructions::InstructionsArguments),
    /// Compare the public API of the published crates with host/*/public-api.txt.
    Api {
        /// Update the snapshots instead of comparing.
        #[arg(long)]
        update: bool,
    },
    /// Render deploy/manifests from the Helm chart, and write the table of its values into its README.
    Chart {
        /// Test the chart instead, as `test --full` does.
        #[arg(long)]
        test: bool,
        /// Test with this `pilothouse` instead of building one.
        #[arg(long, value_name = "FILE", requires = "test")]
        host: Option<PathBuf>,
    },
    /// Run the host in a container (bubblewrap) as the chart says, and check that its permissions are exact: none is missing, and each is used.
    ContainerTest(container::ContainerTestArguments),
    /// Compare the embedded API server with kube-apiserver: the cases of host/apiserver/tests/conformance, and random scripts.
    Conformance(conformance::Arguments),
    /// Run the test suites of controller-runtime, the Gateway API, kube-rs and helm on the embedded API server, apply the manifests of other
    /// projects, and compare the outcomes with xtask/peers-tests.yaml. Needs Go and kubectl.
    PeersTests(peers_tests::Arguments),
    /// Generate the committed bindings of the C and Go SDKs from `wit/`.
    Bindings,
    /// Generate the Grafana dashboards of the chart (deploy/chart/files/dashboards).
    Dashboards,
    /// Test the alerts and dashboards with Prometheus, as far as it is installed: a host at work, and hosts in trouble until each alert has fired.
    Prometheus(prometheus::PrometheusArguments),
    /// Send the traces of a host to an OpenTelemetry collector, which is built from published Go modules, and check the tree of spans.
    TracingTest(collector::TracingTestArguments),
    /// Push the chart, and push, sign, verify and run a plugin with two registries and cosign, which are built from published Go modules.
    Registries(registries::RegistriesArguments),
    /// Test the status page in Chromium, which must be on PATH or named by PILOTHOUSE_CHROMIUM. Needs Node.js.
    PageTest(page_test::PageTestArguments),
    /// Measure the cost of each guest language and write docs/languages.md.
    Languages,
    /// Generate docs/wit.md from the comments in `wit/`.
    WitDoc,
    /// Build `pilothouse` for delivery into `target/dist`, with symbols and debug lines in a separate file.
    Release,
    /// Write the archives of a release for this machine's platform: the program, completion scripts, man pages, SBOM.
    Dist(delivery::DistArguments),
    /// Write a container image for this machine's platform as an OCI image layout.
    Image(delivery::ImageArguments),
    /// Combine the image layouts of several platforms into one.
    ImageIndex(delivery::IndexArguments),
    /// Package the Helm chart with the version of Cargo.toml. Builds helm if it is missing.
    PackageChart(delivery::PackageChartArguments),
    /// Push the packaged Helm chart to an OCI registry, and compare what the registry returns. Builds helm if it is missing.
    PushChart(delivery::PushChartArguments),
    /// Write SHA256SUMS for the files of a folder.
    Checksums {
        /// Folder with the files of a release.
        folder: PathBuf,
    },
    /// Run checks beyond compiler and clippy: retired names, dependency directions, generated files, documentation.
    Tidy,
}

/// Runs the command that the process's arguments name. Exits with code 2 if they are invalid.
///
/// # Errors
/// Errors if the command fails.
pub(crate) fn run(root: &Path) -> Result<()> {
    run_command(root, Cli::parse().command)
}

fn run_command(root: &Path, command: Command) -> Result<()> {
    match command {
        Command::Demo(arguments) => demo::run(root, &arguments),
        Command::Test { full } => test::run(root, full),
        Command::BuildGuests { packages, small } => {
            let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
            let built = match small {
                true => guests::build_small(root, &packages)?,
                false => guests::build(root, &packages, || host::build(root))?,
            };
            for guest in built {
                println!("{}: {}", guest.name, guest.wasm.display());
            }
            Ok(())
        }
        Command::Mutants { only } => mutants::run(root, only.as_deref()),
        Command::Soak { seeds } => soak::run(root, seeds),
        Command::Fuzz { target, seconds } => fuzz::run(root, target.as_deref(), seconds),
        Command::Hostile { seconds } => hostile::run(root, seconds),
        Command::Catalogue(arguments) => catalogue::run(root, &arguments),
        Command::Exported(arguments) => catalogue::exported::run(root, &arguments),
        Command::Planted(arguments) => planted::run(root, &arguments),
        Command::Determinism(arguments) => run_hashes::run(root, &arguments),
        Command::Bench { readme: true, .. } => bench::documents::update(root),
        Command::Bench { quick, only, .. } => bench::run(root, quick, only),
        Command::TestserverBench(arguments) => bench::test_server::run(root, &arguments),
        Command::Instructions(arguments) => bench::instructions::run(root, &arguments),
        Command::Api { update } => api::run(root, update),
        Command::Chart { test: true, host } => chart::build_and_test(root, host.as_deref()),
        Command::Chart { test: false, .. } => chart::run(root),
        Command::ContainerTest(arguments) => container::run(root, &arguments),
        Command::Conformance(arguments) => conformance::run(root, &arguments),
        Command::PeersTests(arguments) => peers_tests::run(root, &arguments),
        Command::Bindings => bindings::run(root),
        Command::Dashboards => monitoring::run(root),
        Command::Registries(arguments) => registries::run(root, &arguments),
        Command::Prometheus(arguments) => prometheus::run(root, &arguments),
        Command::TracingTest(arguments) => collector::run(root, &arguments),
        Command::PageTest(arguments) => page_test::run(root, &arguments),
        Command::Languages => languages::run(root),
        Command::WitDoc => wit::write_document(root),
        Command::Dist(arguments) => delivery::dist(root, &arguments),
        Command::Image(arguments) => delivery::image(root, &arguments),
        Command::ImageIndex(arguments) => delivery::image_index(&arguments),
        Command::PackageChart(arguments) => delivery::package_chart(root, &arguments),
        Command::PushChart(arguments) => delivery::push_chart(root, &arguments),
        Command::Checksums { folder } => delivery::checksums(&folder),
        Command::Release => release::run(root),
        Command::Tidy => tidy::run(root),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_the_workflows_are_valid() {
        let release = include_str!("../../.github/workflows/release.yaml");
        let peers_tests = include_str!("../../.github/workflows/peers-tests.yaml");
        let lines = release.lines().chain(peers_tests.lines());
        let commands = lines.filter_map(|line| line.split_once("cargo xtask "));
        let commands: Vec<&str> = commands.map(|(_, command)| command).collect();
        assert_eq!(commands.len(), 9, "{commands:?}");
        for command in commands {
            if let Err(error) = Cli::try_parse_from(["xtask"].into_iter().chain(command.split_whitespace())) {
                panic!("{command}: {error}");
            }
        }
    }
}
