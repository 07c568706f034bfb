//! Metrics that guests record through the `metrics` import.
//!
//! They appear as `pilothouse_guest_NAME{plugin="…"}`. A guest chooses names and labels, so the number of series is
//! bounded per plugin (`limits.metricSeries`): new series beyond the limit are refused, and existing ones continue. Names must be
//! valid within one scrape: a single invalid line would make Prometheus drop the metrics of all plugins and of the host.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_model::hash::HashMap;
use pilothouse_plugin::{MetricKind, MetricSample};

use crate::name::PluginName;

/// Upper bounds of a histogram's buckets, those of Prometheus' client libraries.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// All guests' metrics. Cheap to clone.
#[derive(Clone, Default)]
pub struct GuestMetrics {
    known: Arc<Mutex<KnownSeries>>,
}

#[derive(Default)]
struct KnownSeries {
    families: BTreeMap<String, Family>,
    /// The names that are used in the exposition, each with its family.
    taken: BTreeMap<String, String>,
    /// The number of series per plugin, over all families.
    series: HashMap<PluginName, u32>,
}

/// All series of one name, from all plugins. They have one kind, because an exposition has one `# TYPE` per name. The name
/// is free again once its last series is removed.
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
    KindChanged { known: &'static str, used: &'static str },
    #[error(
        "plugin {plugin} records it as a {known}, and it was used as a {used}: a scrape has one kind for each name, so \
         give it another name in one of the two"
    )]
    KindConflict { plugin: PluginName, known: &'static str, used: &'static str },
    #[error(
        "its {series} is a series of the {kind} {other} of plugin {plugin}: give it another name in one of the two"
    )]
    Collides { series: String, kind: &'static str, other: String, plugin: PluginName },
    #[error("its {series} is a metric of the host: give it another name")]
    Reserved { series: String },
    #[error(
        "exceeded limits.metricSeries of {allowed}: new series are dropped; existing series continue; use fewer label values"
    )]
    TooMany { allowed: u32 },
}

/// Returns the family name in the exposition. A counter's samples have the suffix `_total`, whether its plugin writes that or not.
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

/// Names after `pilothouse_guest_` that are used by the host's own metrics.
const RESERVED: [&str; 3] = ["metrics_refused", "metrics_refused_total", "metrics_refused_created"];

/// Returns all names that a family uses in the exposition: its own, and those of its series. All but gauges may have `_created`.
fn names_of(family: &str, kind: MetricKind) -> impl Iterator<Item = String> {
    let endings: &[&str] = match kind {
        MetricKind::Counter => &["", "_total", "_created"],
        MetricKind::Gauge => &[""],
        MetricKind::Histogram => &["", "_bucket", "_sum", "_count", "_created"],
    };
    endings.iter().map(move |ending| format!("{family}{ending}"))
}

/// Returns the conflict if a new family would use a name that another one uses.
fn collision(
    name: &str,
    kind: MetricKind,
    families: &BTreeMap<String, Family>,
    taken: &BTreeMap<String, String>,
) -> Result<(), MetricProblem> {
    for series in names_of(name, kind) {
        if RESERVED.contains(&series.as_str()) {
            return Err(MetricProblem::Reserved { series });
        }
        let Some((other, family)) = taken.get(&series).and_then(|other| families.get_key_value(other)) else {
            continue;
        };
        if let Some(Labels { plugin, .. }) = family.series.keys().next() {
            let (kind, other, plugin) = (word(family.kind), other.clone(), plugin.clone());
            return Err(MetricProblem::Collides { series, kind, other, plugin });
        }
    }
    Ok(())
}

impl GuestMetrics {
    /// Records one sample of a plugin that may have `allowed` series. Returns how many bytes are newly held for it: 0 if the
    /// series exists already.
    pub(crate) fn record(
        &self,
        plugin: &PluginName,
        sample: &MetricSample<'_>,
        allowed: u32,
    ) -> Result<usize, MetricProblem> {
        let mut pairs = sample.labels.to_vec();
        pairs.sort();
        let labels = Labels { plugin: plugin.clone(), pairs };
        let KnownSeries { families, taken, series } = &mut *self.known.lock();
        let name = family_name(sample.name);
        let family = families.get_mut(name);
        let is_new = family.is_none();
        if let Some(family) = family.as_ref().filter(|family| family.kind != sample.kind) {
            return Err(family.mismatch(plugin, sample.kind));
        }
        if let Some(known) = family.and_then(|family| family.series.get_mut(&labels)) {
            known.take(sample);
            return Ok(0);
        }
        if is_new {
            collision(name, sample.kind, families, taken)?;
        }
        let used = series.entry(plugin.clone()).or_default();
        if *used >= allowed {
            return Err(MetricProblem::TooMany { allowed });
        }
        *used += 1;
        let family = families.entry(name.to_owned()).or_insert_with(|| {
            taken.extend(names_of(name, sample.kind).map(|taken| (taken, name.to_owned())));
            Family { kind: sample.kind, series: BTreeMap::new() }
        });
        let texts =
            labels.pairs.iter().map(|(key, value)| size_of::<(String, String)>() + key.len() + value.len());
        let bytes = size_of::<(Labels, Series)>() + name.len() + texts.sum::<usize>();
        family.series.entry(labels).or_default().take(sample);
        Ok(bytes)
    }

    /// Removes the series of a plugin that was removed.
    pub(crate) fn forget(&self, plugin: &PluginName) {
        let KnownSeries { families, taken, series } = &mut *self.known.lock();
        for family in families.values_mut() {
            family.series.retain(|labels, _| labels.plugin != *plugin);
        }
        families.retain(|_, family| !family.series.is_empty());
        taken.retain(|_, family| families.contains_key(family));
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
    /// Returns why a plugin cannot use the family as another kind.
    fn mismatch(&self, plugin: &PluginName, used: MetricKind) -> MetricProblem {
        let (known, used) = (word(self.kind), word(used));
        let mut plugins = self.series.keys().map(|labels| &labels.plugin);
        let is_own = plugins.clone().any(|of| of == plugin);
        match plugins.next() {
            Some(other) if !is_own => MetricProblem::KindConflict { plugin: other.clone(), known, used },
            _ => MetricProblem::KindChanged { known, used },
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
        for (key, value) in &self.pairs {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(f, ",{key}=\"{value}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod exposition;
#[cfg(test)]
mod tests;
