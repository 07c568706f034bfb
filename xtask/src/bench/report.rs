//! Renders the report in Markdown.

use std::fmt::Write;

use serde_json::Value;

use super::Scale;
use super::end_to_end::EndToEnd;
use super::ingest::{
    DRAIN, GO_TYPED, Ingest, KUBE_JEMALLOC, KUBE_MIMALLOC, KUBE_TYPED, OURS, OURS_COMPRESSED, OURS_MERGED,
    OURS_MIMALLOC, Point, Row, TABLES,
};
use super::plot::{bars, curves, number};
use super::process::{REALISTIC, UNIFORM};

/// Returns the plots by file name.
pub(super) fn plots(ingest: &Ingest) -> Vec<(String, String)> {
    let values = |value: fn(&Row) -> f64| -> Vec<_> {
        let rows = ingest.rows.iter().filter(|row| (row.traffic, row.framing) == TABLES[0]);
        rows.map(|row| (row.name.to_owned(), value(row))).collect()
    };
    // The drain stores no objects.
    let without_drain =
        |values: Vec<(String, f64)>| values.into_iter().filter(|(name, _)| name != DRAIN).collect::<Vec<_>>();
    let curve = |value: fn(&Point) -> f64| -> Vec<_> {
        let of = |name: &str| {
            let points = ingest.curves.iter().filter(|point| point.name == name);
            (name.to_owned(), points.map(|point| (point.objects as f64, value(point))).collect())
        };
        vec![of(OURS), of(KUBE_TYPED)]
    };
    vec![
        (
            "events.svg".to_owned(),
            bars(
                "Events per second, realistic traffic, packed framing (logarithmic)",
                "/s",
                &values(Row::rate),
            ),
        ),
        (
            "memory.svg".to_owned(),
            bars(
                "Resident memory after the list (logarithmic)",
                "MiB",
                &without_drain(values(|row| row.median.listed.resident_mib)),
            ),
        ),
        ("cpu.svg".to_owned(), bars("CPU time per event (logarithmic)", "µs", &values(Row::cpu_micros))),
        (
            "growth-memory.svg".to_owned(),
            curves(
                "Resident memory by the number of small objects",
                "MiB",
                &curve(|point| point.run.listed.resident_mib),
            ),
        ),
        (
            "growth-events.svg".to_owned(),
            curves(
                "Events per second by the number of small objects",
                "/s",
                &curve(|point| point.events as f64 / point.run.event_seconds),
            ),
        ),
    ]
}

/// Returns the beginning of the report, before the sections.
pub(super) fn header() -> String {
    "# Benchmark report\n\nWritten by `cargo xtask bench`, one section per benchmark. Absolute figures depend on the machine and its load: compare \
     only the ratios to peers within one run.\n\n"
        .to_owned()
}

/// Returns the report with `section` in place of the section with the same title, or at the end.
pub(super) fn with_section(report: &str, section: &str) -> String {
    let title = section.lines().next().unwrap_or_default();
    let (before, after) = match report.split_once(&format!("{title}\n")) {
        Some((before, old)) => (before, old.split_once("\n## ").map(|(_, after)| format!("## {after}"))),
        None => (report, None),
    };
    let after = after.map_or_else(String::new, |after| format!("\n\n{after}"));
    format!("{before}{}{after}", section.trim_end()).trim_end().to_owned() + "\n\n"
}

