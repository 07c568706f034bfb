//! Guests' metrics and their exposition.

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
fn each_kind_of_metric_is_encoded() {
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
fn a_guest_cannot_exceed_its_series_limit_or_change_a_kind() {
    let metrics = GuestMetrics::default();
    for number in 0..50 {
        record(&metrics, "seen", MetricKind::Counter, &number.to_string(), 1.0).expect("kept");
        record(&metrics, "level", MetricKind::Gauge, &number.to_string(), 1.0).expect("kept");
    }
    let refused = record(&metrics, "seen", MetricKind::Counter, "more", 1.0).expect_err("one too many");
    assert_eq!(refused, MetricProblem::TooMany { allowed: 100 });
    assert!(refused.to_string().starts_with("exceeded limits.metricSeries of 100"), "{refused}");
    assert!(record(&metrics, "other", MetricKind::Counter, "7", 1.0).is_err(), "names count, too");
    record(&metrics, "seen", MetricKind::Counter, "7", 1.0).expect("an existing series continues");
    assert!(record(&metrics, "seen", MetricKind::Gauge, "7", 1.0).is_err());
    let another = MetricSample { kind: MetricKind::Counter, name: "seen", labels: &[], value: 1.0 };
    metrics.record(&plugin("q"), &another, 100).expect("another plugin has series of its own");
    metrics.forget(&plugin("p"));
    record(&metrics, "seen", MetricKind::Counter, "more", 1.0).expect("there is room again");
}
#[test]
fn a_metric_name_has_one_kind_and_the_error_names_its_plugin() {
    let metrics = GuestMetrics::default();
    let labels = [];
    let use_as = |name: &str, kind, metric| {
        metrics.record(&plugin(name), &MetricSample { kind, name: metric, labels: &labels, value: 1.0 }, 9)
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
    assert_eq!(own, MetricProblem::KindChanged { known: "gauge", used: "counter" });
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

#[test]
fn a_name_that_collides_with_a_series_of_another_metric_is_refused() {
    let metrics = GuestMetrics::default();
    let use_as = |name: &str, kind, metric: &str| {
        metrics.record(&plugin(name), &MetricSample { kind, name: metric, labels: &[], value: 1.0 }, 99)
    };
    use_as("a", MetricKind::Histogram, "h").expect("the first");
    for (kind, name) in [
        (MetricKind::Gauge, "h_sum"),
        (MetricKind::Gauge, "h_bucket"),
        (MetricKind::Counter, "h_count"),
        (MetricKind::Counter, "h_created_total"),
    ] {
        let refused = use_as("b", kind, name).expect_err(name).to_string();
        assert!(refused.contains("is a series of the histogram h of plugin a"), "{refused}");
    }
    use_as("b", MetricKind::Gauge, "late_count").expect("free");
    let refused = use_as("a", MetricKind::Histogram, "late").expect_err("the other way round").to_string();
    assert!(
        refused.starts_with("its late_count is a series of the gauge late_count of plugin b"),
        "{refused}"
    );
    use_as("a", MetricKind::Counter, "x_total").expect("free");
    assert!(use_as("a", MetricKind::Counter, "x_total_total").is_err());
    for name in ["metrics_refused", "metrics_refused_total"] {
        let refused = use_as("a", MetricKind::Counter, name).expect_err("the host's").to_string();
        assert!(refused.contains("a metric of the host"), "{refused}");
    }
    metrics.forget(&plugin("a"));
    use_as("b", MetricKind::Gauge, "h_sum").expect("free again");
    metrics.forget(&plugin("b"));
    assert!(metrics.known.lock().taken.is_empty());
}

#[test]
fn the_hosts_own_names_are_reserved() {
    let mut registry = prometheus_client::registry::Registry::default();
    drop(crate::metrics::Metrics::register(&mut registry));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encoded");
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE pilothouse_guest_")) {
        let name = line.split(' ').next().unwrap_or_default();
        assert!(RESERVED.contains(&name), "{name}");
    }
}

mod scrapes {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn kind() -> impl Strategy<Value = MetricKind> {
        prop_oneof![Just(MetricKind::Counter), Just(MetricKind::Gauge), Just(MetricKind::Histogram)]
    }

    /// Names that collide, names that anybody may write, and any text.
    fn name() -> impl Strategy<Value = String> {
        let ending = prop_oneof![
            Just(""),
            Just("_total"),
            Just("_sum"),
            Just("_count"),
            Just("_bucket"),
            Just("_created"),
            Just("_total_total")
        ];
        prop_oneof![
            8 => ("[hx]", ending).prop_map(|(name, ending)| name + ending),
            1 => Just("metrics_refused_total".to_owned()),
            1 => "[a-zA-Z_:][a-zA-Z0-9_:]{0,8}",
            1 => any::<String>(),
        ]
    }

    fn label() -> impl Strategy<Value = (String, String)> {
        let key = prop_oneof![
            6 => "[ab]", 1 => Just("le".to_owned()), 1 => Just("quantile".to_owned()), 1 => Just("__name__".to_owned()),
            1 => Just("plugin".to_owned()), 1 => any::<String>()
        ];
        (key, prop_oneof!["[xy]", any::<String>(), Just("a\n\"\\\r\0".to_owned())])
    }

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![any::<f64>(), Just(0.1), Just(f64::MAX), Just(f64::MIN), Just(-0.0)]
    }

    proptest! {
        #[test]
        fn whatever_guests_record_a_scrape_can_be_read(
            samples in vec((0..3usize, kind(), name(), vec(label(), 0..4), value()), 0..60)
        ) {
            let metrics = GuestMetrics::default();
            let mut recorded = 0;
            for (of, kind, name, labels, value) in &samples {
                let sample = MetricSample { kind: *kind, name, labels, value: *value };
                // As the import does before it calls the host.
                if sample.problem().is_none() {
                    let plugin = plugin(["a.wasm", "b.wasm", "c.wasm"][*of]);
                    recorded += usize::from(metrics.record(&plugin, &sample, 20).is_ok());
                }
            }
            let mut text = String::new();
            metrics.encode(&mut text);
            text.push_str("# EOF\n");
            let read = super::exposition::read(&text);
            prop_assert!(read.is_ok(), "{:?}\n{}", read, text);
            prop_assert!((recorded == 0) == (read == Ok(0)));
        }
    }
}
