//! `cargo xtask prometheus`: tests the alerts and dashboards with a real Prometheus.
//!
//! `promtool` runs the unit tests of the alerts. Then Prometheus scrapes a host at work: every query of the dashboards must return data
//! ([`panels`]), and exemplars must name traces ([`exemplars`]). Last, hosts run into every kind of trouble, and every alert must fire
//! ([`chaos`]). What is not installed is left out with a line that says so.

mod chaos;
mod exemplars;
mod panels;
mod server;
mod shorten;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use self::exemplars::Receiver;
use self::server::{Prometheus, Target};
use crate::demo::{Api, Dev};
use crate::{guests, host, monitoring};

/// The plugin of the host at work.
const PLUGIN: &str = "sample-controller";
/// A plugin of the chaos run.
const CHAOS_PLUGIN: &str = "conformance";

/// Options of `cargo xtask prometheus`.
#[derive(Debug, Args)]
pub(crate) struct PrometheusArguments {
    /// `pilothouse`. By default, it is built.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    /// Run only this part, besides `promtool`.
    #[arg(long, value_enum)]
    only: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Scrape a host at work: the queries of the dashboards return data, and exemplars name traces.
    Panels,
    /// Run hosts into trouble until each alert has fired.
    Chaos,
}

/// Runs all tests for which the programs are installed, with a program that was built before.
///
/// # Errors
/// Errors if a test fails.
pub(crate) fn test_built(root: &Path, pilothouse: &Path) -> Result<()> {
    run(root, &PrometheusArguments { host: Some(pilothouse.to_owned()), only: None })
}

/// Runs the tests that the arguments select and for which the programs are installed.
///
/// # Errors
/// As [`test_built`].
pub(crate) fn run(root: &Path, arguments: &PrometheusArguments) -> Result<()> {
    if !is_installed("promtool") {
        println!(
            "prometheus: promtool is not installed (Debian: apt install prometheus); its tests are left out"
        );
        return Ok(());
    }
    promtool(root, &["check", "rules", monitoring::ALERTS])?;
    promtool(root, &["test", "rules", monitoring::ALERT_TESTS])?;
    if !is_installed("prometheus") {
        println!("prometheus: prometheus is not installed; no host is scraped");
        return Ok(());
    }
    let binary = host::given_or_built(root, arguments.host.as_deref())?;
    if arguments.only != Some(Part::Chaos) {
        scrape_host_at_work(root, &binary)?;
    }
    if arguments.only != Some(Part::Panels) {
        if !chaos::is_possible() {
            println!(
                "prometheus: bubblewrap is not installed (Debian: apt install bubblewrap); the chaos run is left out"
            );
            return Ok(());
        }
        let conformance = build_guest(root, CHAOS_PLUGIN)?;
        chaos::run(root, &binary, &conformance, &empty_folder(root, "chaos")?)?;
        println!("prometheus: every alert has fired, except those whose reason the table has");
    }
    Ok(())
}

fn scrape_host_at_work(root: &Path, binary: &Path) -> Result<()> {
    let plugin = build_guest(root, PLUGIN)?;
    let folder = empty_folder(root, "prometheus")?;
    fs::copy(&plugin, folder.join(format!("plugins/{PLUGIN}.wasm")))
        .with_context(|| format!("copy {}", plugin.display()))?;
    let receiver = Receiver::start()?;
    let flags = ["--trace-endpoint", &receiver.endpoint(), "--trace-ratio", "1"];
    let dev = Dev::start_with(binary, &folder, &flags)?;
    let manifest = root.join("examples/sample-controller/manifests/foo.yaml");
    let manifest = fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
    let server = Api::of_kubeconfig(&dev.kubeconfig)?;
    // The CRD is served once the plugin has brought it.
    server.wait("the kind Foo", |server| Ok(server.apply(panels::FOO, &manifest).ok()))?;
    let target = Target { status: &dev.status, host: "dev" };
    let prometheus = Prometheus::start(&folder, &root.join(monitoring::ALERTS), &[target])?;
    panels::wait_for_data(&prometheus, &server)?;
    prometheus.wait_for_rules()?;
    println!("prometheus: every query of the dashboards returned data, and every alert was evaluated");
    exemplars::wait_for_traces(&prometheus, &receiver)?;
    dev.stop()
}

fn build_guest(root: &Path, name: &str) -> Result<PathBuf> {
    let built = guests::build(root, &[name], || anyhow::bail!("{name} is not written in Rust"))?;
    Ok(built.into_iter().next().context("no plugin was built")?.wasm)
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn promtool(root: &Path, arguments: &[&str]) -> Result<()> {
    let status =
        Command::new("promtool").current_dir(root).args(arguments).status().context("start promtool")?;
    ensure!(status.success(), "promtool {} failed (see above)", arguments.join(" "));
    Ok(())
}

/// Creates an empty folder for this run, with a folder `plugins` in it.
fn empty_folder(root: &Path, name: &str) -> Result<PathBuf> {
    let folder = root.join("target").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let plugins = folder.join("plugins");
    fs::create_dir_all(&plugins).with_context(|| format!("create {}", plugins.display()))?;
    Ok(folder)
}
