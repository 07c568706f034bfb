//! Benchmarks controllers of the peers in processes of their own, each with its own watch and cache, as the alternative to plugins that share
//! them.

use std::path::Path;

use anyhow::{Context, Result};

use super::super::process::{PipedProcess, Usage, Workload, serve, settle};

/// The most processes of a peer. A thousand would need more memory and CPU time than the machine has.
pub(super) const MOST_PROCESSES: usize = 100;

/// The results of a number of processes.
pub(super) struct PeerPoint {
    pub(super) name: &'static str,
    pub(super) processes: usize,
    /// Private memory of all processes together after the list.
    pub(super) private_mib: f64,
    /// CPU time of all processes together per event.
    pub(super) cpu_micros: f64,
    /// The latency of the first process in nanoseconds: 50th, 90th, 99th and 100th percentile.
    pub(super) latency: [f64; 4],
}

/// Runs the peer's controller, which measures latency, and in all other processes only its cache: a plugin that refuses every event by a
/// predicate does as little.
pub(super) fn measure(
    name: &'static str,
    fixture: &Path,
    program: &Path,
    processes: usize,
    work: &Workload,
) -> Result<PeerPoint> {
    let (_fixture, server) = serve(fixture, work)?;
    let start = |number: usize| {
        let mode: &[&str] =
            if number == 0 { &["--mode", "controller", "--latency"] } else { &["--mode", "typed"] };
        let (objects, events) = (work.objects.to_string(), work.events.to_string());
        let arguments =
            [&["--server", &*server, "--objects", &*objects, "--events", &*events][..], mode].concat();
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        PipedProcess::start(program, &arguments)
    };
    let mut consumers = (0..processes).map(start).collect::<Result<Vec<_>>>()?;
    for consumer in &mut consumers {
        // Each consumer prints this line when its cache is complete.
        consumer.read_json()?;
    }
    settle();
    let listed = total(&consumers)?;
    ureq::post(&format!("{server}/fixture/start")).send_empty().context("start the events")?;
    let mut outputs = consumers.iter_mut().map(PipedProcess::read_json).collect::<Result<Vec<_>>>()?;
    settle();
    let done = total(&consumers)?;
    let output = outputs.swap_remove(0);
    let at = |percentile: &str| output["latencyNanos"][percentile].as_f64().unwrap_or(f64::NAN);
    Ok(PeerPoint {
        name,
        processes,
        private_mib: listed.private_mib,
        cpu_micros: (done.cpu_seconds - listed.cpu_seconds) * 1e6 / work.events as f64,
        latency: ["p50", "p90", "p99", "max"].map(at),
    })
}

/// Returns the usage of all processes together.
fn total(consumers: &[PipedProcess]) -> Result<Usage> {
    let mut total = Usage::default();
    for consumer in consumers {
        let usage = consumer.usage()?;
        total.private_mib += usage.private_mib;
        total.cpu_seconds += usage.cpu_seconds;
    }
    Ok(total)
}
