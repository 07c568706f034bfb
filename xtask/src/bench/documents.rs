//! Writes measured figures into documents, from the results of the last runs. Nobody types them, so that they are those of the report.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::plot::number;
use super::{Benchmark, results};

/// The document with the figures.
const DOCUMENT: &str = "README.md";
const BEGIN: &str =
    "<!-- The figures down to the next comment are written by `cargo xtask bench --readme`. -->";
const END: &str = "<!-- End of the figures. -->";

/// The rows that the document compares. Each is the name of a consumer or controller in the results.
const OURS: &str = super::ingest::OURS;
const KUBE_RS: &str = super::ingest::KUBE_TYPED;
const CLIENT_GO: &str = super::ingest::GO_TYPED;
const OUR_RECONCILE: &str = super::plugins::RECONCILE;
const KUBE_RS_RECONCILE: &str = super::plugins::KUBE_RS;
const OUR_SAMPLE: &str = "Pilothouse, the plugin, 8 workers";
const KUBE_RS_SAMPLE: &str = "kube-rs";
/// The idle plugins that the document shows: the language, and their number.
const IDLE: (&str, u64) = ("Rust", 1000);

/// Units of performance, which the document may have only among the written figures.
const UNITS: [&str; 9] = ["×", "µs", "ms", "ns", "KiB", "MiB", "GiB", "events/s", "%"];

/// The results of the parts that the document quotes.
struct Results {
    ingest: Value,
    end_to_end: Value,
    plugins: Value,
    density: Value,
    /// `None` before the first run of this part.
    scale: Option<Value>,
}

impl Results {
    fn read(root: &Path) -> Result<Self> {
        let required = |part| {
            let name = results::name(part);
            let found = results::read(root, part)?;
            found.with_context(|| {
                format!("bench/results/{name}.json is missing; run `cargo xtask bench --only {name}`")
            })
        };
        Ok(Self {
            ingest: required(Benchmark::Ingest)?,
            end_to_end: required(Benchmark::EndToEnd)?,
            plugins: required(Benchmark::Plugins)?,
            density: required(Benchmark::Density)?,
            scale: results::read(root, Benchmark::Scale)?,
        })
    }
}

/// Writes the figures into the document.
///
/// # Errors
/// Errors if a part was never run, or the document lacks the comments between which the figures are.
pub(crate) fn update(root: &Path) -> Result<()> {
    let path = root.join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("read {DOCUMENT}"))?;
    let updated = with_figures(&text, &figures(&Results::read(root)?)?)?;
    fs::write(&path, updated).with_context(|| format!("write {DOCUMENT}"))?;
    println!("bench: wrote the figures of {DOCUMENT}");
    Ok(())
}

/// Returns a line for each difference between the document's figures and the results, and for each figure that somebody typed.
///
/// # Errors
/// Errors if the document or the results cannot be read.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(DOCUMENT)).with_context(|| format!("read {DOCUMENT}"))?;
    let mut found = typed_figures(&text);
    if with_figures(&text, &figures(&Results::read(root)?)?)? != text {
        found.push(format!(
            "{DOCUMENT}: the figures are not those of bench/results; run `cargo xtask bench --readme`"
        ));
    }
    Ok(found)
}

/// Splits a document into the text before the figures, the figures, and the text after them. The comments belong to the text.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    Some((&text[..begin], &text[begin..end], &text[end..]))
}

fn with_figures(text: &str, figures: &str) -> Result<String> {
    let Some((before, _, after)) = split(text) else {
        bail!("{DOCUMENT} lacks the comments {BEGIN:?} and {END:?}, between which the figures are written")
    };
    Ok(format!("{before}\n\n{figures}\n{after}"))
}

/// Returns a line for each line of the document with a number and a unit of performance, apart from the written figures.
fn typed_figures(text: &str) -> Vec<String> {
    let (before, _, after) = split(text).unwrap_or((text, "", ""));
    let lines = before.lines().chain(after.lines()).filter(|line| has_figure(line));
    lines
        .map(|line| {
            format!(
                "{DOCUMENT}: {line:?} has a figure; only `cargo xtask bench --readme` writes figures, so link to bench/REPORT.md instead"
            )
        })
        .collect()
}

