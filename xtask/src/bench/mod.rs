//! `cargo xtask bench`: Pilothouse and its peers at the same work in the same run, and the report of it.
//!
//! The machine may be noisy: every figure is the median of several rounds, in which the consumers take turns, and what counts
//! is the ratio to a peer of the same run.

mod end_to_end;
mod figures;
mod ingest;
pub(crate) mod instructions;
mod plot;
mod process;
mod programs;
mod report;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use ingest::Ingest;
use programs::Programs;

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
}

const FULL: Scale = Scale {
    objects: 20_000,
    events: 200_000,
    rounds: 3,
    foos: 10_000,
    long: Some(10_000_000),
    curve: &[1_000, 10_000, 100_000, 1_000_000],
};
/// Enough to see that everything runs, and which way the ratios point.
const QUICK: Scale =
    Scale { objects: 2_000, events: 10_000, rounds: 1, foos: 100, long: None, curve: &[1_000] };

/// Builds everything, measures, and writes `bench/REPORT.md` with its plots; a quick run writes nothing and checks the
/// direction of the ratios.
pub(crate) fn run(root: &Path, quick: bool) -> Result<()> {
    let scale = if quick { QUICK } else { FULL };
    let programs = Programs::build(root, quick)?;
    let ingest = Ingest::measure(&programs, scale)?;
    let end_to_end = end_to_end::measure(root, &programs, scale.foos)?;
    if quick {
        return ingest.check_direction();
    }
    let folder = root.join("bench");
    let plots = folder.join("plots");
    fs::create_dir_all(&plots).with_context(|| format!("make {}", plots.display()))?;
    for (name, picture) in report::plots(&ingest) {
        fs::write(plots.join(&name), picture).with_context(|| format!("write {name}"))?;
    }
    let report = folder.join("REPORT.md");
    // What has been measured is not lost when what is still to be measured fails.
    figures::measure(root, |figures| {
        fs::write(&report, report::text(&ingest, &end_to_end, figures, scale))
            .with_context(|| format!("write {}", report.display()))
    })?;
    println!("bench: wrote {}", report.display());
    Ok(())
}