pub(super) fn ingest(ingest: &Ingest, scale: Scale) -> String {
    let mut text = format!(
        "## Lists and watches\n\nEach consumer lists {} Pods and then reads up to {} events from a fixture server on the same machine; \
         slow consumers read fewer events. Each row is the median of {} interleaved rounds. With realistic traffic, Pods of 4 KB from 400 workloads change \
         as in clusters. With uniform traffic, versions of Pods of 3.5 KB differ in the resource version and two timestamps.\n\n{}\n\n",
        number(scale.objects as f64),
        number(scale.events as f64),
        scale.rounds,
        machine(),
    );
    ratios(&mut text, ingest);
    for (traffic, framing) in TABLES {
        let title = match (traffic, framing) {
            (REALISTIC, "packed") => "Realistic traffic, 64 KiB of events per HTTP chunk",
            (REALISTIC, _) => "Realistic traffic, one HTTP chunk per event",
            (_, "packed") => "Uniform traffic, 64 KiB of events per HTTP chunk",
            _ => "Uniform traffic, one HTTP chunk per event",
        };
        let _ = writeln!(text, "### {title}\n");
        table(&mut text, ingest, (traffic, framing));
    }
    text.push_str(
        "![events per second](plots/events.svg)\n![memory](plots/memory.svg)\n![CPU](plots/cpu.svg)\n\n",
    );
    relists(&mut text, ingest);
    latency(&mut text, &ingest.latencies);
    growth(&mut text, &ingest.curves);
    text
}

/// Describes the machine: CPU, memory and load.
pub(super) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let field = |name: &str| {
        cpus.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|text| text.trim_start_matches([' ', '\t', ':']).to_owned())
    };
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let memory = read("/proc/meminfo");
    let kib =
        memory.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or_default();
    let load = read("/proc/loadavg");
    let load = load.split_ascii_whitespace().next().unwrap_or("?").to_owned();
    format!(
        "The machine: {cores} cores ({}), {:.0} GiB; load average at the end {load}.",
        field("model name").unwrap_or_else(|| "unknown".to_owned()),
        kib / 1024.0 / 1024.0
    )
}

/// Writes the table of targets, which are for realistic traffic, and the ratios reached.
fn ratios(text: &mut String, ingest: &Ingest) {
    text.push_str(
        "### Targets\n\n| what | target | realistic traffic | uniform traffic |\n|---|---|---|---|\n",
    );
    let mut line = |what: &str, target: &str, reached: &dyn Fn(&str) -> Option<f64>| {
        let reached = [REALISTIC, UNIFORM]
            .map(|traffic| reached(traffic).map_or_else(|| "not measured".to_owned(), number));
        let _ = writeln!(text, "| {what} | {target} | {} | {} |", reached[0], reached[1]);
    };
    let row = |traffic: &str, name: &str| ingest.row(traffic, name, "packed");
    let ratio = |left: &'static str, right: &'static str, value: fn(&Row) -> f64| {
        move |traffic: &str| Some(value(row(traffic, left)?) / value(row(traffic, right)?))
    };
    let of = |name: &'static str, value: fn(&Row) -> f64| move |traffic: &str| row(traffic, name).map(value);
    line("events/s over kube-rs typed", "≥ 20", &ratio(OURS, KUBE_TYPED, Row::rate));
    line("the same, both with mimalloc", "≥ 12", &ratio(OURS_MIMALLOC, KUBE_MIMALLOC, Row::rate));
    line("the same, both with our allocator, jemalloc", "≥ 12", &ratio(OURS, KUBE_JEMALLOC, Row::rate));
    line("events/s over client-go typed", "≥ 60", &ratio(OURS, GO_TYPED, Row::rate));
    line("events/s over client-go typed, updates merge", "", &ratio(OURS_MERGED, GO_TYPED, Row::rate));
    line("events/s relative to the drain", "≥ 0.45", &ratio(OURS, DRAIN, Row::rate));
    let chunked = |traffic: &str, name: &str| ingest.row(traffic, name, "chunked").map(Row::rate);
    line("events/s over kube-rs typed, one chunk per event", "≥ 14", &|traffic| {
        Some(chunked(traffic, OURS)? / chunked(traffic, KUBE_TYPED)?)
    });
    line("events/s with one chunk per event relative to packed chunks", "≥ 0.7", &|traffic| {
        Some(chunked(traffic, OURS)? / row(traffic, OURS)?.rate())
    });
    line(
        "list and first sync over kube-rs typed",
        "≥ 3",
        &ratio(KUBE_TYPED, OURS, |row| row.median.list_seconds),
    );
    line("CPU per event, µs", "≤ 4", &of(OURS, Row::cpu_micros));
    line("CPU per event relative to kube-rs typed", "", &ratio(OURS, KUBE_TYPED, Row::cpu_micros));
    let resident: fn(&Row) -> f64 = |row| row.median.listed.resident_mib;
    line("memory after the list relative to client-go typed", "≤ 0.2", &ratio(OURS, GO_TYPED, resident));
    line("memory after the list relative to kube-rs typed", "≤ 0.08", &ratio(OURS, KUBE_TYPED, resident));
    let peak: fn(&Row) -> f64 = |row| row.median.listed.peak_mib / row.median.listed.resident_mib;
    line("peak memory of the first list relative to after it", "≤ 1.15", &of(OURS, peak));
    let compressed = "memory after the list with a compressed cache relative to without";
    line(compressed, "≤ 0.35", &ratio(OURS_COMPRESSED, OURS, resident));
    line("CPU per event with a compressed cache, µs", "≤ 10", &of(OURS_COMPRESSED, Row::cpu_micros));
    let read: fn(&Row) -> f64 = |row| row.median.output["readNanos"].as_f64().unwrap_or(f64::NAN);
    line("reading an object from the cache, ns", "≤ 300", &of(OURS, read));
    line("the same from a compressed cache, ns", "", &of(OURS_COMPRESSED, read));
    let growth: fn(&Row) -> f64 = |row| row.median.done.resident_mib / row.median.listed.resident_mib;
    line("memory after the events relative to after the list", "", &of(OURS, growth));
    later_ratios(&mut line, ingest, growth);
    text.push('\n');
}

