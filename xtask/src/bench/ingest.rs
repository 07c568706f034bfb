//! Benchmarks lists and watches: speed, CPU time and memory of each consumer, and how these grow with the number of objects.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Scale;
use super::process::{Relist, Run, Workload, relist, run, run_and_idle, write_protobuf};
use super::programs::Programs;

/// A row of the report: the result of one consumer.
pub(super) struct Row {
    pub(super) name: &'static str,
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

    pub(super) fn row(&self, name: &str, framing: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name && row.framing == framing)
    }

    /// Checks facts that hold even on a loaded machine: all events were delivered, and Pilothouse beats kube-rs.
    pub(super) fn check_direction(&self) -> Result<()> {
        for framing in ["packed", "chunked"] {
            let (ours, theirs) = (self.row(OURS, framing), self.row(KUBE_TYPED, framing));
            let (ours, theirs) = ours.zip(theirs).context("a row is missing")?;
            ensure!(
                ours.median.delivered == ours.events as f64,
                "{OURS}: {} of {} events",
                ours.median.delivered,
                ours.events
            );
            println!("bench: {framing}: {:.1} × kube-rs typed in events/s", ours.rate() / theirs.rate());
            ensure!(ours.rate() > theirs.rate(), "{framing}: fewer events/s than kube-rs typed");
            ensure!(
                ours.median.listed.resident_mib < theirs.median.listed.resident_mib,
                "{framing}: more memory after the list than kube-rs typed"
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

fn contestants(programs: &Programs) -> Vec<Contestant<'_>> {
    let one = |name, program, mode, framing, event_divisor| Contestant {
        name,
        program,
        mode,
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
    if let Some(go) = &programs.client_go {
        all.push(one("client-go informer, typed, protobuf", go, PROTOBUF, "packed", 20));
        let mode = &["--mode", "typed", "--strip-managed-fields"];
        all.push(one("client-go informer, typed, managedFields stripped", go, mode, "packed", 20));
    }
    all.push(one(OURS_COMPRESSED, &programs.pilothouse, COMPRESSED, "packed", 1));
    let mode = &["--mode", "typed", "--strip-managed-fields"];
    all.push(one("kube-rs reflector, typed, managedFields stripped", &programs.kube_rs, mode, "packed", 4));
    all.extend([
        one("Pilothouse, every event, mimalloc", &programs.pilothouse_mimalloc, EVERY, "packed", 1),
        one(
            "Pilothouse, every event, the system's allocator",
            &programs.pilothouse_system,
            EVERY,
            "packed",
            1,
        ),
        one(
            "kube-rs reflector, typed, mimalloc",
            &programs.kube_rs_mimalloc,
            &["--mode", "typed"],
            "packed",
            4,
        ),
        one(
            "kube-rs reflector, typed, jemalloc",
            &programs.kube_rs_jemalloc,
            &["--mode", "typed"],
            "packed",
            4,
        ),
        one("kube-rs reflector, DynamicObject", &programs.kube_rs, &["--mode", "dynamic"], "packed", 4),
    ]);
    if let Some(go) = &programs.client_go {
        all.push(one("client-go informer, dynamic", go, &["--mode", "dynamic"], "packed", 20));
    }
    all
}

fn rows(programs: &Programs, scale: Scale) -> Result<Vec<Row>> {
    let contestants = contestants(programs);
    let mut runs: Vec<Vec<Run>> = contestants.iter().map(|_| Vec::new()).collect();
    let workload = |contestant: &Contestant<'_>| Workload {
        objects: scale.objects,
        events: events(scale, contestant),
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
            println!("bench: round {round}: {}, {}", contestant.name, contestant.framing);
            let measured = run(&programs.fixture, contestant.program, contestant.mode, &workload(contestant));
            runs.push(measured.with_context(|| contestant.name)?);
        }
    }
    let rows = contestants.iter().zip(runs).map(|(contestant, runs)| Row {
        name: contestant.name,
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
            framing: "chunked",
            rate: Some(20_000),
            small: false,
            protobuf: None,
        };
        let median = run(&programs.fixture, program, mode, &work).context(name)?;
        rows.push(Row { name, framing: "chunked", median, events });
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
        framing: "packed",
        rate: None,
        small: false,
        protobuf: None,
    };
    let median = run_and_idle(&programs.fixture, &programs.pilothouse, EVERY, &work).context(OURS)?;
    Ok(Some(Row { name: OURS, framing: "packed", median, events }))
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
            let work =
                Workload { objects, events, framing: "packed", rate: None, small: true, protobuf: None };
            let run = run(&programs.fixture, program, &["--mode", mode], &work).context(name)?;
            points.push(Point { name, objects, run, events });
        }
    }
    Ok(points)
}
