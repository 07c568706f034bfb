//! Metrics that guests record through the `metrics` import.
//!
//! They appear as `pilothouse_guest_NAME{plugin="…"}`. A guest chooses names and labels, so the number of series is
//! bounded per plugin (`limits.metricSeries`): beyond it a use is refused, and those known go on.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_plugin::{MetricKind, MetricSample};

use crate::name::PluginName;

/// Upper bounds of a histogram's buckets, those of Prometheus' client libraries.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// All guests' metrics. Cheap to clone.
#[derive(Clone, Default)]
pub struct GuestMetrics {
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    families: BTreeMap<String, Family>,
    /// Series of each plugin, all families together.
    series: HashMap<PluginName, u32>,
}

/// All series of one name, of whichever plugin: they have one kind, because an exposition has one `# TYPE` for each
/// name. It is free again when the last of them goes.
struct Family {
    kind: MetricKind,
    series: BTreeMap<Labels, Series>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    plugin: PluginName,
    pairs: Vec<(String, String)>,
}

#[derive(Default)]
struct Series {
    value: f64,
    count: u64,
    buckets: [u64; BUCKETS.len()],
}

/// Why a use of a metric was not recorded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MetricProblem {
    #[error("it is a {known} already, and was used as a {used}")]
    OtherKind { known: &'static str, used: &'static str },
    #[error(
        "plugin {plugin} records it as a {known}, and it was used as a {used}: a scrape has one kind for each name, so \
         give it another name in one of the two"
    )]
    OthersKind { plugin: PluginName, known: &'static str, used: &'static str },
    #[error(
        "exceeded limits.metricSeries of {allowed}: new series are dropped, those there are go on; use fewer label values"
    )]
    TooMany { allowed: u32 },
}

/// What the text calls it: a counter's sample has `_total` behind that, whether its plugin says so or not.
fn family_name(name: &str) -> &str {
    name.strip_suffix("_total").unwrap_or(name)
}

fn word(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    }
}

impl GuestMetrics {
    /// Takes one use of a metric, by a plugin that may have so many series. Answers how many bytes are kept for it from now on: 0
    /// where the series is known.
    pub(crate) fn record(
        &self,
        plugin: &PluginName,
        sample: &MetricSample<'_>,
        allowed: u32,
    ) -> Result<usize, MetricProblem> {
        let mut pairs = sample.labels.to_vec();
        pairs.sort();
        let labels = Labels { plugin: plugin.clone(), pairs };
        let Known { families, series } = &mut *self.known.lock();
        let name = family_name(sample.name);
        let family = families.get_mut(name);
        if let Some(family) = family.as_ref().filter(|family| family.kind != sample.kind) {
            return Err(family.mismatch(plugin, sample.kind));
        }
        if let Some(known) = family.and_then(|family| family.series.get_mut(&labels)) {
            known.take(sample);
            return Ok(0);
        }
        let used = series.entry(plugin.clone()).or_default();
        if *used >= allowed {
            return Err(MetricProblem::TooMany { allowed });
        }
        *used += 1;
        let family = families
            .entry(name.to_owned())
            .or_insert_with(|| Family { kind: sample.kind, series: BTreeMap::new() });
        let texts =
            labels.pairs.iter().map(|(key, value)| size_of::<(String, String)>() + key.len() + value.len());
        let bytes = size_of::<(Labels, Series)>() + name.len() + texts.sum::<usize>();
        family.series.entry(labels).or_default().take(sample);
        Ok(bytes)
    }

    /// Forgets a plugin that was removed.
    pub(crate) fn forget(&self, plugin: &PluginName) {
        let Known { families, series } = &mut *self.known.lock();
        for family in families.values_mut() {
            family.series.retain(|labels, _| labels.plugin != *plugin);
        }
        families.retain(|_, family| !family.series.is_empty());
        series.remove(plugin);
    }

    /// Appends the OpenMetrics text of all series, without the closing `# EOF`.
    pub fn encode(&self, out: &mut String) {
        for (name, family) in &self.known.lock().families {
            let name = format!("pilothouse_guest_{name}");
            // Writing to a String cannot fail.
            let _ = writeln!(out, "# TYPE {name} {}", word(family.kind));
            for (labels, series) in &family.series {
                series.encode(out, &name, family.kind, &labels.to_string());
            }
        }
    }
}

impl Family {
    /// Why a plugin cannot use it as that kind.
    fn mismatch(&self, plugin: &PluginName, used: MetricKind) -> MetricProblem {
        let (known, used) = (word(self.kind), word(used));
        let mut plugins = self.series.keys().map(|labels| &labels.plugin);
        let is_own = plugins.clone().any(|of| of == plugin);
        match plugins.next() {
            Some(other) if !is_own => MetricProblem::OthersKind { plugin: other.clone(), known, used },
            _ => MetricProblem::OtherKind { known, used },
        }
    }
}

impl Series {
    fn take(&mut self, sample: &MetricSample<'_>) {
        match sample.kind {
            MetricKind::Counter => self.value += sample.value,
            MetricKind::Gauge => self.value = sample.value,
            MetricKind::Histogram => {
                self.value += sample.value;
                self.count += 1;
                for (bound, bucket) in BUCKETS.iter().zip(&mut self.buckets) {
                    *bucket += u64::from(sample.value <= *bound);
                }
            }
        }
    }

