//! `cargo xtask bench`: runs Pilothouse and its peers on the same workloads and writes the report.
//!
//! The machine may be noisy. Every figure is therefore the median of several rounds in which the consumers take turns, and only ratios
//! within one run are meaningful.

mod callgrind;
mod density;
pub(crate) mod documents;
mod end_to_end;
mod figures;
mod ingest;
pub(crate) mod instructions;
mod operation;
mod plot;
mod plugins;
mod process;
mod programs;
mod recording_instructions;
mod report;
mod results;
mod scale;
mod simulation;
pub(crate) mod test_server;
mod tracing_instructions;
mod transport;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use ingest::Ingest;
use operation::Operation;
use plugins::Plugins;
use programs::Programs;
use scale::ScaleResults;
use simulation::Simulations;
use transport::Transport;

/// The size of the workloads.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    objects: usize,
    events: usize,
    rounds: usize,
    /// Number of Foos in the end-to-end run.
    foos: usize,
    /// Number of events in the long run; `None` to skip it.
    long: Option<usize>,
    /// Numbers of objects for the growth curves.
    curve: &'static [usize],
    /// Numbers of plugins for the growth curves.
    plugins: &'static [usize],
    /// Numbers of Pods of 3.5 KB for the growth curves.
    pods: &'static [usize],
    /// Number of informers in one process.
    informers: usize,
    /// Number of distinct plugins that a host compiles at its first start.
    compiled: usize,
    /// Number of runs of a simulation.
    simulations: usize,
}

const FULL: Scale = Scale {
    objects: 20_000,
    events: 200_000,
    rounds: 3,
    foos: 10_000,
    long: Some(10_000_000),
    curve: &[1_000, 10_000, 100_000, 1_000_000],
    plugins: &[1, 10, 100, 1_000],
    pods: &[10_000, 100_000, 1_000_000],
    informers: 1_000,
    compiled: 1_000,
    simulations: 2_000,
};
/// Small workloads that show that everything runs and that the ratios point the right way.
const QUICK: Scale = Scale {
    objects: 2_000,
    events: 10_000,
    rounds: 1,
    foos: 100,
    long: None,
    curve: &[1_000],
    plugins: &[1, 3],
    pods: &[1_000],
    informers: 20,
    compiled: 5,
    simulations: 200,
};

/// A benchmark that can be run separately, because all of them together take an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Benchmark {
    /// Lists and watches, compared with kube-rs and client-go.
    Ingest,
    /// The sample controller, compared with kube-rs and controller-runtime.
    EndToEnd,
    /// Calls through wasm, starts and reloads.
    Wasm,
    /// Plugins that share a watch: latency to the guest, and the cost of many plugins.
    Plugins,
    /// TLS, HTTP/1.1 and HTTP/2, gzip.
    Transport,
    /// Memory of idle plugins.
    Density,
    /// A million Pods, a thousand informers, and the first start of a thousand plugins.
    Scale,
    /// `explain`, the status page, metrics, a support bundle and rollbacks.
    Operation,
    /// Runs of `pilothouse sim` per second and core, and its memory.
    Simulation,
}

const BENCHMARKS: [Benchmark; 9] = [
    Benchmark::Ingest,
    Benchmark::EndToEnd,
    Benchmark::Wasm,
    Benchmark::Plugins,
    Benchmark::Transport,
    Benchmark::Density,
    Benchmark::Scale,
    Benchmark::Operation,
    Benchmark::Simulation,
];

/// Builds the programs, runs the benchmarks and writes `bench/REPORT.md` with its plots, and the results as JSON. With `only`, updates one
/// section. A quick run writes nothing and checks the direction of the ratios.
pub(crate) fn run(root: &Path, quick: bool, only: Option<Benchmark>) -> Result<()> {
    if quick {
        return run_quick(root, only);
    }
    for part in only.map_or(BENCHMARKS.to_vec(), |part| vec![part]) {
        let (section, results) = measure(root, part)?;
        // Writes each section at once, so that results are kept if a later benchmark fails.
        write_section(root, &section)?;
        results::write(root, &results::name(part), &results)?;
    }
    documents::update(root)
}

