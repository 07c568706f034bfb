//! A strict reader of the OpenMetrics text, for tests: it refuses what Prometheus' readers refuse.
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>

use std::collections::BTreeMap;

use pilothouse_model::hash::HashSet;

/// A sample line, taken apart.
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

struct Family {
    name: String,
    kind: String,
    samples: Vec<Sample>,
}

/// Reads a whole scrape.
///
/// # Errors
/// The line, and what is wrong with it.
pub(super) fn read(text: &str) -> Result<usize, String> {
    let text = text.strip_suffix("# EOF\n").ok_or("it does not end with # EOF")?;
    let mut families: Vec<Family> = Vec::new();
    let mut series = HashSet::default();
    for line in text.split_terminator('\n') {
        let wrong = |problem: &str| format!("{problem}: {line}");
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| wrong("no kind"))?;
            families.push(Family { name: name.to_owned(), kind: kind.to_owned(), samples: Vec::new() });
            continue;
        }
        if line.starts_with("# HELP ") || line.starts_with("# UNIT ") {
            continue;
        }
        let sample = sample(line).map_err(|problem| wrong(&problem))?;
        if !series.insert((sample.name.clone(), sample.labels.clone())) {
            return Err(wrong("a series is duplicated"));
        }
        let family = families.last_mut().ok_or_else(|| wrong("a sample before the first # TYPE"))?;
        let ending =
            sample.name.strip_prefix(&family.name).ok_or_else(|| wrong("a sample outside of its family"))?;
        if !endings(&family.kind).contains(&ending) {
            return Err(wrong("a sample that a family of this kind has not"));
        }
        family.samples.push(sample);
    }
    let mut names = HashSet::default();
    for family in &families {
        for ending in endings(&family.kind).iter().chain(&[""]).collect::<HashSet<_>>() {
            if !names.insert(format!("{}{ending}", family.name)) {
                return Err(format!("{}{ending} belongs to two families", family.name));
            }
        }
        check(family)?;
    }
    Ok(series.len())
}

fn endings(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total", "_created"],
        "gauge" => &[""],
        "histogram" => &["_bucket", "_sum", "_count", "_created"],
        _ => &[],
    }
}

fn check(family: &Family) -> Result<(), String> {
    let mut buckets: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for Sample { name, labels, value } in &family.samples {
        let ending = &name[family.name.len()..];
        let others: Vec<_> = labels.iter().filter(|(key, _)| *key != "le").collect();
        if labels.contains_key("quantile") || (labels.contains_key("le") != (ending == "_bucket")) {
            return Err(format!("le or quantile where it has no meaning, or none where it has: {name}"));
        }
        if matches!(ending, "_total" | "_bucket" | "_count") && (value.is_nan() || *value < 0.0) {
            return Err(format!("{name} cannot be {value}"));
        }
        match ending {
            "_bucket" => {
                let bound = labels["le"].parse().map_err(|_| format!("{name} has no number as le"))?;
                buckets.entry(others).or_default().push((bound, *value));
            }
            "_count" if family.kind == "histogram" => drop(counts.insert(others, *value)),
            _ => {}
        }
    }
    for (labels, buckets) in buckets {
        let rises = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        if !buckets.windows(2).all(rises) {
            return Err(format!("the buckets of {} {labels:?} do not rise", family.name));
        }
        let last = buckets.last().copied().unwrap_or_default();
        if !last.0.is_infinite() || counts.get(&labels) != Some(&last.1) {
            return Err(format!("the last bucket of {} {labels:?} is not its count", family.name));
        }
    }
    Ok(())
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name) {
        return Err(format!("{name:?} is no name"));
    }
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        while !inside.starts_with('}') {
            let (key, after) = inside.split_once("=\"").ok_or("no value of a label")?;
            if !is_name(key) || key.contains(':') || key.starts_with("__") {
                return Err(format!("{key:?} is no label name"));
            }
            let (value, after) = quoted(after)?;
            if labels.insert(key.to_owned(), value).is_some() {
                return Err(format!("the label {key} is duplicated"));
            }
            inside = match after.strip_prefix(',') {
                Some(more) if !more.starts_with('}') => more,
                None if after.starts_with('}') => after,
                _ => return Err("neither a comma nor an end after a label".to_owned()),
            };
        }
        rest = &inside[1..];
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let value = value.parse().map_err(|_| format!("{value:?} is no number"))?;
    Ok(Sample { name: name.to_owned(), labels, value })
}

/// The value of a label, and what follows its closing quote.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match characters.next() {
                Some((_, 'n')) => '\n',
                Some((_, same @ ('"' | '\\'))) => same,
                _ => return Err("an unknown escape".to_owned()),
            }),
            other => value.push(other),
        }
    }
    Err("a label without an end".to_owned())
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, b'_' | b':'))
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'))
}

#[test]
fn the_parser_refuses_what_prometheus_refuses() {
    let type_of = |name: &str, kind: &str| format!("# TYPE {name} {kind}\n");
    for bad in [
        format!("{}x_total{{a=\"1\",a=\"2\"}} 1\n# EOF\n", type_of("x", "counter")),
        format!("{}x_total{{__name__=\"1\"}} 1\n# EOF\n", type_of("x", "counter")),
        format!("{}x_total{{a=\"1\"}} 1\nx_total{{a=\"1\"}} 2\n# EOF\n", type_of("x", "counter")),
        format!(
            "{}h_sum{{}} 1.0\n{}h_count 0\n# EOF\n",
            type_of("h_sum", "gauge"),
            type_of("h", "histogram")
        ),
        format!("{}x{{a=\"1\n\"}} 1\n# EOF\n", type_of("x", "gauge")),
        format!("{}x{{quantile=\"1\"}} 1\n# EOF\n", type_of("x", "gauge")),
        "x 1\n# EOF\n".to_owned(),
        "# TYPE x gauge\nx 1\n".to_owned(),
    ] {
        assert!(read(&bad).is_err(), "{bad}");
    }
    let good = "# TYPE x gauge\nx{a=\"\\\"\\\\\\n\0\"} 1e300\n# EOF\n";
    assert_eq!(read(good), Ok(1));
}
