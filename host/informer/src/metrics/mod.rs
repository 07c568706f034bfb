//! The informers' metrics, as plain numbers for a metrics endpoint.
//!
//! This module does not depend on a metrics library. [`InformerRegistry::metrics`](crate::InformerRegistry::metrics) takes a
//! snapshot; [`names`] defines the metric names that dashboards use, and their help texts.
//!
//! # Cost per event
//! Counting takes no lock and no allocation. Bytes and events are counted once for each chunk of a body, requests once. Merged
//! items are counted under the lock that the queue holds anyway, and collected when a snapshot is taken or the queue is
//! dropped. All atomics here are counters: each is only added to and read, publishes no other memory, and a snapshot need not
//! show one point in time. So `Relaxed` suffices for every access.

mod histogram;
mod measured_list_watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pilothouse_model::{Projection, Transform};

use histogram::Histogram;
pub use histogram::HistogramSnapshot;
pub(crate) use measured_list_watch::MeasuredListWatch;

use crate::key::InformerKey;

/// The name of a metric, and its help text for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricInfo {
    /// The name in the Prometheus format.
    pub name: &'static str,
    /// What the metric counts, as a phrase without a full stop.
    pub help: &'static str,
}

/// The names and help texts of the metrics. Every metric has the labels `resource` and `name`, with the values in [`InformerMetrics`].
/// The `reflector_*` names are those of client-go's former reflector metrics.
pub mod names {
    use super::MetricInfo;

    /// Defines a constant for each metric. Its help text is also its documentation.
    macro_rules! define {
        ($($kind:ident $constant:ident $name:literal $help:literal;)*) => {$(
            #[doc = concat!(stringify!($kind), ": ", $help, ".")]
            pub const $constant: MetricInfo = MetricInfo { name: $name, help: $help };
        )*};
    }

    define! {
        Counter LISTS "reflector_lists_total"
            "List requests; each page of a paged list counts";
        Histogram LIST_DURATION "reflector_list_duration_seconds"
            "Seconds from a list request to the end of its body";
        Histogram ITEMS_PER_LIST "reflector_items_per_list"
            "Objects in a complete list, including streaming lists";
        Counter WATCHES "reflector_watches_total"
            "Watch requests, including streaming lists";
        Counter SHORT_WATCHES "reflector_short_watches_total"
            "Watches that ended within a second without an event";
        Histogram WATCH_DURATION "reflector_watch_duration_seconds"
            "Seconds for which watches were open";
        Histogram ITEMS_PER_WATCH "reflector_items_per_watch"
            "Events in a watch, including bookmarks";
        Gauge LAST_RESOURCE_VERSION "reflector_last_resource_version"
            "Last resource version seen by the informer that is furthest behind";
        Counter EVENTS "pilothouse_informer_events_total"
            "Events read, including bookmarks";
        Counter RECEIVED_BYTES "pilothouse_informer_received_bytes_total"
            "Bytes received in list and watch bodies";
        Counter FAILURES "pilothouse_informer_failures_total"
            "Lists and watches that failed or could not be decoded";
        Counter STALE_EVENTS "pilothouse_informer_stale_events_total"
            "Events that were ignored because the cached object is newer";
        Counter MERGED_DELTAS "pilothouse_informer_merged_deltas_total"
            "Deltas that were merged with a later delta of the same object before they were applied to the store";
        Counter DROPPED_DELTAS "pilothouse_informer_dropped_deltas_total"
            "Deletions of objects that neither the delta queue nor the store knew";
        Counter MERGED_NOTIFICATIONS "pilothouse_informer_merged_notifications_total"
            "Notifications that were merged with a later notification of the same object because a subscriber was behind";
        Gauge INFORMERS "pilothouse_informer_running"
            "Running informers with these labels";
        Gauge SYNCED "pilothouse_informer_synced"
            "Informers whose first list has been applied to the cache";
        Gauge FAILING "pilothouse_informer_failing"
            "Informers that cannot watch because of a failure";
        Gauge QUEUE_DEPTH "pilothouse_informer_delta_queue_depth"
            "Deltas that have not been applied to the store yet";
        Gauge STORE_OBJECTS "pilothouse_informer_store_objects"
            "Cached objects";
        Gauge STORE_BYTES "pilothouse_informer_store_bytes"
            "Approximate heap bytes of the cached objects as they are stored, without indexes";
        Gauge SUBSCRIBERS "pilothouse_informer_subscribers"
            "Subscribers";
        Gauge BACKLOG "pilothouse_informer_backlog"
            "Pending notifications of all subscribers";
        Gauge LONGEST_BACKLOG "pilothouse_informer_longest_backlog"
            "Pending notifications of the subscriber that is furthest behind";
    }
}

