//! Renders the report's section about many plugins.

use std::fmt::Write;

use super::super::plot::{curves, number};
use super::super::report::machine;
use super::peers::PeerPoint;
use super::{Latency, Plugins, Point, SHARED, SLOW_RATE};

pub(crate) const RECONCILE: &str = "Pilothouse, a plugin's reconcile";
pub(super) const OBSERVE: &str = "Pilothouse, a plugin's observe";
pub(super) const NATIVE: &str = "Pilothouse, native subscriber";
pub(crate) const KUBE_RS: &str = "kube-rs controller, reconciler";
pub(super) const KUBE_RS_PROCESSES: &str = "kube-rs, a process each";
pub(super) const CLIENT_GO_PROCESSES: &str = "client-go, a process each";

/// Returns the plots by file name.
pub(crate) fn plots(plugins: &Plugins) -> Vec<(String, String)> {
    let curve = |name: &str, value: fn(&Point) -> Option<f64>| {
        let points = plugins.growth.iter();
        (
            name.to_owned(),
            points.filter_map(|point| Some((point.plugins as f64, value(point)?))).collect::<Vec<_>>(),
        )
    };
    let peer = |name: &str, value: fn(&PeerPoint) -> f64| {
        let points = plugins.peers.iter().filter(|point| point.name == name);
        (name.to_owned(), points.map(|point| (point.processes as f64, value(point))).collect::<Vec<_>>())
    };
    let slow_events = plugins.scale.objects / 20;
    let slow_cpu = plugins
        .growth
        .iter()
        .filter_map(|point| Some((point.plugins as f64, point.slow_cpu_micros(slow_events)?)));
    let slow_cpu = ("Pilothouse".to_owned(), slow_cpu.collect::<Vec<_>>());
    vec![
        (
            "plugins-events.svg".to_owned(),
            curves(
                "Events per second by the number of plugins",
                "/s",
                &[curve("events/s", |point| Some(point.events as f64 / point.full.seconds))],
            ),
        ),
        (
            "plugins-memory.svg".to_owned(),
            curves(
                "Private memory after the list by the number of plugins",
                "MiB",
                &[
                    curve("Pilothouse", |point| Some(point.full.ready.private_mib)),
                    peer(KUBE_RS_PROCESSES, |point| point.private_mib),
                    peer(CLIENT_GO_PROCESSES, |point| point.private_mib),
                ],
            ),
        ),
        (
            "plugins-cpu.svg".to_owned(),
            curves(
                &format!("CPU time per event by the number of plugins, at {SLOW_RATE} events/s"),
                "µs",
                &[
                    slow_cpu,
                    peer(KUBE_RS_PROCESSES, |point| point.cpu_micros),
                    peer(CLIENT_GO_PROCESSES, |point| point.cpu_micros),
                    curve("Pilothouse, at full speed", |point| Some(point.cpu_micros())),
                ],
            ),
        ),
        (
            "plugins-latency.svg".to_owned(),
            curves(
                &format!("Latency by the number of plugins, at {SLOW_RATE} events/s"),
                "µs",
                &[
                    curve("Pilothouse, p50", |point| Some(point.slow.as_ref()?.latency[0] / 1e3)),
                    peer(KUBE_RS_PROCESSES, |point| point.latency[0] / 1e3),
                    peer(CLIENT_GO_PROCESSES, |point| point.latency[0] / 1e3),
                    curve("Pilothouse, p99", |point| Some(point.slow.as_ref()?.latency[2] / 1e3)),
                ],
            ),
        ),
    ]
}

/// Returns the section.
pub(crate) fn section(plugins: &Plugins) -> String {
    let mut text = format!(
        "## Many plugins on one watch\n\nThe host's release binary runs the guest `probe`, written in Rust, against the fixture server. Each plugin is a \
         separate file. The first plugin processes every event; the predicates of the others reject every event.\n\n{}\n\n",
        machine()
    );
    targets(&mut text, plugins);
    latencies(&mut text, plugins);
    points(
        &mut text,
        &format!("{SHARED} plugins on {} Pods", number(plugins.scale.objects as f64)),
        &plugins.shared,
    );
    points(
        &mut text,
        &format!("As the number of plugins grows, on {} Pods", number((plugins.scale.objects / 20) as f64)),
        &plugins.growth,
    );
    peers(&mut text, plugins);
    text.push_str(
        "![events](plots/plugins-events.svg)\n![memory](plots/plugins-memory.svg)\n![CPU](plots/plugins-cpu.svg)\n\
         ![latency](plots/plugins-latency.svg)\n",
    );
    text
}