/// Writes the lines about relists and about many events, which are measured with realistic traffic.
fn later_ratios(
    line: &mut impl FnMut(&str, &str, &dyn Fn(&str) -> Option<f64>),
    ingest: &Ingest,
    growth: fn(&Row) -> f64,
) {
    let mut realistic = |what: &str, target: &str, reached: Option<f64>| {
        line(what, target, &|traffic| reached.filter(|_| traffic == REALISTIC));
    };
    let relist = |percent| {
        let found = ingest.relists.iter().find(|(name, changed, _)| (*name, *changed) == (OURS, percent));
        found.map(|(_, _, relist)| relist.peak_mib / relist.before_mib)
    };
    realistic(
        "peak memory of a relist with 10 % changed objects relative to before it",
        "≤ 1.15",
        relist(10),
    );
    realistic("the same, 100 % changed", "", relist(100));
    let long = ingest.long.as_ref();
    realistic("memory after 10,000,000 events relative to after the list", "", long.map(growth));
    let idle_growth = |row: &Row| Some(row.median.idle?.resident_mib / row.median.listed.resident_mib);
    let idle = "the same 12 s later, when the allocator has returned free memory";
    realistic(idle, "≤ 1.15", long.and_then(idle_growth));
}

fn table(text: &mut String, ingest: &Ingest, table: (&str, &str)) {
    text.push_str("| consumer | events | list s | events/s | delivered | CPU µs/event | MiB after list / peak | MiB at end / peak |\n|---|---|---|---|---|---|---|---|\n");
    for row in ingest.rows.iter().filter(|row| (row.traffic, row.framing) == table) {
        let Row { name, median, events, .. } = row;
        let _ = writeln!(
            text,
            "| {name} | {} | {:.2} | {} | {} | {} | {:.0} / {:.0} | {:.0} / {:.0} |",
            number(*events as f64),
            median.list_seconds,
            number(row.rate()),
            number(median.delivered),
            number(row.cpu_micros()),
            median.listed.resident_mib,
            median.listed.peak_mib,
            median.done.resident_mib,
            median.done.peak_mib,
        );
    }
    text.push('\n');
}

fn relists(text: &mut String, ingest: &Ingest) {
    text.push_str(
        "### Relist\n\nThe watch has expired, and the given percentage of the objects has changed.\n\n\
         | consumer | changed | MiB before | peak | after | peak / before |\n|---|---|---|---|---|---|\n",
    );
    for (name, percent, relist) in &ingest.relists {
        let _ = writeln!(
            text,
            "| {name} | {percent} % | {:.0} | {:.0} | {:.0} | {:.2} |",
            relist.before_mib,
            relist.peak_mib,
            relist.after_mib,
            relist.peak_mib / relist.before_mib
        );
    }
    text.push('\n');
}