/// The metrics of all informers with the same `resource` and `name` labels. Counters never decrease, even when an informer
/// stops.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// # use pilothouse_informer::{InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions};
/// # use pilothouse_model::ResourceType;
/// # let namespaces = ResourceType {
/// #     group: String::new(), version: "v1".into(), kind: "Namespace".into(), plural: "namespaces".into(), namespaced: false,
/// # };
/// # let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
/// # let subscription = registry.subscribe(InformerKey::new(namespaces), SubscribeOptions::default()).unwrap();
/// # subscription.next_batch().await;
/// use pilothouse_informer::metrics::names;
///
/// for metrics in registry.metrics() {
///     let labels = format!("resource={:?},name={:?}", metrics.resource, metrics.name);
///     println!("{}{{{labels}}} {}", names::STORE_OBJECTS.name, metrics.store_objects);
///     # assert!(labels == r#"resource="v1/namespaces",name="all""# && metrics.store_objects > 0);
/// }
/// # });
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct InformerMetrics {
    /// Group, version and plural, such as `apps/v1/deployments` or `v1/pods`.
    pub resource: String,
    /// Which part of the resource the informers watch: `all`, `namespaced`, `selected` or `namespaced-selected`, with the
    /// suffix `-metadata` or `-trimmed` if objects are not cached whole. The namespace and the selector are not part of the
    /// name, because the number of label values must be bounded.
    pub name: String,
    /// [`names::LISTS`].
    pub lists: u64,
    /// [`names::LIST_DURATION`].
    pub list_duration: HistogramSnapshot,
    /// [`names::ITEMS_PER_LIST`].
    pub items_per_list: HistogramSnapshot,
    /// [`names::WATCHES`].
    pub watches: u64,
    /// [`names::SHORT_WATCHES`].
    pub short_watches: u64,
    /// [`names::WATCH_DURATION`].
    pub watch_duration: HistogramSnapshot,
    /// [`names::ITEMS_PER_WATCH`].
    pub items_per_watch: HistogramSnapshot,
    /// [`names::LAST_RESOURCE_VERSION`]; `None` before the first list, and if versions are not numbers.
    pub last_resource_version: Option<u64>,
    /// [`names::EVENTS`].
    pub events: u64,
    /// [`names::RECEIVED_BYTES`].
    pub received_bytes: u64,
    /// [`names::FAILURES`].
    pub failures: u64,
    /// [`names::STALE_EVENTS`].
    pub stale_events: u64,
    /// [`names::MERGED_DELTAS`].
    pub merged_deltas: u64,
    /// [`names::DROPPED_DELTAS`].
    pub dropped_deltas: u64,
    /// [`names::MERGED_NOTIFICATIONS`].
    pub merged_notifications: u64,
    /// [`names::INFORMERS`].
    pub informers: usize,
    /// [`names::SYNCED`].
    pub synced: usize,
    /// [`names::FAILING`].
    pub failing: usize,
    /// [`names::QUEUE_DEPTH`].
    pub queue_depth: usize,
    /// [`names::STORE_OBJECTS`].
    pub store_objects: usize,
    /// [`names::STORE_BYTES`].
    pub store_bytes: usize,
    /// [`names::SUBSCRIBERS`].
    pub subscribers: usize,
    /// [`names::BACKLOG`].
    pub backlog: usize,
    /// [`names::LONGEST_BACKLOG`].
    pub longest_backlog: usize,
}

