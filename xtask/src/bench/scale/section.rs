//! Renders the report's section about large clusters and many plugins.

use std::fmt::Write;

use serde_json::{Value, json};

use super::super::plot::{curves, number};
use super::super::report::machine;
use super::super::results::run;
use super::objects::{CLIENT_GO, InformersRun, KUBE_RS, OURS, OURS_COMPRESSED, Point};
use super::{FirstStart, ScaleResults};

/// Returns the plots by file name.
pub(crate) fn plots(scale: &ScaleResults) -> Vec<(String, String)> {
    let curve = |value: fn(&Point) -> Option<f64>| {
        [OURS, OURS_COMPRESSED, KUBE_RS, CLIENT_GO].map(|name| {
            let points = scale.points.iter().filter(|point| point.name == name);
            let points = points.filter_map(|point| Some((point.objects as f64, value(point)?)));
            (name.to_owned(), points.collect::<Vec<_>>())
        })
    };
    let memory = curve(|point| Some(point.run.as_ref()?.listed.resident_mib));
    let list = curve(|point| Some(point.run.as_ref()?.list_seconds));
    let cpu = curve(Point::cpu_micros);
    vec![
        (
            "scale-memory.svg".to_owned(),
            curves("Resident memory after the list by the number of Pods", "MiB", &memory),
        ),
        ("scale-list.svg".to_owned(), curves("Time of the first list by the number of Pods", "s", &list)),
        ("scale-cpu.svg".to_owned(), curves("CPU time per event by the number of Pods", "µs", &cpu)),
    ]
}

/// Returns the results as JSON.
pub(crate) fn results(scale: &ScaleResults) -> Value {
    let objects = scale.points.iter().map(|point| {
        json!({
            "consumer": point.name,
            "objects": point.objects,
            "events": point.events,
            "eventsPerSecond": point.rate(),
            "cpuMicrosPerEvent": point.cpu_micros(),
            "run": point.run.as_ref().map(run),
            "memoryLimitBytes": point.limit,
        })
    });
    let InformersRun { informers, objects: informer_objects, events, watches, run: informers_run } =
        &scale.informers;
    let FirstStart { plugins, seconds, compiler_cpu_seconds, progress, cached_seconds } = &scale.first_start;
    json!({
        "objects": objects.collect::<Vec<_>>(),
        "informers": {
            "informers": informers,
            "objects": informer_objects,
            "events": events,
            "watches": watches,
            "run": run(informers_run),
        },
        "firstStart": {
            "plugins": plugins,
            "seconds": seconds,
            "compilerCpuSeconds": compiler_cpu_seconds,
            "progress": progress,
            "cachedSeconds": cached_seconds,
        },
    })
}

/// Returns the section.
pub(crate) fn section(scale: &ScaleResults) -> String {
    let mut text = format!(
        "## At scale\n\nA server that generates Pods while it serves them, of 400 workloads and 3.5 KB each. Every event is a status update; every second one of a \
         Pod makes it unready. Slow consumers read fewer events. One run of each.\n\n{}\n\n",
        machine()
    );
    targets(&mut text, scale);
    points(&mut text, &scale.points);
    informers(&mut text, &scale.informers);
    first_start(&mut text, &scale.first_start);
    text
}

fn targets(text: &mut String, scale: &ScaleResults) {
    text.push_str("### Targets\n\n| what | target | reached |\n|---|---|---|\n");
    let mut line = |what: &str, target: &str, reached: Option<f64>| {
        let reached = reached.map_or_else(|| "not measured".to_owned(), number);
        let _ = writeln!(text, "| {what} | {target} | {reached} |");
    };
    let compressed = scale.points.iter().filter(|point| point.name == OURS_COMPRESSED);
    let largest = compressed.max_by_key(|point| point.objects);
    let pods = largest.map_or_else(String::new, |point| number(point.objects as f64));
    let run = largest.and_then(|point| point.run.as_ref());
    line(
        &format!("memory of {pods} Pods in a compressed cache, GiB"),
        "≤ 1.2",
        run.map(|run| run.listed.resident_mib / 1024.0),
    );
    line("peak memory of their first list, GiB", "", run.map(|run| run.listed.peak_mib / 1024.0));
    line("seconds of their first list", "≤ 60", run.map(|run| run.list_seconds));
    line("their events/s", "≥ 100,000", largest.and_then(Point::rate));
    let start = &scale.first_start;
    line(
        &format!(
            "first start of {} plugins, relative to the compilers' CPU time",
            number(start.plugins as f64)
        ),
        "≤ 1.05",
        Some(start.per_core()),
    );
    text.push('\n');
}

