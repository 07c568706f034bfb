//! Counts the notifications after the list and measures their latency.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::Arguments;

/// The annotation with the time at which the server sent an object, in nanoseconds since 1970.
const SENT_AT: &str = "bench/sent-at";

/// Records notifications.
pub struct Progress {
    objects: usize,
    /// The resource version of the last event.
    last_version: String,
    /// The resource version of the last event of the warm-up, which is the first 5 % of the events.
    warm_up_end: usize,
    latency: bool,
    records: Mutex<Records>,
    /// Notified when as many notifications have been received as there are objects.
    list_received: Notify,
    /// Notified when the last event has been received.
    finished: Notify,
}

struct Records {
    /// The number of notifications, including those of the listed objects.
    notifications: usize,
    latencies: Vec<i64>,
}

impl Progress {
    pub fn new(arguments: &Arguments) -> Self {
        let Arguments { objects, events, latency, .. } = *arguments;
        let latencies = Vec::with_capacity(if latency { events } else { 0 });
        Self {
            objects,
            last_version: (objects + events).to_string(),
            warm_up_end: objects + events / 20,
            latency,
            records: Mutex::new(Records { notifications: 0, latencies }),
            list_received: Notify::new(),
            finished: Notify::new(),
        }
    }

    /// Returns the Unix time in nanoseconds, for the start of a handler or a reconcile; 0 if latency is not measured.
    pub fn now(&self) -> i64 {
        if !self.latency {
            return 0;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
    }

    /// Counts the notification of a listed object or of a change.
    pub fn record(&self, now: i64, metadata: &ObjectMeta) {
        let mut records = self.records.lock();
        records.notifications += 1;
        if self.latency {
            records.latencies.extend(self.measured_latency(now, metadata));
        }
        if records.notifications == self.objects {
            self.list_received.notify_one();
        }
        if metadata.resource_version.as_ref() == Some(&self.last_version) {
            self.finished.notify_one();
        }
    }

    /// Returns the latency of an event; `None` during the warm-up.
    fn measured_latency(&self, now: i64, metadata: &ObjectMeta) -> Option<i64> {
        let version: usize = metadata.resource_version.as_ref()?.parse().ok()?;
        let sent: i64 = metadata.annotations.as_ref().and_then(sent_at)?.parse().ok()?;
        // A reconcile reads its object after it has read the time, so the object may have been sent later.
        (version > self.warm_up_end).then_some((now - sent).max(0))
    }

    /// Waits until as many notifications have been received as there are objects.
    pub async fn wait_for_list(&self) {
        self.list_received.notified().await;
    }

    /// Waits for the last event and returns the results to print.
    pub async fn wait_for_end(&self) -> Value {
        self.finished.notified().await;
        let mut records = self.records.lock();
        let mut done = json!({"delivered": records.notifications - self.objects});
        records.latencies.sort_unstable();
        if let Some(last) = records.latencies.len().checked_sub(1) {
            let at = |percent: usize| records.latencies[last * percent / 100];
            done["latencyNanos"] = json!({"p50": at(50), "p90": at(90), "p99": at(99), "max": at(100)});
        }
        done
    }
}

fn sent_at(annotations: &BTreeMap<String, String>) -> Option<&String> {
    annotations.get(SENT_AT)
}
