//! The informers' metrics: the registry's counters, read at each scrape.

use std::fmt;

use pilothouse_informer::metrics::names;
use pilothouse_informer::{HistogramSnapshot, InformerMetrics, InformerRegistry};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Encodes the metrics of a registry's informers.
#[derive(Debug)]
pub(crate) struct InformerCollector(pub(crate) InformerRegistry);

struct Metric {
    name: &'static str,
    help: &'static str,
    value: Value,
}

#[derive(Clone, Copy)]
enum Value {
    Counter(fn(&InformerMetrics) -> u64),
    Gauge(fn(&InformerMetrics) -> usize),
    /// A gauge that is left out if there is no value.
    Version(fn(&InformerMetrics) -> Option<u64>),
    Histogram(fn(&InformerMetrics) -> &HistogramSnapshot),
}

const fn metric(name: &'static str, help: &'static str, value: Value) -> Metric {
    Metric { name, help, value }
}

use Value::{Counter, Gauge, Histogram, Version};

const METRICS: &[Metric] = &[
    metric(names::LISTS, "Requests for lists; each page of a paged list is one", Counter(|m| m.lists)),
    metric(
        names::LIST_DURATION,
        "Time from the request for a list to the end of its body",
        Histogram(|m| &m.list_duration),
    ),
    metric(
        names::ITEMS_PER_LIST,
        "Objects of a whole list, streaming lists included",
        Histogram(|m| &m.items_per_list),
    ),
    metric(names::WATCHES, "Requests for watches, streaming lists included", Counter(|m| m.watches)),
    metric(
        names::SHORT_WATCHES,
        "Watches that ended within a second without an event",
        Counter(|m| m.short_watches),
    ),
    metric(names::WATCH_DURATION, "Time for which watches were open", Histogram(|m| &m.watch_duration)),
    metric(
        names::ITEMS_PER_WATCH,
        "Events of a watch, bookmarks included",
        Histogram(|m| &m.items_per_watch),
    ),
    metric(
        names::LAST_RESOURCE_VERSION,
        "Last resource version seen, of the informer furthest behind",
        Version(|m| m.last_resource_version),
    ),
    metric(names::EVENTS, "Events read, bookmarks included", Counter(|m| m.events)),
    metric(names::RECEIVED_BYTES, "Bytes received in lists and watches", Counter(|m| m.received_bytes)),
    metric(names::FAILURES, "Lists and watches that failed or could not be decoded", Counter(|m| m.failures)),
    metric(
        names::STALE_EVENTS,
        "Events older than the cached object, which were skipped",
        Counter(|m| m.stale_events),
    ),
    metric(
        names::MERGED_DELTAS,
        "Deltas merged with a later delta of the same object before they reached the store",
        Counter(|m| m.merged_deltas),
    ),
    metric(
        names::DROPPED_DELTAS,
        "Deletions of objects that neither queue nor store held",
        Counter(|m| m.dropped_deltas),
    ),
    metric(
        names::MERGED_NOTIFICATIONS,
        "Notifications merged with a later one because a subscriber was behind",
        Counter(|m| m.merged_notifications),
    ),
    metric(names::INFORMERS, "Informers with these labels", Gauge(|m| m.informers)),
    metric(names::SYNCED, "Informers whose first list is in the store", Gauge(|m| m.synced)),
    metric(names::FAILING, "Informers that cannot watch at present", Gauge(|m| m.failing)),
    metric(names::QUEUE_DEPTH, "Deltas that wait for the store", Gauge(|m| m.queue_depth)),
    metric(names::STORE_OBJECTS, "Cached objects", Gauge(|m| m.store_objects)),
    metric(
        names::STORE_BYTES,
        "Approximate heap bytes of the cached objects as they are stored, without indexes",
        Gauge(|m| m.store_bytes),
    ),
    metric(names::SUBSCRIBERS, "Subscribers", Gauge(|m| m.subscribers)),
    metric(names::BACKLOG, "Notifications that subscribers have not taken yet, summed", Gauge(|m| m.backlog)),
    metric(
        names::LONGEST_BACKLOG,
        "Notifications that wait for the subscriber furthest behind",
        Gauge(|m| m.longest_backlog),
    ),
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
            let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            let mut family = encoder.encode_descriptor(name, metric.help, None, kind)?;
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
