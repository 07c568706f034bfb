//! Measures consumers with a growing number of Pods, and many informers in one process.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::Scale;
use super::super::process::{PipedProcess, Run, settle};
use super::super::programs::Programs;

pub(crate) const OURS: &str = "Pilothouse";
pub(crate) const OURS_COMPRESSED: &str = "Pilothouse, compressed cache";
pub(crate) const KUBE_RS: &str = "kube-rs reflector, typed";
pub(crate) const CLIENT_GO: &str = "client-go informer, typed";

/// The objects of each informer of [`informers`].
const OBJECTS_PER_INFORMER: usize = 100;
/// The events of each informer of [`informers`].
const EVENTS_PER_INFORMER: usize = 1_000;
/// The most memory that a consumer may take, in bytes.
const MOST_MEMORY: u64 = 16 << 30;

/// The result of a consumer with a number of Pods.
pub(super) struct Point {
    pub(super) name: &'static str,
    pub(super) objects: usize,
    pub(super) events: usize,
    /// `None` if the consumer ended early.
    pub(super) run: Option<Run>,
    /// The consumer's memory limit in bytes.
    pub(super) limit: u64,
}

impl Point {
    pub(super) fn cpu_micros(&self) -> Option<f64> {
        let run = self.run.as_ref()?;
        Some((run.done.cpu_seconds - run.listed.cpu_seconds) * 1e6 / self.events as f64)
    }

    pub(super) fn rate(&self) -> Option<f64> {
        Some(self.events as f64 / self.run.as_ref()?.event_seconds)
    }
}

/// The result of many informers in one process.
pub(super) struct InformersRun {
    pub(super) informers: usize,
    pub(super) objects: usize,
    pub(super) events: usize,
    pub(super) watches: f64,
    pub(super) run: Run,
}

struct Contestant<'a> {
    name: &'static str,
    program: &'a Path,
    mode: &'static [&'static str],
    /// The number of events is divided by this, because slow consumers would take minutes.
    event_divisor: usize,
}

/// Measures every consumer with a growing number of Pods. A peer that does not survive one number is not tried with the next.
pub(super) fn points(programs: &Programs, scale: Scale) -> Result<Vec<Point>> {
    let one = |name, program, mode, event_divisor| Contestant { name, program, mode, event_divisor };
    let every: &[&str] = &["--mode", "every"];
    let compressed: &[&str] = &["--mode", "every", "--compression", "zstd"];
    let typed: &[&str] = &["--mode", "typed"];
    let mut contestants = vec![
        one(OURS, &*programs.pilothouse, every, 1),
        one(OURS_COMPRESSED, &programs.pilothouse, compressed, 1),
        one(KUBE_RS, &programs.kube_rs, typed, 4),
    ];
    contestants.extend(programs.client_go.as_deref().map(|program| one(CLIENT_GO, program, typed, 20)));
    let limit = memory_limit();
    let mut points: Vec<Point> = Vec::new();
    for &objects in scale.pods {
        for contestant in &contestants {
            let Contestant { name, event_divisor, .. } = *contestant;
            let ended_early = |point: &Point| point.name == name && point.run.is_none();
            if points.iter().any(ended_early) {
                continue;
            }
            println!("bench: {objects} Pods of 3.5 KB: {name}");
            // Every object changes at least once, unless the consumer is too slow for that.
            let events =
                if event_divisor == 1 { scale.events.max(objects) } else { scale.events / event_divisor };
            let work = Work { server: &programs.scale_server, objects, events, kinds: None, limit };
            let run = match measure(&work, contestant.program, contestant.mode) {
                Ok((run, _)) => Some(run),
                // With the fewest objects, or of Pilothouse, a failure is a fault of the benchmark.
                Err(error) if event_divisor > 1 && Some(&objects) != scale.pods.first() => {
                    println!("bench: {name} ended early with {objects} Pods: {error:#}");
                    None
                }
                Err(error) => return Err(error.context(name)),
            };
            points.push(Point { name, objects, events, run, limit });
        }
    }
    Ok(points)
}

