//! Renders the report's section about many plugins.

use std::fmt::Write;

use super::super::plot::{curves, number};
use super::super::report::machine;
use super::{Latency, Plugins, Point, SHARED, SLOW_RATE};

pub(super) const RECONCILE: &str = "Pilothouse, a plugin's reconcile";
pub(super) const OBSERVE: &str = "Pilothouse, a plugin's observe";
pub(super) const NATIVE: &str = "Pilothouse, native subscriber";
pub(super) const KUBE_RS: &str = "kube-rs controller, reconciler";

/// Returns the plots by file name.
pub(crate) fn plots(plugins: &Plugins) -> Vec<(String, String)> {
    let curve = |name: &str, value: fn(&Point) -> Option<f64>| {
        let points = plugins.growth.iter();
        (
            name.to_owned(),
            points.filter_map(|point| Some((point.plugins as f64, value(point)?))).collect::<Vec<_>>(),
        )
    };
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
                "Private memory by the number of plugins",
                "MiB",
                &[curve("after the list", |point| Some(point.full.ready.private_mib))],
            ),
        ),
        (
            "plugins-latency.svg".to_owned(),
            curves(
                &format!("Latency by the number of plugins, at {SLOW_RATE} events/s"),
                "µs",
                &[
                    curve("p50", |point| Some(point.slow.as_ref()?.latency[0] / 1e3)),
                    curve("p99", |point| Some(point.slow.as_ref()?.latency[2] / 1e3)),
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
    text.push_str(
        "![events](plots/plugins-events.svg)\n![memory](plots/plugins-memory.svg)\n![latency](plots/plugins-latency.svg)\n",
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
