//! Benchmarks lists and watches: speed, CPU time and memory of each consumer, and how these grow with the number of objects.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Scale;
use super::process::{REALISTIC, Relist, Run, UNIFORM, Workload, relist, run, run_and_idle, write_protobuf};
use super::programs::Programs;

/// A row of the report: the result of one consumer.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) traffic: &'static str,
    pub(super) framing: &'static str,
    pub(super) median: Run,
    pub(super) events: usize,
}

/// A point of a growth curve.
pub(super) struct Point {
    pub(super) name: &'static str,
    pub(super) objects: usize,
    pub(super) run: Run,
    pub(super) events: usize,
}

/// The results of this benchmark.
pub(super) struct Ingest {
    pub(super) rows: Vec<Row>,
    pub(super) latencies: Vec<Row>,
    pub(super) curves: Vec<Point>,
    /// The consumer, the percentage of objects that changed, and the memory of the relist.
    pub(super) relists: Vec<(&'static str, usize, Relist)>,
    /// A run with many times the events, to find memory that grows with them.
    pub(super) long: Option<Row>,
}

struct Contestant<'a> {
    name: &'static str,
    program: &'a Path,
    mode: &'static [&'static str],
    traffic: &'static str,
    framing: &'static str,
    /// The number of events is divided by this, because slow consumers would take minutes.
    event_divisor: usize,
}

const EVERY: &[&str] = &["--mode", "every"];
const COMPRESSED: &[&str] = &["--mode", "every", "--compression", "zstd"];
const PROTOBUF: &[&str] = &["--mode", "protobuf"];

pub(super) const OURS: &str = "Pilothouse, every event";
pub(super) const OURS_MERGED: &str = "Pilothouse, updates merge";
pub(super) const OURS_COMPRESSED: &str = "Pilothouse, every event, compressed cache";
pub(super) const DRAIN: &str = "drain: lines counted, nothing kept";
pub(super) const KUBE_TYPED: &str = "kube-rs reflector, typed";
pub(super) const GO_TYPED: &str = "client-go informer, typed";
pub(super) const OURS_MIMALLOC: &str = "Pilothouse, every event, mimalloc";
pub(super) const KUBE_MIMALLOC: &str = "kube-rs reflector, typed, mimalloc";
pub(super) const KUBE_JEMALLOC: &str = "kube-rs reflector, typed, jemalloc";

/// The tables of the report: traffic and framing.
pub(super) const TABLES: [(&str, &str); 4] =
    [(REALISTIC, "packed"), (REALISTIC, "chunked"), (UNIFORM, "packed"), (UNIFORM, "chunked")];

impl Ingest {
    pub(super) fn measure(programs: &Programs, scale: Scale) -> Result<Self> {
        Ok(Self {
            rows: rows(programs, scale)?,
            latencies: latencies(programs, scale)?,
            curves: curves(programs, scale)?,
            relists: relists(programs, scale)?,
            long: long(programs, scale)?,
        })
    }

    pub(super) fn row(&self, traffic: &str, name: &str, framing: &str) -> Option<&Row> {
        let wanted = (traffic, name, framing);
        self.rows.iter().find(|row| (row.traffic, row.name, row.framing) == wanted)
    }

    /// Checks facts that hold even on a loaded machine: all events were delivered, and Pilothouse beats kube-rs.
    pub(super) fn check_direction(&self) -> Result<()> {
        for (traffic, framing) in TABLES {
            let (ours, theirs) = (self.row(traffic, OURS, framing), self.row(traffic, KUBE_TYPED, framing));
            let (ours, theirs) = ours.zip(theirs).context("a row is missing")?;
            ensure!(
                ours.median.delivered == ours.events as f64,
                "{OURS}, {traffic}: {} of {} events",
                ours.median.delivered,
                ours.events
            );
            let ratio = ours.rate() / theirs.rate();
            println!("bench: {traffic}, {framing}: {ratio:.1} × kube-rs typed in events/s");
            ensure!(ours.rate() > theirs.rate(), "{traffic}, {framing}: fewer events/s than kube-rs typed");
            ensure!(
                ours.median.listed.resident_mib < theirs.median.listed.resident_mib,
                "{traffic}, {framing}: more memory after the list than kube-rs typed"
            );
        }
        Ok(())
    }
}

