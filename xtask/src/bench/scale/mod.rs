//! Benchmarks large clusters and many plugins: a growing number of Pods up to a million, beside the peers that survive it; a thousand
//! informers in one process; and the first start of a host with a thousand distinct plugins.

mod compile;
mod objects;
mod section;

use std::path::Path;

use anyhow::{Result, ensure};

use super::Scale;
use super::programs::Programs;
use compile::FirstStart;
pub(super) use objects::OURS_COMPRESSED;
use objects::{InformersRun, Point};
pub(super) use section::{plots, results, section};

/// The results of this benchmark.
pub(super) struct ScaleResults {
    points: Vec<Point>,
    informers: InformersRun,
    first_start: FirstStart,
}

impl ScaleResults {
    pub(super) fn measure(root: &Path, programs: &Programs, scale: Scale) -> Result<Self> {
        Ok(Self {
            points: objects::points(programs, scale)?,
            informers: objects::informers(programs, scale)?,
            first_start: compile::measure(root, programs, scale.compiled)?,
        })
    }

    /// Checks facts that do not depend on the machine's speed.
    pub(super) fn check_direction(&self) -> Result<()> {
        for point in &self.points {
            let Some(run) = &point.run else { continue };
            ensure!(
                !point.name.starts_with("Pilothouse") || run.delivered == point.events as f64,
                "{}: {} of {} events",
                point.name,
                run.delivered,
                point.events
            );
        }
        let InformersRun { informers, watches, .. } = &self.informers;
        ensure!(*watches == *informers as f64, "{informers} informers sent {watches} watch requests");
        self.first_start.check()
    }
}
