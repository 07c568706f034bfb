//! Plugins on one watch: how late a guest hears of an event, and what many plugins cost.

mod crowd;
#[path = "../../../bench/benches/density/files.rs"]
#[allow(dead_code, reason = "names are for others")]
mod files;
mod section;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Scale;
use super::process::{Work, run};
use super::programs::Programs;
use crate::guests;
use crowd::{Crowd, Outcome, Way};
pub(super) use section::{plots, section};

/// How many plugins share the watch, against one.
const SHARED: usize = 50;
/// Events per second where all that plugins cost is latency: a thousand of them are woken one by one for each.
const SLOW: usize = 100;

/// Percentiles of one consumer.
struct Latency {
    name: &'static str,
    /// The 50th, 90th, 99th and 100th, in nanoseconds.
    nanos: [f64; 4],
    /// Of how many of the events after the first twentieth: those that a newer one of the same object overtook are missing.
    measured: f64,
}

/// So many plugins at work.
struct Point {
    plugins: usize,
    events: usize,
    /// As fast as the events are read.
    full: Outcome,
    /// At [`SLOW`] events per second; of the curve only.
    slow: Option<Outcome>,
}

/// All that was measured.
pub(super) struct Plugins {
    scale: Scale,
    latencies: Vec<Latency>,
    /// 1 plugin and [`SHARED`], on as many Pods as ingest has.
    shared: Vec<Point>,
    /// On a thousand Pods.
    growth: Vec<Point>,
}

impl Plugins {
    pub(super) fn measure(root: &Path, programs: &Programs, scale: Scale) -> Result<Self> {
        let folder = root.join("target/bench/plugins");
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let built = guests::build_small(root, &["probe"])?;
        let guest = built.into_iter().next().context("the probe was not built")?.wasm;
        let crowd = Crowd { host: &programs.host, fixture: &programs.fixture, guest, folder };
        let measured = Self {
            scale,
            latencies: latencies(&crowd, programs, scale)?,
            shared: shared(&crowd, scale)?,
            growth: growth(&crowd, scale)?,
        };
        // The compiled code stays for the next time, 200 MB of plugins do not.
        fs::remove_dir_all(crowd.folder.join("plugins")).context("remove the plugins")?;
        Ok(measured)
    }

    /// Without figures, which a loaded machine would not reach.
    pub(super) fn check_direction(&self) -> Result<()> {
        for latency in &self.latencies {
            ensure!(latency.measured > 0.0, "{}: nothing was measured", latency.name);
        }
        for point in self.shared.iter().chain(&self.growth) {
            let watches = point.full.watches;
            ensure!(watches == 1.0, "{} plugins on one watch sent {watches} watch requests", point.plugins);
        }
        Ok(())
    }
}

fn work(objects: usize, events: usize, framing: &'static str, rate: Option<usize>) -> Work {
    Work { objects, events, framing, rate, small: false, protobuf: None }
}

/// From the bytes in the socket to the first instruction, of a guest and of its peers. They take turns, and the run with the median of the
/// medians counts.
fn latencies(crowd: &Crowd<'_>, programs: &Programs, scale: Scale) -> Result<Vec<Latency>> {
    let work = work(scale.objects / 10, scale.events / 2, "chunked", Some(20_000));
    let of_consumer = |program: &Path, mode: &str| -> Result<([f64; 4], f64)> {
        let run = run(&programs.fixture, program, &["--mode", mode, "--latency"], &work)?;
        let at = |name: &str| {
            let nanos = run.said["latencyNanos"][name].as_f64();
            nanos.with_context(|| format!("it did not say its {name}"))
        };
        // It skips the first twentieth.
        let measured = run.delivered - (work.events / 20) as f64;
        Ok(([at("p50")?, at("p90")?, at("p99")?, at("max")?], measured))
    };
    let of_plugin = |way| -> Result<([f64; 4], f64)> {
        let outcome = crowd.run(1, way, &work)?;
        Ok((outcome.latency, outcome.measured))
    };
    type Measured<'a> = Box<dyn Fn() -> Result<([f64; 4], f64)> + 'a>;
    let contestants: [(&'static str, Measured<'_>); 4] = [
        (section::RECONCILE, Box::new(|| of_plugin(Way::Reconcile))),
        (section::OBSERVE, Box::new(|| of_plugin(Way::Observe))),
        (section::NATIVE, Box::new(|| of_consumer(&programs.pilothouse, "every"))),
        (section::KUBE_RS, Box::new(|| of_consumer(&programs.kube_rs, "controller"))),
    ];
    let mut runs: Vec<Vec<Latency>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 1..=scale.rounds {
        for ((name, measure), runs) in contestants.iter().zip(&mut runs) {
            println!("bench: latency, round {round}: {name}");
            let (nanos, measured) = measure().context(*name)?;
            runs.push(Latency { name, nanos, measured });
        }
    }
    let median = |mut runs: Vec<Latency>| {
        runs.sort_by(|left, right| left.nanos[0].total_cmp(&right.nanos[0]));
        let middle = runs.len() / 2;
        runs.swap_remove(middle)
    };
    Ok(runs.into_iter().map(median).collect())
}

fn shared(crowd: &Crowd<'_>, scale: Scale) -> Result<Vec<Point>> {
    let events = scale.events / 2;
    let mut points = Vec::new();
    for plugins in [1, SHARED] {
        println!("bench: plugins on {} Pods: {plugins}", scale.objects);
        let full = crowd.run(plugins, Way::Observe, &work(scale.objects, events, "packed", None))?;
        points.push(Point { plugins, events, full, slow: None });
    }
    Ok(points)
}

fn growth(crowd: &Crowd<'_>, scale: Scale) -> Result<Vec<Point>> {
    let objects = scale.objects / 20;
    let mut points = Vec::new();
    for &plugins in scale.plugins {
        println!("bench: plugins on {objects} Pods: {plugins}");
        let events = scale.events / 2;
        let full = crowd.run(plugins, Way::Observe, &work(objects, events, "packed", None))?;
        let slow = work(objects, objects, "chunked", Some(SLOW));
        let slow = crowd.run(plugins, Way::Observe, &slow)?;
        points.push(Point { plugins, events, full, slow: Some(slow) });
    }
    Ok(points)
}

impl Point {
    fn cpu_micros(&self) -> f64 {
        self.full.cpu() * 1e6 / self.events as f64
    }
}
