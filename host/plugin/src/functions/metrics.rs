//! Implements `metrics`: records the plugin's own metrics.

use super::pairs;
use crate::bindings::pilothouse::controller::metrics::Host;
use crate::bindings::pilothouse::controller::types::Pair;
use crate::sandbox::GuestState;
use crate::{MetricKind, MetricSample};

/// Maximum length of a metric name, label key or label value, in bytes. Prometheus has no limit, but dashboards do.
const MAX_NAME: usize = 200;
/// Maximum number of labels of one sample. Each set of label values is a series of its own.
const MAX_LABELS: usize = 16;
/// Maximum size of all labels of one sample, in bytes. Each line of a scrape repeats them.
const MAX_LABEL_BYTES: usize = 1 << 10;
/// Number of different invalid names that one instance is warned about. Later ones are dropped without a warning.
const MAX_WARNINGS: usize = 20;

impl Host for GuestState {
    fn counter(&mut self, name: String, labels: Vec<Pair>, add: f64) -> wasmtime::Result<()> {
        self.sample("metrics.counter", MetricKind::Counter, &name, labels, add)
    }

    fn gauge(&mut self, name: String, labels: Vec<Pair>, value: f64) -> wasmtime::Result<()> {
        self.sample("metrics.gauge", MetricKind::Gauge, &name, labels, value)
    }

    fn histogram(&mut self, name: String, labels: Vec<Pair>, value: f64) -> wasmtime::Result<()> {
        self.sample("metrics.histogram", MetricKind::Histogram, &name, labels, value)
    }
}

impl GuestState {
    fn sample(
        &mut self,
        function: &'static str,
        kind: MetricKind,
        name: &str,
        labels: Vec<Pair>,
        value: f64,
    ) -> wasmtime::Result<()> {
        self.check_available(function)?;
        let labels = pairs(labels);
        let sample = MetricSample { kind, name, labels: &labels, value };
        match sample.problem() {
            None => self.host.metric(&self.call, sample),
            Some(problem) => self.warn_dropped_metric(name, &problem),
        }
        Ok(())
    }

    /// Warns once per name. An invalid metric does not stop a reconcile.
    fn warn_dropped_metric(&mut self, name: &str, problem: &str) {
        let name = &name[..name.floor_char_boundary(MAX_NAME)];
        if self.refused_metrics.len() < MAX_WARNINGS && self.refused_metrics.insert(name.to_owned()) {
            self.console.lock().log_host_warning(&format!("metric {name:?} dropped: {problem}"));
        }
    }
}

/// Label names with a meaning of their own: in the exposition format, or set by the host.
const RESERVED_LABELS: [&str; 3] = ["le", "quantile", "plugin"];

impl MetricSample<'_> {
    /// Returns why the sample cannot be a line of a Prometheus scrape, or `None` if it can.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        problem_of(self)
    }
}

fn problem_of(sample: &MetricSample<'_>) -> Option<String> {
    if !is_metric_name(sample.name) {
        return Some(format!("its name must match [a-zA-Z_][a-zA-Z0-9_]* and have at most {MAX_NAME} bytes"));
    }
    if sample.labels.len() > MAX_LABELS {
        return Some(format!("it has {} labels, {MAX_LABELS} are allowed", sample.labels.len()));
    }
    if let Some((key, _)) = sample.labels.iter().find(|(key, _)| !is_metric_name(key)) {
        let key = &key[..key.floor_char_boundary(MAX_NAME)];
        return Some(format!("the label key {key:?} must match [a-zA-Z_][a-zA-Z0-9_]*"));
    }
    let is_reserved = |key: &str| key.starts_with("__") || RESERVED_LABELS.contains(&key);
    if let Some((key, _)) = sample.labels.iter().find(|(key, _)| is_reserved(key)) {
        return Some(format!(
            "the label key {key:?} is reserved, as are all that begin with \"__\", and le, quantile and plugin"
        ));
    }
    let mut keys = sample.labels.iter().map(|(key, _)| key).enumerate();
    if let Some((_, key)) = keys.find(|(at, key)| sample.labels[..*at].iter().any(|(other, _)| other == *key))
    {
        return Some(format!("the label key {key:?} is given twice"));
    }
    if let Some((key, _)) = sample.labels.iter().find(|(_, value)| value.len() > MAX_NAME) {
        return Some(format!("the value of label {key:?} has more than {MAX_NAME} bytes"));
    }
    let bytes: usize = sample.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAX_LABEL_BYTES {
        return Some(format!("its labels have {bytes} bytes, {MAX_LABEL_BYTES} are allowed"));
    }
    match sample.value {
        value if !value.is_finite() => Some(format!("the value {value} isn't finite")),
        value if sample.kind == MetricKind::Counter && value < 0.0 => {
            Some(format!("a counter only goes up, it can't take {value}"))
        }
        _ => None,
    }
}

fn is_metric_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= MAX_NAME
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_prometheus_would_refuse_are_refused_with_a_reason() {
        let labels = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
        let check = |kind, name: &str, labels: &[(String, String)], value| {
            MetricSample { kind, name, labels, value }.problem()
        };
        let good = labels("shop", "a b");
        assert_eq!(check(MetricKind::Counter, "orders_total", &good, 1.0), None);
        assert_eq!(check(MetricKind::Gauge, "_x9", &[], -1.0), None);
        let long = "x".repeat(MAX_NAME + 1);
        for name in ["", "9x", "a-b", "ä", &long] {
            assert!(check(MetricKind::Gauge, name, &[], 1.0).is_some(), "{name:?}");
        }
        let many = vec![(String::from("a"), String::new()); MAX_LABELS + 1];
        assert!(check(MetricKind::Gauge, "x", &many, 1.0).is_some());
        let long = vec![(String::from("a"), "v".repeat(MAX_NAME)); 6];
        assert!(check(MetricKind::Gauge, "x", &long, 1.0).is_some());
        assert!(check(MetricKind::Gauge, "x", &labels("a.b", ""), 1.0).is_some());
        for reserved in ["__name__", "__x", "le", "quantile", "plugin"] {
            for kind in [MetricKind::Counter, MetricKind::Gauge, MetricKind::Histogram] {
                let problem = check(kind, "x", &labels(reserved, "1"), 1.0).expect(reserved);
                assert!(problem.contains("is reserved"), "{problem}");
            }
        }
        let twice = [labels("a", "1"), labels("b", "1"), labels("a", "2")].concat();
        let problem = check(MetricKind::Gauge, "x", &twice, 1.0).expect("one label twice");
        assert_eq!(problem, "the label key \"a\" is given twice");
        assert!(check(MetricKind::Gauge, "x", &labels("a", &"v".repeat(MAX_NAME + 1)), 1.0).is_some());
        assert!(check(MetricKind::Gauge, "x", &[], f64::NAN).is_some());
        assert!(check(MetricKind::Histogram, "x", &[], f64::INFINITY).is_some());
        assert!(check(MetricKind::Counter, "x", &[], -0.5).is_some());
    }
}