fn targets(text: &mut String, plugins: &Plugins) {
    text.push_str("### Targets\n\n| what | target | reached |\n|---|---|---|\n");
    let mut line = |what: &str, target: &str, reached: Option<f64>| {
        let reached = reached.map_or_else(|| "not measured".to_owned(), number);
        let _ = writeln!(text, "| {what} | {target} | {reached} |");
    };
    let latency = |name: &str| plugins.latencies.iter().find(|latency| latency.name == name);
    let ratio =
        |left: &str, right: &str, at: usize| Some(latency(left)?.nanos[at] / latency(right)?.nanos[at]);
    let rate = "at 20,000 events/s";
    line(
        &format!("{rate}, p50 of kube-rs' reconciler over a plugin's reconcile"),
        "≥ 1",
        ratio(KUBE_RS, RECONCILE, 0),
    );
    line("the same, p99", "≥ 1", ratio(KUBE_RS, RECONCILE, 2));
    line(
        &format!("{rate}, p50 of a plugin's reconcile over a native subscriber"),
        "",
        ratio(RECONCILE, NATIVE, 0),
    );
    line("the same, p99", "", ratio(RECONCILE, NATIVE, 2));
    let pair = plugins.shared.first().zip(plugins.shared.last());
    let further = (SHARED - 1) as f64;
    let many = plugins.shared.last();
    line(
        &format!("watch requests of {SHARED} plugins on the same watch"),
        "1",
        many.map(|many| many.full.watches),
    );
    line(
        "bytes read from the server, relative to 1 plugin",
        "1",
        pair.map(|(one, many)| many.full.received / one.full.received),
    );
    line(
        "bytes of cached objects, relative to 1 plugin",
        "1",
        pair.map(|(one, many)| many.full.cached / one.full.cached),
    );
    line(
        "CPU per event for each plugin that rejects it, µs",
        "≤ 1",
        pair.map(|(one, many)| (many.cpu_micros() - one.cpu_micros()) / further),
    );
    if let Some(most) = plugins.growth.last() {
        let count = number(most.plugins as f64);
        line(
            &format!("CPU per event with {count} plugins, of which one processes it, µs"),
            "≤ 15",
            Some(most.cpu_micros()),
        );
        line(
            &format!("events/s with {count} plugins"),
            "≥ 100,000",
            Some(most.events as f64 / most.full.seconds),
        );
    }
    line(
        &format!("memory with {SHARED} plugins, relative to 1 plugin"),
        "",
        pair.map(|(one, many)| many.full.ready.resident_mib / one.full.ready.resident_mib),
    );
    line(
        "private memory of each additional plugin right after its work, KiB",
        "",
        pair.map(|(one, many)| (many.full.ready.private_mib - one.full.ready.private_mib) * 1024.0 / further),
    );
    text.push('\n');
}

fn latencies(text: &mut String, plugins: &Plugins) {
    let _ = writeln!(
        text,
        "### From the socket to the guest, at 20,000 events/s\n\nMicroseconds from just before the event's bytes are written (one HTTP chunk per event) \
         to the first instruction of the guest, which reads its clock, or of the native handler. {} Pods. A consumer that falls behind may receive two \
         changes merged into one. Of {} runs, the one with the median p50.\n\n| consumer | p50 | p90 | p99 | max | measured |\n|---|---|---|---|---|---|",
        number((plugins.scale.objects / 10) as f64),
        plugins.scale.rounds,
    );
    for Latency { name, nanos, measured } in &plugins.latencies {
        let micros: Vec<_> = nanos.iter().map(|nanos| number(nanos / 1000.0)).collect();
        let _ = writeln!(text, "| {name} | {} | {} |", micros.join(" | "), number(*measured));
    }
    text.push('\n');
}

fn points(text: &mut String, title: &str, points: &[Point]) {
    let _ = writeln!(
        text,
        "### {title}\n\n| plugins | watch requests | events/s | merged | CPU µs/event | MiB read | MiB resident / private after the list | at the end | µs \
         at {SLOW_RATE} events/s, p50 / p99 |\n|---|---|---|---|---|---|---|---|---|"
    );
    for point in points {
        let Point { plugins, full, slow, .. } = point;
        let slow = slow.as_ref().map_or_else(
            || "–".to_owned(),
            |slow| format!("{} / {}", number(slow.latency[0] / 1e3), number(slow.latency[2] / 1e3)),
        );
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.0} | {:.0} / {:.0} | {:.0} / {:.0} | {slow} |",
            number(*plugins as f64),
            number(full.watches),
            number(point.events as f64 / full.seconds),
            number(full.merged),
            number(point.cpu_micros()),
            full.received / 1024.0 / 1024.0,
            full.ready.resident_mib,
            full.ready.private_mib,
            full.done.resident_mib,
            full.done.private_mib,
        );
    }
    text.push('\n');
}

fn peers(text: &mut String, plugins: &Plugins) {
    let _ = writeln!(
        text,
        "Controllers of the peers at {SLOW_RATE} events/s, each in a process of its own. The first one reconciles, the others only cache. More processes \
         than these need more memory and CPU time than the machine has.\n\n| peer | processes | private MiB after the list | CPU µs/event | µs, p50 / p99 \
         |\n|---|---|---|---|---|"
    );
    for point in &plugins.peers {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} / {} |",
            point.name,
            number(point.processes as f64),
            number(point.private_mib),
            number(point.cpu_micros),
            number(point.latency[0] / 1e3),
            number(point.latency[2] / 1e3),
        );
    }
    text.push('\n');
}