/// The counters that informers with equal labels share, so that the counters outlive each informer.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) lists: Counter,
    pub(crate) list_duration: Histogram,
    pub(crate) items_per_list: Histogram,
    pub(crate) watches: Counter,
    pub(crate) short_watches: Counter,
    pub(crate) watch_duration: Histogram,
    pub(crate) items_per_watch: Histogram,
    pub(crate) events: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) failures: Counter,
    pub(crate) stale_events: Counter,
    pub(crate) merged_deltas: Counter,
    pub(crate) dropped_deltas: Counter,
    pub(crate) merged_notifications: Counter,
}

/// A number that only increases.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

/// The counters of each pair of label values. There are as many pairs as resources were ever watched, times a few names.
#[derive(Debug, Default)]
pub(crate) struct CountersByLabels(Mutex<BTreeMap<Labels, Arc<Counters>>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    resource: String,
    name: String,
}

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            lists: Counter::default(),
            list_duration: Histogram::of_durations(),
            items_per_list: Histogram::of_items(),
            watches: Counter::default(),
            short_watches: Counter::default(),
            watch_duration: Histogram::of_durations(),
            items_per_watch: Histogram::of_items(),
            events: Counter::default(),
            received_bytes: Counter::default(),
            failures: Counter::default(),
            stale_events: Counter::default(),
            merged_deltas: Counter::default(),
            dropped_deltas: Counter::default(),
            merged_notifications: Counter::default(),
        }
    }

    fn snapshot(&self, labels: &Labels) -> InformerMetrics {
        InformerMetrics {
            resource: labels.resource.clone(),
            name: labels.name.clone(),
            lists: self.lists.get(),
            list_duration: self.list_duration.snapshot(),
            items_per_list: self.items_per_list.snapshot(),
            watches: self.watches.get(),
            short_watches: self.short_watches.get(),
            watch_duration: self.watch_duration.snapshot(),
            items_per_watch: self.items_per_watch.snapshot(),
            events: self.events.get(),
            received_bytes: self.received_bytes.get(),
            failures: self.failures.get(),
            stale_events: self.stale_events.get(),
            merged_deltas: self.merged_deltas.get(),
            dropped_deltas: self.dropped_deltas.get(),
            merged_notifications: self.merged_notifications.get(),
            ..InformerMetrics::default()
        }
    }
}

impl CountersByLabels {
    /// Returns the counters for an informer with this key.
    pub(crate) fn counters(&self, key: &InformerKey) -> Arc<Counters> {
        Arc::clone(self.0.lock().entry(Labels::of(key)).or_insert_with(|| Arc::new(Counters::new())))
    }

    /// Returns one snapshot for each pair of label values. `add_gauges` adds the current gauges of the informer at a position in
    /// `informers`.
    pub(crate) fn snapshot<'a>(
        &self,
        informers: impl Iterator<Item = &'a InformerKey>,
        mut add_gauges: impl FnMut(usize, &mut InformerMetrics),
    ) -> Vec<InformerMetrics> {
        let families = self.0.lock().clone();
        let mut snapshots: BTreeMap<_, _> =
            families.iter().map(|(labels, counters)| (labels, counters.snapshot(labels))).collect();
        for (position, key) in informers.enumerate() {
            if let Some(metrics) = snapshots.get_mut(&Labels::of(key)) {
                add_gauges(position, metrics);
            }
        }
        snapshots.into_values().collect()
    }
}

impl Labels {
    fn of(key: &InformerKey) -> Self {
        let selected = !key.label_selector.is_empty() || !key.field_selector.is_empty();
        let scope = match (key.namespace.is_some(), selected) {
            (false, false) => "all",
            (true, false) => "namespaced",
            (false, true) => "selected",
            (true, true) => "namespaced-selected",
        };
        let Transform { projection, keep, .. } = &key.transform;
        let suffix = match (projection, keep.is_empty()) {
            (Projection::Metadata, _) => "-metadata",
            (Projection::Full, false) => "-trimmed",
            (Projection::Full, true) => "",
        };
        let resource = &key.resource;
        Self {
            resource: format!("{}/{}", resource.api_version(), resource.plural),
            name: format!("{scope}{suffix}"),
        }
    }
}