fn latency(text: &mut String, rows: &[Row]) {
    text.push_str(
        "### From the socket to the handler, at 20,000 events/s\n\nMicroseconds from just before the event's bytes are written to the handler's first instruction; \
         the latency of a consumer that cannot keep up grows.\n\n| consumer | p50 | p90 | p99 | max |\n|---|---|---|---|---|\n",
    );
    for row in rows {
        let at = |name: &str| {
            let nanos = row.median.output["latencyNanos"][name].as_f64();
            nanos.map_or_else(|| "–".to_owned(), |nanos| number(nanos / 1000.0))
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            row.name,
            at("p50"),
            at("p90"),
            at("p99"),
            at("max")
        );
    }
    text.push('\n');
}

fn growth(text: &mut String, points: &[Point]) {
    text.push_str("### As the number of objects grows\n\nObjects of 300 bytes.\n\n| consumer | objects | list s | events/s | MiB after list | bytes per object |\n|---|---|---|---|---|---|\n");
    for point in points {
        let resident = point.run.listed.resident_mib;
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {} | {} | {} |",
            point.name,
            number(point.objects as f64),
            point.run.list_seconds,
            number(point.events as f64 / point.run.event_seconds),
            number(resident),
            number(resident * 1024.0 * 1024.0 / point.objects as f64),
        );
    }
    text.push_str("\n![memory](plots/growth-memory.svg)\n![events](plots/growth-events.svg)\n\n");
}

pub(super) fn end_to_end(runs: &[EndToEnd], scale: Scale) -> String {
    let mut text = format!(
        "## The sample controller, end to end\n\nThe driver creates, scales and deletes {} Foos on the embedded API server. CPU and memory are those of the \
         controller process. The controllers write no Events, except that the plugin writes one per second: kube-rs's recorder scans all Events it has written \
         for each new one. The plugin's other rate limits are lifted. kube-rs reconciles all due objects concurrently; the others use the given number of \
         workers.\n\n{}\n\n\
         | controller | phases, s | CPU s | peak MiB |\n|---|---|---|---|\n",
        number(scale.foos as f64),
        machine(),
    );
    for run in runs {
        let phases: Vec<_> =
            run.phases.iter().map(|(phase, seconds)| format!("{phase} {}", number(*seconds))).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            run.name,
            phases.join(", "),
            number(run.usage.cpu_seconds),
            number(run.usage.peak_mib)
        );
    }
    text
}

pub(super) fn wasm(lines: &[Value]) -> String {
    let mut text = format!("## Through wasm, starts and reloads\n\n{}\n\n", machine());
    text.push_str("| figure | value | target | beside |\n|---|---|---|---|\n");
    for line in lines {
        let value = line["value"].as_f64().map_or_else(|| "–".to_owned(), number);
        let target = match (line["target"]["is"].as_str(), line["target"]["value"].as_f64()) {
            (Some(is), Some(value)) => format!("{is} {}", number(value)),
            _ => String::new(),
        };
        let beside: Vec<_> = line["beside"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("{name}: {}", value.as_f64().map_or_else(String::new, number)))
            .collect();
        let (name, unit) =
            (line["figure"].as_str().unwrap_or("?"), line["unit"].as_str().unwrap_or_default());
        let _ = writeln!(text, "| {name} | {value} {unit} | {target} | {} |", beside.join("; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_replaces_the_one_with_the_same_title() {
        let one = with_section(&header(), "## One\n\nfirst\n\n### Of one\n\nmore\n");
        let two = with_section(&one, "## Two\n\nsecond\n");
        assert_eq!(two, format!("{}## One\n\nfirst\n\n### Of one\n\nmore\n\n## Two\n\nsecond\n\n", header()));
        let again = with_section(&two, "## One\n\nthird\n\n");
        assert_eq!(again, format!("{}## One\n\nthird\n\n## Two\n\nsecond\n\n", header()));
        assert_eq!(with_section(&again, "## Two\n\nsecond\n"), again);
    }
}