/// Whether a line has a number with a unit, such as `3 µs` or `3µs`.
fn has_figure(line: &str) -> bool {
    let words: Vec<&str> =
        line.split(|character: char| character.is_whitespace() || "|(),;".contains(character)).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let is_number = |word: &str| {
        word.chars().any(|character| character.is_ascii_digit())
            && word.chars().all(|character| character.is_ascii_digit() || ".–-".contains(character))
    };
    let unit = |word: &str| UNITS.contains(&word.trim_end_matches('.'));
    let is_pair = words.windows(2).any(|pair| is_number(pair[0]) && unit(pair[1]));
    let joined = |word: &&str| {
        let word = word.trim_end_matches('.');
        UNITS.iter().any(|unit| word.strip_suffix(unit).is_some_and(is_number))
    };
    is_pair || words.iter().any(joined)
}

/// Returns the document's tables.
fn figures(results: &Results) -> Result<String> {
    let mut text = String::new();
    ingest(&mut text, &results.ingest)?;
    text.push('\n');
    controllers(&mut text, results)?;
    if let Some(scale) = &results.scale {
        text.push('\n');
        at_scale(&mut text, scale, &results.plugins)?;
    }
    Ok(text)
}

/// Returns the element of a list whose members have these values.
fn find<'a>(results: &'a Value, list: &str, members: &[(&str, &str)]) -> Option<&'a Value> {
    let matches = |element: &&Value| members.iter().all(|(name, value)| element[*name] == *value);
    results[list].as_array()?.iter().find(matches)
}

fn required<'a>(
    part: Benchmark,
    results: &'a Value,
    list: &str,
    members: &[(&str, &str)],
) -> Result<&'a Value> {
    let name = results::name(part);
    find(results, list, members).with_context(|| {
        format!(
            "bench/results/{name}.json has no {members:?} in {list}; run `cargo xtask bench --only {name}`"
        )
    })
}

/// Returns the number at a JSON pointer.
fn at(value: &Value, pointer: &str) -> Result<f64> {
    let number = value.pointer(pointer).and_then(Value::as_f64);
    number.with_context(|| format!("the results have no number {pointer}; run `cargo xtask bench` again"))
}

/// The kinds of traffic of the part `ingest`, the one that the document leads with first.
const TRAFFIC: [&str; 2] = ["realistic", "uniform"];

fn ingest(text: &mut String, ingest: &Value) -> Result<()> {
    let row = |traffic, consumer| [("traffic", traffic), ("framing", "packed"), ("consumer", consumer)];
    let measured = TRAFFIC.iter().filter(|&&traffic| find(ingest, "rows", &row(traffic, OURS)).is_some());
    let measured: Vec<&str> = measured.copied().collect();
    let lead = measured
        .first()
        .context("bench/results/ingest.json has no rows; run `cargo xtask bench --only ingest`")?;
    let _ = writeln!(
        text,
        "| {} Pods, then {} changes, {lead} traffic | ratio to kube-rs (typed) | ratio to client-go (typed, JSON) |\n|---|---|---|",
        number(at(ingest, "/objects")?),
        number(at(ingest, "/events")?)
    );
    for &traffic in &measured {
        let ours = required(Benchmark::Ingest, ingest, "rows", &row(traffic, OURS))?;
        let kube_rs = required(Benchmark::Ingest, ingest, "rows", &row(traffic, KUBE_RS))?;
        // Absent from runs on a machine without Go.
        let client_go = find(ingest, "rows", &row(traffic, CLIENT_GO));
        let suffix = if traffic == *lead { String::new() } else { format!(", {traffic} traffic") };
        for (title, pointer) in [
            ("events per second, one informer (higher is better)", "/eventsPerSecond"),
            ("CPU time per event (lower is better)", "/cpuMicrosPerEvent"),
            ("memory after the first list (lower is better)", "/run/listed/residentMib"),
        ] {
            let ratio = |peer: &Value| -> Result<String> {
                Ok(format!("{} ×", number(at(ours, pointer)? / at(peer, pointer)?)))
            };
            let client_go = client_go.map_or_else(|| Ok("not measured".to_owned()), ratio)?;
            let _ = writeln!(text, "| {title}{suffix} | {} | {client_go} |", ratio(kube_rs)?);
        }
    }
    Ok(())
}

