//! The informers' metrics: the registry's counters, read at each scrape.

use std::fmt;

use pilothouse_informer::metrics::{MetricInfo, names};
use pilothouse_informer::{HistogramSnapshot, InformerMetrics, InformerRegistry};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Encodes the metrics of a registry's informers.
#[derive(Debug)]
pub(crate) struct InformerCollector(pub(crate) InformerRegistry);

struct Metric {
    info: MetricInfo,
    value: Value,
}

#[derive(Clone, Copy)]
enum Value {
    Counter(fn(&InformerMetrics) -> u64),
    Gauge(fn(&InformerMetrics) -> usize),
    /// A gauge that is omitted while it has no value.
    Version(fn(&InformerMetrics) -> Option<u64>),
    Histogram(fn(&InformerMetrics) -> &HistogramSnapshot),
}

const fn metric(info: MetricInfo, value: Value) -> Metric {
    Metric { info, value }
}

use Value::{Counter, Gauge, Histogram, Version};

const METRICS: &[Metric] = &[
    metric(names::LISTS, Counter(|m| m.lists)),
    metric(names::LIST_DURATION, Histogram(|m| &m.list_duration)),
    metric(names::ITEMS_PER_LIST, Histogram(|m| &m.items_per_list)),
    metric(names::WATCHES, Counter(|m| m.watches)),
    metric(names::SHORT_WATCHES, Counter(|m| m.short_watches)),
    metric(names::WATCH_DURATION, Histogram(|m| &m.watch_duration)),
    metric(names::ITEMS_PER_WATCH, Histogram(|m| &m.items_per_watch)),
    metric(names::LAST_RESOURCE_VERSION, Version(|m| m.last_resource_version)),
    metric(names::EVENTS, Counter(|m| m.events)),
    metric(names::RECEIVED_BYTES, Counter(|m| m.received_bytes)),
    metric(names::FAILURES, Counter(|m| m.failures)),
    metric(names::STALE_EVENTS, Counter(|m| m.stale_events)),
    metric(names::MERGED_DELTAS, Counter(|m| m.merged_deltas)),
    metric(names::DROPPED_DELTAS, Counter(|m| m.dropped_deltas)),
    metric(names::MERGED_NOTIFICATIONS, Counter(|m| m.merged_notifications)),
    metric(names::INFORMERS, Gauge(|m| m.informers)),
    metric(names::SYNCED, Gauge(|m| m.synced)),
    metric(names::FAILING, Gauge(|m| m.failing)),
    metric(names::QUEUE_DEPTH, Gauge(|m| m.queue_depth)),
    metric(names::STORE_OBJECTS, Gauge(|m| m.store_objects)),
    metric(names::STORE_BYTES, Gauge(|m| m.store_bytes)),
    metric(names::SUBSCRIBERS, Gauge(|m| m.subscribers)),
    metric(names::BACKLOG, Gauge(|m| m.backlog)),
    metric(names::LONGEST_BACKLOG, Gauge(|m| m.longest_backlog)),
];

impl Collector for InformerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let informers = self.0.metrics();
        // A family without a series would be a `# TYPE` line without samples.
        if informers.is_empty() {
            return Ok(());
        }
        for metric in METRICS {
            let kind = match metric.value {
                Counter(_) => MetricType::Counter,
                Gauge(_) | Version(_) => MetricType::Gauge,
                Histogram(_) => MetricType::Histogram,
            };
            // The encoder appends the suffix for the metric's type.
            let MetricInfo { name, help, .. } = metric.info;
            let name = name.strip_suffix("_total").unwrap_or(name);
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for informer in &informers {
                let labels = [("resource", informer.resource.as_str()), ("name", informer.name.as_str())];
                metric.value.encode(informer, family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Value {
    fn encode(self, informer: &InformerMetrics, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Counter(read) => encoder.encode_counter::<NoLabelSet, u64, u64>(&read(informer), None),
            Gauge(read) => encoder.encode_gauge(&i64::try_from(read(informer)).unwrap_or(i64::MAX)),
            Version(read) => match read(informer) {
                Some(version) => encoder.encode_gauge(&i64::try_from(version).unwrap_or(i64::MAX)),
                None => Ok(()),
            },
            Histogram(read) => {
                let HistogramSnapshot { sum, count, buckets, .. } = read(informer);
                encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
            }
        }
    }
}
