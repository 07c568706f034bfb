//! Benchmarks plugins that share a watch: the latency from an event to the guest, and the cost of many plugins.

#[path = "../../../../bench/benches/density/files.rs"]
#[allow(dead_code, reason = "the module is shared with the benchmark `density`, which uses more of it")]
pub(super) mod files;
mod peers;
mod results;
mod scenario;
mod section;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Scale;
use super::process::{UNIFORM, Workload, run};
use super::programs::Programs;
use crate::guests;
use peers::PeerPoint;
pub(super) use results::results;
pub(super) use scenario::{Host, get_json};
use scenario::{Measurement, ProbeMode, Scenario};
pub(super) use section::{KUBE_RS, RECONCILE, plots, section};

/// Number of plugins on a shared watch that are compared with a single plugin.
const SHARED: usize = 50;
/// Events per second of the slow runs. Low enough for any number of plugins, even if each event woke all of them.
const SLOW_RATE: usize = 100;

/// Latency percentiles of one consumer.
struct Latency {
    name: &'static str,
    /// The 50th, 90th, 99th and 100th percentile in nanoseconds.
    nanos: [f64; 4],
    /// Number of measured events. Excludes the first twentieth of the events, and events that were merged with a newer one.
    measured: f64,
}

/// The measurements for one number of plugins.
struct Point {
    plugins: usize,
    events: usize,
    /// With events as fast as they are read.
    full: Measurement,
    /// With [`SLOW_RATE`] events per second; only for the growth curve.
    slow: Option<Measurement>,
}

/// The results of this benchmark.
pub(super) struct Plugins {
    scale: Scale,
    latencies: Vec<Latency>,
    /// One plugin and [`SHARED`] plugins, with as many Pods as the benchmark `ingest`.
    shared: Vec<Point>,
    /// A growing number of plugins with a thousand Pods.
    growth: Vec<Point>,
    /// A growing number of the peers' controllers with a thousand Pods, each in a process of its own.
    peers: Vec<PeerPoint>,
}

impl Plugins {
    pub(super) fn measure(root: &Path, programs: &Programs, scale: Scale) -> Result<Self> {
        let folder = root.join("target/bench/plugins");
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let built = guests::build_small(root, &["probe"])?;
        let guest = built.into_iter().next().context("the probe was not built")?.wasm;
        let scenario = Scenario { host: &programs.host, fixture: &programs.fixture, guest, folder };
        let measured = Self {
            scale,
            latencies: latencies(&scenario, programs, scale)?,
            shared: shared(&scenario, scale)?,
            growth: growth(&scenario, scale)?,
            peers: peers(programs, scale)?,
        };
        // Removes 200 MB of plugins. The compiled code is kept for the next run.
        fs::remove_dir_all(scenario.folder.join("plugins")).context("remove the plugins")?;
        Ok(measured)
    }

    /// Checks facts that do not depend on the machine's speed.
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

fn workload(objects: usize, events: usize, framing: &'static str, rate: Option<usize>) -> Workload {
    Workload { objects, events, traffic: UNIFORM, framing, rate, small: false, protobuf: None }
}

/// Measures the latency from the bytes in the socket to the first instruction of a guest and of its peers. The consumers take turns;
/// each one's result is the run with the median p50.
fn latencies(scenario: &Scenario<'_>, programs: &Programs, scale: Scale) -> Result<Vec<Latency>> {
    let work = workload(scale.objects / 10, scale.events / 2, "chunked", Some(20_000));
    let of_consumer = |program: &Path, mode: &str| -> Result<([f64; 4], f64)> {
        let run = run(&programs.fixture, program, &["--mode", mode, "--latency"], &work)?;
        let at = |name: &str| {
            let nanos = run.output["latencyNanos"][name].as_f64();
            nanos.with_context(|| format!("the consumer did not report its {name}"))
        };
        // The consumer does not measure the first twentieth of the events.
        let measured = run.delivered - (work.events / 20) as f64;
        Ok(([at("p50")?, at("p90")?, at("p99")?, at("max")?], measured))
    };
    let of_plugin = |mode| -> Result<([f64; 4], f64)> {
        let measurement = scenario.run(1, mode, &work)?;
        Ok((measurement.latency, measurement.measured))
    };
    type Measure<'a> = Box<dyn Fn() -> Result<([f64; 4], f64)> + 'a>;
    let contestants: [(&'static str, Measure<'_>); 4] = [
        (section::RECONCILE, Box::new(|| of_plugin(ProbeMode::Reconcile))),
        (section::OBSERVE, Box::new(|| of_plugin(ProbeMode::Observe))),
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

fn shared(scenario: &Scenario<'_>, scale: Scale) -> Result<Vec<Point>> {
    let events = scale.events / 2;
    let mut points = Vec::new();
    for plugins in [1, SHARED] {
        println!("bench: plugins on {} Pods: {plugins}", scale.objects);
        let full =
            scenario.run(plugins, ProbeMode::Observe, &workload(scale.objects, events, "packed", None))?;
        points.push(Point { plugins, events, full, slow: None });
    }
    Ok(points)
}

fn growth(scenario: &Scenario<'_>, scale: Scale) -> Result<Vec<Point>> {
    let objects = scale.objects / 20;
    let mut points = Vec::new();
    for &plugins in scale.plugins {
        println!("bench: plugins on {objects} Pods: {plugins}");
        let events = scale.events / 2;
        let full = scenario.run(plugins, ProbeMode::Observe, &workload(objects, events, "packed", None))?;
        let slow = workload(objects, objects, "chunked", Some(SLOW_RATE));
        let slow = scenario.run(plugins, ProbeMode::Observe, &slow)?;
        points.push(Point { plugins, events, full, slow: Some(slow) });
    }
    Ok(points)
}

/// Measures the peers' controllers, with as many processes as there are plugins in [`growth`], at [`SLOW_RATE`].
fn peers(programs: &Programs, scale: Scale) -> Result<Vec<PeerPoint>> {
    let objects = scale.objects / 20;
    let work = workload(objects, objects, "chunked", Some(SLOW_RATE));
    let mut contestants = vec![(section::KUBE_RS_PROCESSES, &programs.kube_rs)];
    contestants.extend(programs.client_go.as_ref().map(|program| (section::CLIENT_GO_PROCESSES, program)));
    let mut points = Vec::new();
    for (name, program) in contestants {
        for &processes in scale.plugins.iter().filter(|plugins| **plugins <= peers::MOST_PROCESSES) {
            println!("bench: {processes} processes on {objects} Pods: {name}");
            let point = peers::measure(name, &programs.fixture, program, processes, &work);
            points.push(point.with_context(|| format!("{processes} processes: {name}"))?);
        }
    }
    Ok(points)
}

impl Point {
    fn cpu_micros(&self) -> f64 {
        self.full.cpu_seconds() * 1e6 / self.events as f64
    }

    /// Returns the CPU time per event at [`SLOW_RATE`], where no events arrive together.
    fn slow_cpu_micros(&self, events: usize) -> Option<f64> {
        Some(self.slow.as_ref()?.cpu_seconds() * 1e6 / events as f64)
    }
}