    fn encode(&self, out: &mut String, name: &str, kind: MetricKind, labels: &str) {
        let _ = match kind {
            MetricKind::Counter => writeln!(out, "{name}_total{{{labels}}} {:?}", self.value),
            MetricKind::Gauge => writeln!(out, "{name}{{{labels}}} {:?}", self.value),
            MetricKind::Histogram => {
                for (bound, count) in BUCKETS.iter().zip(self.buckets) {
                    let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound:?}\"}} {count}");
                }
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", self.count);
                let _ = writeln!(out, "{name}_sum{{{labels}}} {:?}", self.value);
                writeln!(out, "{name}_count{{{labels}}} {}", self.count)
            }
        };
    }
}

impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "plugin=\"{}\"", self.plugin)?;
        for (key, value) in self.pairs.iter().filter(|(key, _)| key != "plugin" && key != "le") {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(f, ",{key}=\"{value}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn plugin(name: &str) -> PluginName {
        PluginName::of_file(Path::new(name)).expect("a name")
    }

    fn record(
        metrics: &GuestMetrics,
        name: &str,
        kind: MetricKind,
        label: &str,
        value: f64,
    ) -> Result<usize, MetricProblem> {
        let labels = [("shade".to_owned(), label.to_owned())];
        metrics.record(&plugin("p"), &MetricSample { kind, name, labels: &labels, value }, 100)
    }

    #[test]
    fn each_kind_is_kept_and_written_in_its_way() {
        let metrics = GuestMetrics::default();
        record(&metrics, "seen", MetricKind::Counter, "a\"b", 1.0).expect("kept");
        record(&metrics, "seen", MetricKind::Counter, "a\"b", 2.0).expect("kept");
        record(&metrics, "level", MetricKind::Gauge, "x", 4.0).expect("kept");
        record(&metrics, "level", MetricKind::Gauge, "x", 3.0).expect("kept");
        record(&metrics, "took", MetricKind::Histogram, "x", 0.3).expect("kept");
        let mut text = String::new();
        metrics.encode(&mut text);
        for line in [
            "# TYPE pilothouse_guest_seen counter",
            "pilothouse_guest_seen_total{plugin=\"p\",shade=\"a\\\"b\"} 3.0",
            "pilothouse_guest_level{plugin=\"p\",shade=\"x\"} 3.0",
            "pilothouse_guest_took_bucket{plugin=\"p\",shade=\"x\",le=\"0.25\"} 0",
            "pilothouse_guest_took_bucket{plugin=\"p\",shade=\"x\",le=\"0.5\"} 1",
            "pilothouse_guest_took_count{plugin=\"p\",shade=\"x\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        metrics.forget(&plugin("p"));
        let mut text = String::new();
        metrics.encode(&mut text);
        assert_eq!(text, "");
    }

    #[test]
    fn a_guest_cannot_make_series_without_end_or_change_a_kind() {
        let metrics = GuestMetrics::default();
        for number in 0..50 {
            record(&metrics, "seen", MetricKind::Counter, &number.to_string(), 1.0).expect("kept");
            record(&metrics, "level", MetricKind::Gauge, &number.to_string(), 1.0).expect("kept");
        }
        let refused = record(&metrics, "seen", MetricKind::Counter, "more", 1.0).expect_err("one too many");
        assert_eq!(refused, MetricProblem::TooMany { allowed: 100 });
        assert!(refused.to_string().starts_with("exceeded limits.metricSeries of 100"), "{refused}");
        assert!(record(&metrics, "other", MetricKind::Counter, "7", 1.0).is_err(), "names count, too");
        record(&metrics, "seen", MetricKind::Counter, "7", 1.0).expect("a known series goes on");
        assert!(record(&metrics, "seen", MetricKind::Gauge, "7", 1.0).is_err());
        let another = MetricSample { kind: MetricKind::Counter, name: "seen", labels: &[], value: 1.0 };
        metrics.record(&plugin("q"), &another, 100).expect("another plugin has series of its own");
        metrics.forget(&plugin("p"));
        record(&metrics, "seen", MetricKind::Counter, "more", 1.0).expect("there is room again");
    }
    #[test]
    fn a_name_has_one_kind_and_who_comes_second_is_told_whose_it_is() {
        let metrics = GuestMetrics::default();
        let labels = [];
        let use_as = |name: &str, kind, metric| {
            metrics.record(
                &plugin(name),
                &MetricSample { kind, name: metric, labels: &labels, value: 1.0 },
                9,
            )
        };
        use_as("a", MetricKind::Gauge, "level").expect("the first");
        let refused = use_as("b", MetricKind::Counter, "level").expect_err("another kind");
        assert!(
            refused.to_string().starts_with("plugin a records it as a gauge, and it was used as a counter"),
            "{refused}"
        );
        // With the ending of a counter it is the same name in the text.
        assert_eq!(use_as("b", MetricKind::Counter, "level_total"), Err(refused));
        use_as("b", MetricKind::Gauge, "level").expect("the same kind");
        let own = use_as("b", MetricKind::Counter, "level").expect_err("its own is a gauge, too");
        assert_eq!(own, MetricProblem::OtherKind { known: "gauge", used: "counter" });
        use_as("b", MetricKind::Counter, "done_total").expect("a counter");
        use_as("a", MetricKind::Counter, "done").expect("the same counter");
        let mut text = String::new();
        metrics.encode(&mut text);
        let types: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(types, ["# TYPE pilothouse_guest_done counter", "# TYPE pilothouse_guest_level gauge"]);
        metrics.forget(&plugin("a"));
        assert!(use_as("c", MetricKind::Histogram, "level").is_err(), "one is left");
        metrics.forget(&plugin("b"));
        use_as("c", MetricKind::Histogram, "level").expect("nobody has it any more");
    }
}