/// Runs small workloads and checks the direction of the ratios.
fn run_quick(root: &Path, only: Option<Benchmark>) -> Result<()> {
    let wants = |part| only.is_none_or(|only| only == part);
    if wants(Benchmark::Transport) {
        Transport::measure(root, true)?.check_direction()?;
    }
    if only == Some(Benchmark::Transport) {
        return Ok(());
    }
    let programs = Programs::build(root, true, &only.map_or(BENCHMARKS.to_vec(), |part| vec![part]))?;
    if wants(Benchmark::EndToEnd) {
        end_to_end::measure(root, &programs, QUICK.foos)?;
    }
    if wants(Benchmark::Plugins) {
        Plugins::measure(root, &programs, QUICK)?.check_direction()?;
    }
    if wants(Benchmark::Scale) {
        ScaleResults::measure(root, &programs, QUICK)?.check_direction()?;
    }
    if wants(Benchmark::Operation) {
        Operation::measure(root, &programs, QUICK)?;
    }
    if wants(Benchmark::Simulation) {
        Simulations::measure(root, &programs.host, QUICK)?;
    }
    if wants(Benchmark::Ingest) {
        Ingest::measure(&programs, QUICK)?.check_direction()?;
    }
    Ok(())
}

/// Runs a part and draws its plots. Returns its section of the report, and its results.
fn measure(root: &Path, part: Benchmark) -> Result<(String, Value)> {
    Ok(match part {
        Benchmark::Ingest => {
            let ingest = Ingest::measure(&Programs::build(root, false, &[part])?, FULL)?;
            draw(root, report::plots(&ingest))?;
            (report::ingest(&ingest, FULL), results::ingest(&ingest, FULL))
        }
        Benchmark::EndToEnd => {
            let runs = end_to_end::measure(root, &Programs::build(root, false, &[part])?, FULL.foos)?;
            (report::end_to_end(&runs, FULL), results::end_to_end(&runs, FULL))
        }
        Benchmark::Wasm => {
            let figures = figures::wasm(root)?;
            (report::wasm(&figures), json!({"figures": figures}))
        }
        Benchmark::Plugins => {
            let plugins = Plugins::measure(root, &Programs::build(root, false, &[part])?, FULL)?;
            draw(root, plugins::plots(&plugins))?;
            (plugins::section(&plugins), plugins::results(&plugins))
        }
        Benchmark::Transport => {
            let transport = Transport::measure(root, false)?;
            (transport.section()?, transport.results())
        }
        Benchmark::Density => {
            let density = figures::density(root)?;
            (density::section(&density), density)
        }
        Benchmark::Scale => {
            let scale = ScaleResults::measure(root, &Programs::build(root, false, &[part])?, FULL)?;
            draw(root, scale::plots(&scale))?;
            (scale::section(&scale), scale::results(&scale))
        }
        Benchmark::Operation => {
            let operation = Operation::measure(root, &Programs::build(root, false, &[part])?, FULL)?;
            (operation.section(), operation.results())
        }
        Benchmark::Simulation => {
            let programs = Programs::build(root, false, &[part])?;
            let simulations = Simulations::measure(root, &programs.host, FULL)?;
            (simulations.section(), simulations.results())
        }
    })
}

fn draw(root: &Path, plots: Vec<(String, String)>) -> Result<()> {
    let folder = root.join("bench/plots");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    for (name, svg) in plots {
        fs::write(folder.join(&name), svg).with_context(|| format!("write {name}"))?;
    }
    Ok(())
}

/// Adds a section to the report, or replaces it.
fn write_section(root: &Path, section: &str) -> Result<()> {
    let file = root.join("bench/REPORT.md");
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => report::header(),
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    fs::write(&file, report::with_section(&before, section))
        .with_context(|| format!("write {}", file.display()))?;
    println!("bench: wrote {}", file.display());
    Ok(())
}