/// Measures a process with many informers, each of another kind.
pub(super) fn informers(programs: &Programs, scale: Scale) -> Result<InformersRun> {
    let informers = scale.informers;
    println!("bench: {informers} informers in one process");
    let (objects, events) = (informers * OBJECTS_PER_INFORMER, informers * EVENTS_PER_INFORMER);
    let work = Work {
        server: &programs.scale_server,
        objects,
        events,
        kinds: Some(informers),
        limit: memory_limit(),
    };
    let kinds = informers.to_string();
    let (run, watches) = measure(&work, &programs.informers, &["--kinds", &kinds])?;
    Ok(InformersRun { informers, objects, events, watches, run })
}

/// What is served to a consumer, and the consumer's limit.
struct Work<'a> {
    server: &'a Path,
    objects: usize,
    events: usize,
    kinds: Option<usize>,
    limit: u64,
}

/// Runs a consumer against a server of its own. Returns also the number of watches that the server has opened.
#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
fn measure(work: &Work<'_>, consumer: &Path, mode: &[&str]) -> Result<(Run, f64)> {
    let (objects, events) = (work.objects.to_string(), work.events.to_string());
    let counts = ["--objects", &*objects, "--events", &*events];
    let kinds = work.kinds.map(|kinds| kinds.to_string());
    let kinds: Vec<&str> = kinds.iter().flat_map(|kinds| ["--kinds", kinds.as_str()]).collect();
    // Each watch has a connection of its own.
    let files = format!("--nofile={}", 1024 + 4 * work.kinds.unwrap_or(1));
    let mut server = limited(&[&files], work.server, &[&counts[..], &kinds].concat())?;
    let listening = server.read_json()?;
    let url = listening["listening"].as_str().context("the scale server did not print its address")?;
    let memory = format!("--data={}", work.limit);
    let start = SystemTime::now();
    let mut process =
        limited(&[&files, &memory], consumer, &[&["--server", url][..], &counts, mode].concat())?;
    ensure!(process.read_json()?["at"] == "listed", "the consumer did not report the end of the list");
    let list_seconds = start.elapsed().unwrap_or_default().as_secs_f64();
    settle();
    let listed = process.usage()?;
    let start = SystemTime::now();
    ureq::post(&format!("{url}/fixture/start")).send_empty().context("start the events")?;
    let output: Value = process.read_json()?;
    let event_seconds = start.elapsed().unwrap_or_default().as_secs_f64();
    settle();
    let done = process.usage()?;
    let watches = super::super::plugins::get_json(&format!("{url}/fixture/watches"))?;
    let watches = watches["opened"].as_f64().context("the scale server reports no number of watches")?;
    let delivered = output["delivered"].as_f64().unwrap_or_default();
    Ok((Run { list_seconds, event_seconds, delivered, listed, done, idle: None, output }, watches))
}

/// Starts a program with limits. `prlimit` replaces itself by the program, so that their process IDs are the same.
fn limited(limits: &[&str], program: &Path, arguments: &[&str]) -> Result<PipedProcess> {
    let mut all: Vec<String> = limits.iter().map(|&limit| limit.to_owned()).collect();
    all.extend(["--".to_owned(), program.display().to_string()]);
    all.extend(arguments.iter().map(|&argument| argument.to_owned()));
    PipedProcess::start(Path::new("prlimit"), &all)
        .context("the benchmark limits memory with prlimit; install util-linux if it is missing")
}

/// Returns the memory that a consumer may take in bytes: at most three fifths of what is available, so that one that needs more ends
/// before the kernel ends others.
fn memory_limit() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|text| text.trim().split(' ').next()?.parse::<u64>().ok());
    kib.map_or(MOST_MEMORY, |kib| (kib * 1024 / 5 * 3).min(MOST_MEMORY))
}