fn controllers(text: &mut String, results: &Results) -> Result<()> {
    text.push_str("| controllers | Pilothouse | kube-rs |\n|---|---|---|\n");
    let latency = |consumer| -> Result<String> {
        let row = required(Benchmark::Plugins, &results.plugins, "latencies", &[("consumer", consumer)])?;
        Ok(duration(at(row, "/latencyNanos/p50")?))
    };
    let _ = writeln!(
        text,
        "| event-to-reconcile latency at 20,000 events/s, p50 | {} | {} |",
        latency(OUR_RECONCILE)?,
        latency(KUBE_RS_RECONCILE)?
    );
    let (language, plugins) = IDLE;
    let hosts = results.density["hosts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let idle = hosts.iter().find(|host| host["language"] == language && host["plugins"] == plugins);
    let idle =
        idle.with_context(|| format!("bench/results/density.json has no {plugins} plugins in {language}"))?;
    let _ = writeln!(
        text,
        "| private memory per idle {language} controller, with {} controllers | {} KiB | {} KiB (one process each) |",
        number(plugins as f64),
        number(at(idle, "/eachKib")?),
        number(at(&results.density, "/peers/privateKib")?)
    );
    let foos = number(at(&results.end_to_end, "/foos")?);
    let sample = |controller| {
        required(Benchmark::EndToEnd, &results.end_to_end, "rows", &[("controller", controller)])
    };
    let (ours, theirs) = (sample(OUR_SAMPLE)?, sample(KUBE_RS_SAMPLE)?);
    for (title, pointer, unit) in
        [("CPU time", "/usage/cpuSeconds", "s"), ("peak memory", "/usage/peakMib", "MiB")]
    {
        let _ = writeln!(
            text,
            "| {title} of the sample controller ({foos} Foos, 8 workers) | {} {unit} | {} {unit} |",
            number(at(ours, pointer)?),
            number(at(theirs, pointer)?)
        );
    }
    Ok(())
}

/// Writes what a large cluster and many plugins cost.
fn at_scale(text: &mut String, scale: &Value, plugins: &Value) -> Result<()> {
    text.push_str("| at scale | |\n|---|---|\n");
    let mut line = |what: &str, figure: &str| {
        let _ = writeln!(text, "| {what} | {figure} |");
    };
    let points = scale["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let compressed = points.iter().filter(|point| point["consumer"] == super::scale::OURS_COMPRESSED);
    let largest = compressed.max_by_key(|point| point["objects"].as_u64());
    let largest =
        largest.context("bench/results/scale.json has no objects; run `cargo xtask bench --only scale`")?;
    let objects = number(at(largest, "/objects")?);
    line(
        &format!("memory of {objects} Pods in a compressed cache"),
        &format!("{} GiB", number(at(largest, "/run/listed/residentMib")? / 1024.0)),
    );
    line("their first list", &format!("{} s", number(at(largest, "/run/listSeconds")?)));
    line("their changes, one informer", &format!("{} events/s", number(at(largest, "/eventsPerSecond")?)));
    let points = plugins["growth"].as_array().map(Vec::as_slice).unwrap_or_default();
    let most = points.iter().max_by_key(|point| point["plugins"].as_u64());
    let most =
        most.context("bench/results/plugins.json has no growth; run `cargo xtask bench --only plugins`")?;
    line(
        &format!("changes that {} plugins watch and all but one refuse", number(at(most, "/plugins")?)),
        &format!("{} events/s", number(at(most, "/eventsPerSecond")?)),
    );
    line("CPU time of each of these changes", &format!("{} µs", number(at(most, "/cpuMicrosPerEvent")?)));
    Ok(())
}

/// Formats a duration in nanoseconds with a unit.
fn duration(nanos: f64) -> String {
    match nanos {
        nanos if nanos < 1e6 => format!("{} µs", number(nanos / 1e3)),
        nanos if nanos < 1e9 => format!("{} ms", number(nanos / 1e6)),
        nanos => format!("{} s", number(nanos / 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_text_between_the_comments_is_replaced() {
        let text = format!("# A\n\n{BEGIN}\n\nold\n{END}\n\n## B\n");
        let updated = with_figures(&text, "| 3 × |\n").expect("the comments are there");
        assert_eq!(updated, format!("# A\n\n{BEGIN}\n\n| 3 × |\n\n{END}\n\n## B\n"));
        assert_eq!(with_figures(&updated, "| 3 × |\n").expect("the comments are there"), updated);
        assert!(with_figures("# A\n", "").is_err());
    }

    #[test]
    fn typed_figures_are_found_outside_of_the_comments() {
        let text = format!("It takes 3 µs.\n{BEGIN}\n\n| 34 × | 54 KiB |\n\n{END}\nUp to 10.5× (in 40 ms)\n");
        assert_eq!(typed_figures(&text).len(), 2, "{:?}", typed_figures(&text));
        for line in
            ["Kubernetes 1.22 or newer", "port 9464, `events.k8s.io/v1`", "7 steps", "the ms of 3 plugins"]
        {
            assert!(!has_figure(line), "{line}");
        }
        for line in ["| a | 66 × |", "100,000 events/s", "9% less", "(1.5 GiB)"] {
            assert!(has_figure(line), "{line}");
        }
    }

    #[test]
    fn durations_have_a_fitting_unit() {
        assert_eq!([82_700.0, 109_567_000.0, 2e9].map(duration), ["82.7 µs", "110 ms", "2 s"]);
    }

    fn results() -> Results {
        let row = |traffic: &str, consumer: &str, rate: f64, mib: f64| {
            json!({"traffic": traffic, "consumer": consumer, "framing": "packed", "eventsPerSecond": rate, "cpuMicrosPerEvent": 1e6 / rate,
                   "run": {"listed": {"residentMib": mib}}})
        };
        let latency = |consumer: &str, p50: f64| json!({"consumer": consumer, "latencyNanos": {"p50": p50}});
        let sample = |controller: &str, seconds: f64| json!({"controller": controller, "usage": {"cpuSeconds": seconds, "peakMib": 10.0 * seconds}});
        Results {
            ingest: json!({"objects": 20_000, "events": 200_000, "rows": [
                row("uniform", OURS, 440_000.0, 72.0),
                row("uniform", KUBE_RS, 11_000.0, 720.0),
                row("realistic", OURS, 220_000.0, 90.0),
                row("realistic", KUBE_RS, 11_000.0, 720.0),
            ]}),
            end_to_end: json!({"foos": 10_000, "rows": [sample(OUR_SAMPLE, 8.0), sample(KUBE_RS_SAMPLE, 14.0)]}),
            plugins: json!({
                "latencies": [latency(OUR_RECONCILE, 82_700.0), latency(KUBE_RS_RECONCILE, 1.1e8)],
                "growth": [
                    {"plugins": 1000, "eventsPerSecond": 226_000.0, "cpuMicrosPerEvent": 6.5},
                    {"plugins": 1, "eventsPerSecond": 280_000.0, "cpuMicrosPerEvent": 5.0},
                ],
            }),
            density: json!({"hosts": [{"language": "Rust", "plugins": 1000, "eachKib": 54}], "peers": {"privateKib": 1042}}),
            scale: None,
        }
    }

    #[test]
    fn the_tables_have_the_ratios_of_the_results() {
        let text = figures(&results()).expect("complete results");
        for line in [
            "| 20,000 Pods, then 200,000 changes, realistic traffic | ratio to kube-rs (typed) | ratio to client-go (typed, JSON) |",
            "| events per second, one informer (higher is better) | 20 × | not measured |",
            "| events per second, one informer (higher is better), uniform traffic | 40 × | not measured |",
            "| memory after the first list (lower is better), uniform traffic | 0.1 × | not measured |",
            "| event-to-reconcile latency at 20,000 events/s, p50 | 82.7 µs | 110 ms |",
            "| private memory per idle Rust controller, with 1,000 controllers | 54 KiB | 1,042 KiB (one process each) |",
            "| peak memory of the sample controller (10,000 Foos, 8 workers) | 80 MiB | 140 MiB |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("at scale"), "{text}");
    }

    #[test]
    fn what_large_clusters_and_many_plugins_cost_has_a_table() {
        let point = |objects: u64, mib: f64| {
            json!({"consumer": super::super::scale::OURS_COMPRESSED, "objects": objects, "eventsPerSecond": 90_000.0,
                   "run": {"listSeconds": 40.0, "listed": {"residentMib": mib}}})
        };
        let scale = json!({"objects": [point(1000, 5.0), point(1_000_000, 1024.0)]});
        let text = figures(&Results { scale: Some(scale), ..results() }).expect("complete results");
        for line in [
            "| memory of 1,000,000 Pods in a compressed cache | 1 GiB |",
            "| changes that 1,000 plugins watch and all but one refuse | 226,000 events/s |",
            "| CPU time of each of these changes | 6.5 µs |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_missing_result_says_which_part_to_run() {
        let incomplete = Results { end_to_end: json!({"foos": 1, "rows": []}), ..results() };
        let error = figures(&incomplete).expect_err("a row is missing").to_string();
        assert!(error.contains("cargo xtask bench --only end-to-end"), "{error}");
    }
}
