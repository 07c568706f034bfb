//! The results of the benchmarks as JSON, in a file for each part. Documents take their figures from these files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::end_to_end::EndToEnd;
use super::ingest::{Ingest, Row};
use super::process::{Run, Usage};
use super::{Benchmark, Scale};

/// Returns the part's name on the command line.
pub(super) fn name(part: Benchmark) -> String {
    part.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn file(root: &Path, name: &str) -> PathBuf {
    root.join("bench/results").join(format!("{name}.json"))
}

/// Writes the results of a part with this name.
pub(super) fn write(root: &Path, name: &str, results: &Value) -> Result<()> {
    let file = file(root, name);
    let folder = file.parent().context("the results have no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let text = serde_json::to_string_pretty(results).context("write the results as JSON")?;
    fs::write(&file, text + "\n").with_context(|| format!("write {}", file.display()))
}

/// Reads the results of a part; `None` if it has never been run.
pub(super) fn read(root: &Path, part: Benchmark) -> Result<Option<Value>> {
    let file = file(root, &name(part));
    match fs::read_to_string(&file) {
        Ok(text) => {
            let results = serde_json::from_str(&text);
            results.map(Some).map_err(|error| anyhow!("{} is not JSON: {error}", file.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", file.display())),
    }
}

/// Returns the results of the part `ingest`.
pub(super) fn ingest(ingest: &Ingest, scale: Scale) -> Value {
    let relists = ingest.relists.iter().map(|(consumer, percent, relist)| {
        json!({
            "consumer": consumer,
            "changedPercent": percent,
            "beforeMib": relist.before_mib,
            "peakMib": relist.peak_mib,
            "afterMib": relist.after_mib,
        })
    });
    let growth = ingest.curves.iter().map(|point| {
        let events_per_second = point.events as f64 / point.run.event_seconds;
        json!({
            "consumer": point.name,
            "objects": point.objects,
            "events": point.events,
            "eventsPerSecond": events_per_second,
            "run": run(&point.run),
        })
    });
    json!({
        "objects": scale.objects,
        "events": scale.events,
        "rows": ingest.rows.iter().map(row).collect::<Vec<_>>(),
        "latencies": ingest.latencies.iter().map(row).collect::<Vec<_>>(),
        "relists": relists.collect::<Vec<_>>(),
        "growth": growth.collect::<Vec<_>>(),
        "long": ingest.long.as_ref().map(row),
    })
}

fn row(row: &Row) -> Value {
    json!({
        "consumer": row.name,
        "traffic": row.traffic,
        "framing": row.framing,
        "events": row.events,
        "eventsPerSecond": row.rate(),
        "cpuMicrosPerEvent": row.cpu_micros(),
        "run": run(&row.median),
    })
}

/// Returns the results of the part `end-to-end`.
pub(super) fn end_to_end(runs: &[EndToEnd], scale: Scale) -> Value {
    let rows = runs.iter().map(|run| {
        let phases = run.phases.iter().map(|(phase, seconds)| (phase.clone(), json!(seconds)));
        json!({
            "controller": run.name,
            "phaseSeconds": phases.collect::<Map<_, _>>(),
            "usage": usage(&run.usage),
        })
    });
    json!({"foos": scale.foos, "rows": rows.collect::<Vec<_>>()})
}

/// Returns one run of a consumer as JSON.
pub(super) fn run(run: &Run) -> Value {
    json!({
        "listSeconds": run.list_seconds,
        "eventSeconds": run.event_seconds,
        "delivered": run.delivered,
        "listed": usage(&run.listed),
        "done": usage(&run.done),
        "idle": run.idle.as_ref().map(usage),
        "output": run.output,
    })
}

/// Returns the resources that a process has used as JSON.
pub(super) fn usage(usage: &Usage) -> Value {
    json!({
        "residentMib": usage.resident_mib,
        "privateMib": usage.private_mib,
        "peakMib": usage.peak_mib,
        "cpuSeconds": usage.cpu_seconds,
    })
}
