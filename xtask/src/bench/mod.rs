//! `cargo xtask bench`: Pilothouse and its peers at the same work in the same run, and the report of it.
//!
//! The machine may be noisy: every figure is the median of several rounds, in which the consumers take turns, and what counts
//! is the ratio to a peer of the same run.

mod end_to_end;
mod figures;
mod ingest;
pub(crate) mod instructions;
mod plot;
mod plugins;
mod process;
mod programs;
mod report;
mod transport;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use ingest::Ingest;
use plugins::Plugins;
use programs::Programs;
use transport::Transport;

/// How much work there is.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    objects: usize,
    events: usize,
    rounds: usize,
    /// Foos of the end-to-end run.
    foos: usize,
    /// Events of the long run.
    long: Option<usize>,
    /// Objects of each point of the curves.
    curve: &'static [usize],
    /// The same, plugins.
    plugins: &'static [usize],
}

const FULL: Scale = Scale {
    objects: 20_000,
    events: 200_000,
    rounds: 3,
    foos: 10_000,
    long: Some(10_000_000),
    curve: &[1_000, 10_000, 100_000, 1_000_000],
    plugins: &[1, 10, 100, 1_000],
};
/// Enough to see that everything runs, and which way the ratios point.
const QUICK: Scale = Scale {
    objects: 2_000,
    events: 10_000,
    rounds: 1,
    foos: 100,
    long: None,
    curve: &[1_000],
    plugins: &[1, 3],
};

/// What is measured by itself: the whole takes an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Lists and watches against kube-rs and client-go.
    Ingest,
    /// The sample controller against kube-rs and controller-runtime.
    EndToEnd,
    /// The way through wasm, starts and reloads.
    Wasm,
    /// Plugins on one watch: latency up to the guest, and what many of them cost.
    Plugins,
    /// TLS, HTTP/1.1 against HTTP/2, and gzip.
    Transport,
    /// Idle plugins.
    Density,
}

const PARTS: [Part; 6] =
    [Part::Ingest, Part::EndToEnd, Part::Wasm, Part::Plugins, Part::Transport, Part::Density];

/// Builds everything, measures, and writes `bench/REPORT.md` with its plots, or one part of it; a quick run writes nothing and
/// checks the direction of the ratios.
pub(crate) fn run(root: &Path, quick: bool, only: Option<Part>) -> Result<()> {
    if quick {
        let wants = |part| only.is_none_or(|only| only == part);
        if wants(Part::Transport) {
            Transport::measure(root, quick)?.check_direction()?;
        }
        if only == Some(Part::Transport) {
            return Ok(());
        }
        let programs = Programs::build(root, quick)?;
        if wants(Part::EndToEnd) {
            end_to_end::measure(root, &programs, QUICK.foos)?;
        }
        if wants(Part::Plugins) {
            Plugins::measure(root, &programs, QUICK)?.check_direction()?;
        }
        if wants(Part::Ingest) {
            Ingest::measure(&programs, QUICK)?.check_direction()?;
        }
        return Ok(());
    }
    for part in only.map_or(PARTS.to_vec(), |part| vec![part]) {
        let section = match part {
            Part::Ingest => {
                let ingest = Ingest::measure(&Programs::build(root, quick)?, FULL)?;
                draw(root, report::plots(&ingest))?;
                report::ingest(&ingest, FULL)
            }
            Part::EndToEnd => {
                let runs = end_to_end::measure(root, &Programs::build(root, quick)?, FULL.foos)?;
                report::end_to_end(&runs, FULL)
            }
            Part::Wasm => report::wasm(&figures::wasm(root)?),
            Part::Plugins => {
                let plugins = Plugins::measure(root, &Programs::build(root, quick)?, FULL)?;
                draw(root, plugins::plots(&plugins))?;
                plugins::section(&plugins)
            }
            Part::Transport => Transport::measure(root, quick)?.section()?,
            Part::Density => report::density(&figures::density(root)?),
        };
        // Each as it comes: what has been measured is not lost when what is still to be measured fails.
        put(root, &section)?;
    }
    Ok(())
}

fn draw(root: &Path, plots: Vec<(String, String)>) -> Result<()> {
    let folder = root.join("bench/plots");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    for (name, picture) in plots {
        fs::write(folder.join(&name), picture).with_context(|| format!("write {name}"))?;
    }
    Ok(())
}

/// Puts a section into the report.
fn put(root: &Path, section: &str) -> Result<()> {
    let file = root.join("bench/REPORT.md");
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => report::head(),
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    fs::write(&file, report::with_section(&before, section))
        .with_context(|| format!("write {}", file.display()))?;
    println!("bench: wrote {}", file.display());
    Ok(())
}