impl Row {
    pub(super) fn rate(&self) -> f64 {
        self.events as f64 / self.median.event_seconds
    }

    pub(super) fn cpu_micros(&self) -> f64 {
        (self.median.done.cpu_seconds - self.median.listed.cpu_seconds) * 1e6 / self.events as f64
    }
}

/// Returns the consumers in the order of the report. With uniform traffic, only the main ones run.
fn contestants(programs: &Programs) -> Vec<Contestant<'_>> {
    let mut all = main_contestants(programs, REALISTIC);
    all.extend(further_contestants(programs));
    all.extend(main_contestants(programs, UNIFORM));
    all
}

fn main_contestants<'a>(programs: &'a Programs, traffic: &'static str) -> Vec<Contestant<'a>> {
    let one = |name, program, mode, framing, event_divisor| Contestant {
        name,
        program,
        mode,
        traffic,
        framing,
        event_divisor,
    };
    let mut all = Vec::new();
    for framing in ["packed", "chunked"] {
        all.extend([
            one(DRAIN, &*programs.pilothouse, &["--mode", "drain"] as &[_], framing, 1),
            one(OURS, &programs.pilothouse, EVERY, framing, 1),
            one(OURS_MERGED, &programs.pilothouse, &["--mode", "merge"], framing, 1),
            one(KUBE_TYPED, &programs.kube_rs, &["--mode", "typed"], framing, 4),
        ]);
        if let Some(go) = &programs.client_go {
            all.push(one(GO_TYPED, go, &["--mode", "typed"], framing, 20));
        }
    }
    all.push(one(OURS_COMPRESSED, &programs.pilothouse, COMPRESSED, "packed", 1));
    all.push(one(KUBE_JEMALLOC, &programs.kube_rs_jemalloc, &["--mode", "typed"], "packed", 4));
    all
}

/// Returns consumers of realistic traffic with other settings, encodings and allocators.
fn further_contestants(programs: &Programs) -> Vec<Contestant<'_>> {
    const TYPED: &[&str] = &["--mode", "typed"];
    const STRIPPED: &[&str] = &["--mode", "typed", "--strip-managed-fields"];
    const DYNAMIC: &[&str] = &["--mode", "dynamic"];
    let one = |name, program, mode, event_divisor| Contestant {
        name,
        program,
        mode,
        traffic: REALISTIC,
        framing: "packed",
        event_divisor,
    };
    let mut all = vec![
        one(OURS_MIMALLOC, &*programs.pilothouse_mimalloc, EVERY, 1),
        one("Pilothouse, every event, the system's allocator", &programs.pilothouse_system, EVERY, 1),
        one(KUBE_MIMALLOC, &programs.kube_rs_mimalloc, TYPED, 4),
        one("kube-rs reflector, typed, managedFields stripped", &programs.kube_rs, STRIPPED, 4),
        one("kube-rs reflector, DynamicObject", &programs.kube_rs, DYNAMIC, 4),
    ];
    if let Some(go) = &programs.client_go {
        all.extend([
            one("client-go informer, typed, protobuf", &**go, PROTOBUF, 20),
            one("client-go informer, typed, managedFields stripped", go, STRIPPED, 20),
            one("client-go informer, dynamic", go, DYNAMIC, 20),
        ]);
    }
    all
}

fn rows(programs: &Programs, scale: Scale) -> Result<Vec<Row>> {
    let contestants = contestants(programs);
    let mut runs: Vec<Vec<Run>> = contestants.iter().map(|_| Vec::new()).collect();
    let workload = |contestant: &Contestant<'_>| Workload {
        objects: scale.objects,
        events: events(scale, contestant),
        traffic: contestant.traffic,
        framing: contestant.framing,
        rate: None,
        small: false,
        protobuf: (contestant.mode == PROTOBUF).then(|| programs.protobuf.clone()),
    };
    if let Some(contestant) = contestants.iter().find(|contestant| contestant.mode == PROTOBUF) {
        println!("bench: writing the fixture as protobuf");
        write_protobuf(&programs.fixture, contestant.program, &workload(contestant), &programs.protobuf)?;
    }
    for round in 1..=scale.rounds {
        for (contestant, runs) in contestants.iter().zip(&mut runs) {
            let Contestant { name, traffic, framing, .. } = contestant;
            println!("bench: round {round}: {name}, {traffic}, {framing}");
            let measured = run(&programs.fixture, contestant.program, contestant.mode, &workload(contestant));
            runs.push(measured.with_context(|| contestant.name)?);
        }
    }
    let rows = contestants.iter().zip(runs).map(|(contestant, runs)| Row {
        name: contestant.name,
        traffic: contestant.traffic,
        framing: contestant.framing,
        median: median(runs),
        events: events(scale, contestant),
    });
    Ok(rows.collect())
}