fn points(text: &mut String, points: &[Point]) {
    text.push_str(
        "### As the number of Pods grows\n\n| consumer | Pods | events | list s | events/s | CPU µs/event | MiB after list / peak | bytes per Pod |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for point in points {
        let (name, objects) = (point.name, number(point.objects as f64));
        let Some(run) = &point.run else {
            let gib = number(point.limit as f64 / f64::from(1 << 30));
            let _ = writeln!(text, "| {name} | {objects} | – | – | – | – | more than {gib} GiB | – |");
            continue;
        };
        let _ = writeln!(
            text,
            "| {name} | {objects} | {} | {:.2} | {} | {} | {:.0} / {:.0} | {} |",
            number(point.events as f64),
            run.list_seconds,
            number(point.rate().unwrap_or(f64::NAN)),
            number(point.cpu_micros().unwrap_or(f64::NAN)),
            run.listed.resident_mib,
            run.listed.peak_mib,
            number(run.listed.resident_mib * 1024.0 * 1024.0 / point.objects as f64),
        );
    }
    text.push_str(
        "\nA consumer that needs more memory than the limit ends, and is not run with more Pods.\n\n![memory](plots/scale-memory.svg)\n\
         ![list](plots/scale-list.svg)\n![CPU](plots/scale-cpu.svg)\n\n",
    );
}

fn informers(text: &mut String, informers: &InformersRun) {
    let InformersRun { informers, objects, events, watches, run } = informers;
    let cpu = (run.done.cpu_seconds - run.listed.cpu_seconds) * 1e6 / *events as f64;
    let _ = writeln!(
        text,
        "### {} informers in one process\n\nEach is of another kind, with a connection and a subscriber of its own; all run on one thread.\n\n\
         | informers | watch requests | objects | events | all synced, s | events/s | CPU µs/event | MiB after the lists | KiB per informer |\n\
         |---|---|---|---|---|---|---|---|---|\n| {} | {} | {} | {} | {:.2} | {} | {} | {:.0} | {} |\n",
        number(*informers as f64),
        number(*informers as f64),
        number(*watches),
        number(*objects as f64),
        number(*events as f64),
        run.list_seconds,
        number(*events as f64 / run.event_seconds),
        number(cpu),
        run.listed.resident_mib,
        number(run.listed.resident_mib * 1024.0 / *informers as f64),
    );
}

fn first_start(text: &mut String, start: &FirstStart) {
    let shown = start.progress.iter().filter(|(_, done, total)| done < total).count();
    let _ = writeln!(
        text,
        "### The first start of {} distinct plugins\n\nThe guest `probe`, each in its own file. The host leaves one core to plugins that run already. It reported \
         the number of loaded plugins {} times, a second apart, before all were loaded.\n\n\
         | plugins | until all run, s | CPU of the compilers, s | CPU ms per plugin | again, from the cache, s |\n|---|---|---|---|---|\n\
         | {} | {} | {} | {} | {} |\n",
        number(start.plugins as f64),
        number(shown as f64),
        number(start.plugins as f64),
        number(start.seconds),
        number(start.compiler_cpu_seconds),
        number(start.compiler_cpu_seconds * 1e3 / start.plugins as f64),
        number(start.cached_seconds),
    );
}

#[cfg(test)]
mod tests {
    use super::super::super::process::{Run, Usage};
    use super::*;

    fn point(name: &'static str, objects: usize, run: Option<Run>) -> Point {
        Point { name, objects, events: 1_000, run, limit: 4 << 30 }
    }

    #[test]
    fn a_consumer_that_ended_early_has_a_row_without_figures() {
        let listed = Usage { resident_mib: 1_024.0, peak_mib: 1_024.0, ..Usage::default() };
        let run = Run { list_seconds: 30.0, event_seconds: 0.01, listed, done: listed, ..Run::default() };
        let results = ScaleResults {
            points: vec![
                point(OURS_COMPRESSED, 1_000_000, Some(run.clone())),
                point(KUBE_RS, 1_000_000, None),
            ],
            informers: InformersRun { informers: 10, objects: 100, events: 100, watches: 10.0, run },
            first_start: FirstStart {
                plugins: 2,
                seconds: 2.0,
                compiler_cpu_seconds: 2.0,
                progress: vec![(0.1, 0, 2), (1.1, 2, 2)],
                cached_seconds: 0.1,
            },
        };
        let section = section(&results);
        for line in [
            "| memory of 1,000,000 Pods in a compressed cache, GiB | ≤ 1.2 | 1 |",
            "| kube-rs reflector, typed | 1,000,000 | – | – | – | – | more than 4 GiB | – |",
        ] {
            assert!(section.lines().any(|found| found == line), "{line}\n{section}");
        }
        assert!(section.contains("loaded plugins 1 times"), "{section}");
        assert!(plots(&results).iter().all(|(_, svg)| svg.contains("</svg>")));
        assert_eq!(super::results(&results)["objects"][1]["run"], Value::Null);
    }
}