/// Returns the number of events for a contestant: at least one for every second object.
fn events(scale: Scale, contestant: &Contestant<'_>) -> usize {
    (scale.events / contestant.event_divisor).max(scale.objects / 2)
}

/// Returns the run with the median duration of the events.
fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|left, right| left.event_seconds.total_cmp(&right.event_seconds));
    let middle = runs.len() / 2;
    runs.swap_remove(middle)
}

/// Measures the latency from the bytes in the socket to the handler at 20,000 events per second.
fn latencies(programs: &Programs, scale: Scale) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut measure = |name, program: &Path, mode: &[&str]| -> Result<()> {
        println!("bench: latency: {name}");
        let events = scale.events / 4;
        let work = Workload {
            objects: scale.objects / 10,
            events,
            traffic: REALISTIC,
            framing: "chunked",
            rate: Some(20_000),
            small: false,
            protobuf: None,
        };
        let median = run(&programs.fixture, program, mode, &work).context(name)?;
        rows.push(Row { name, traffic: REALISTIC, framing: "chunked", median, events });
        Ok(())
    };
    measure("Pilothouse, native subscriber", &programs.pilothouse, &["--mode", "every", "--latency"])?;
    measure("kube-rs controller, reconciler", &programs.kube_rs, &["--mode", "controller", "--latency"])?;
    if let Some(go) = &programs.client_go {
        measure("client-go informer and work queue, worker", go, &["--mode", "controller", "--latency"])?;
    }
    Ok(rows)
}

fn relists(programs: &Programs, scale: Scale) -> Result<Vec<(&'static str, usize, Relist)>> {
    let mut results = Vec::new();
    let work = Workload {
        objects: scale.objects,
        events: 0,
        traffic: REALISTIC,
        framing: "packed",
        rate: None,
        small: false,
        protobuf: None,
    };
    for (name, program, mode) in [
        (OURS, &programs.pilothouse, EVERY),
        (OURS_COMPRESSED, &programs.pilothouse, COMPRESSED),
        (KUBE_TYPED, &programs.kube_rs, &["--mode", "typed"]),
    ] {
        for percent in [0, 10, 100] {
            println!("bench: relist, {percent} % changed: {name}");
            let measured = relist(&programs.fixture, program, mode, &work, percent);
            results.push((name, percent, measured.context(name)?));
        }
    }
    Ok(results)
}

/// Measures the memory after many events. Returns `None` if the scale has no long run.
fn long(programs: &Programs, scale: Scale) -> Result<Option<Row>> {
    let Some(events) = scale.long else { return Ok(None) };
    println!("bench: {events} events: {OURS}");
    let work = Workload {
        objects: scale.objects,
        events,
        traffic: REALISTIC,
        framing: "packed",
        rate: None,
        small: false,
        protobuf: None,
    };
    let median = run_and_idle(&programs.fixture, &programs.pilothouse, EVERY, &work).context(OURS)?;
    Ok(Some(Row { name: OURS, traffic: REALISTIC, framing: "packed", median, events }))
}

fn curves(programs: &Programs, scale: Scale) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for &objects in scale.curve {
        for (name, program, mode, most) in [
            (OURS, &programs.pilothouse, "every", usize::MAX),
            (KUBE_TYPED, &programs.kube_rs, "typed", 100_000),
        ] {
            if objects > most {
                continue;
            }
            println!("bench: {objects} small objects: {name}");
            let events = scale.events / 2;
            let work = Workload {
                objects,
                events,
                traffic: UNIFORM,
                framing: "packed",
                rate: None,
                small: true,
                protobuf: None,
            };
            let run = run(&programs.fixture, program, &["--mode", mode], &work).context(name)?;
            points.push(Point { name, objects, run, events });
        }
    }
    Ok(points)
}
