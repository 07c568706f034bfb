//! What the consumers count and measure: notifications since the list, and the age of events when they arrive.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::Arguments;

/// The annotation in which the server says when it sent an object: nanoseconds since 1970.
const SENT_AT: &str = "bench/sent-at";

pub struct Progress {
    objects: usize,
    /// The resource version of the last event.
    last: String,
    /// Events with a resource version up to this one, the first 5 %, are not measured.
    warm: usize,
    latency: bool,
    seen: Mutex<Seen>,
    /// Told when as many notifications were seen as there are objects.
    initial: Notify,
    /// Told when the last event was seen.
    finished: Notify,
}

struct Seen {
    /// With those of the objects that were listed.
    notifications: usize,
    latencies: Vec<i64>,
}

impl Progress {
    pub fn new(arguments: &Arguments) -> Self {
        let Arguments { objects, events, latency, .. } = *arguments;
        let latencies = Vec::with_capacity(if latency { events } else { 0 });
        Self {
            objects,
            last: (objects + events).to_string(),
            warm: objects + events / 20,
            latency,
            seen: Mutex::new(Seen { notifications: 0, latencies }),
            initial: Notify::new(),
            finished: Notify::new(),
        }
    }

    /// The first thing that a subscriber or a reconcile asks for; 0 when nothing is measured.
    pub fn now(&self) -> i64 {
        if !self.latency {
            return 0;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
    }

    /// Counts a notification, of a listed object or of a change.
    pub fn seen(&self, now: i64, metadata: &ObjectMeta) {
        let mut seen = self.seen.lock();
        seen.notifications += 1;
        if self.latency {
            seen.latencies.extend(self.age(now, metadata));
        }
        if seen.notifications == self.objects {
            self.initial.notify_one();
        }
        if metadata.resource_version.as_ref() == Some(&self.last) {
            self.finished.notify_one();
        }
    }

    fn age(&self, now: i64, metadata: &ObjectMeta) -> Option<i64> {
        let version: usize = metadata.resource_version.as_ref()?.parse().ok()?;
        let sent: i64 = metadata.annotations.as_ref().and_then(sent_at)?.parse().ok()?;
        // A reconcile's object may be newer than its first instruction.
        (version > self.warm).then_some((now - sent).max(0))
    }

    /// Returns when as many notifications were seen as there are objects.
    pub async fn initial(&self) {
        self.initial.notified().await;
    }

    /// Returns when the last event was seen, with what is to be printed of it.
    pub async fn finished(&self) -> Value {
        self.finished.notified().await;
        let mut seen = self.seen.lock();
        let mut done = json!({"delivered": seen.notifications - self.objects});
        seen.latencies.sort_unstable();
        if let Some(last) = seen.latencies.len().checked_sub(1) {
            let at = |percent: usize| seen.latencies[last * percent / 100];
            done["latencyNanos"] = json!({"p50": at(50), "p90": at(90), "p99": at(99), "max": at(100)});
        }
        done
    }
}

fn sent_at(annotations: &BTreeMap<String, String>) -> Option<&String> {
    annotations.get(SENT_AT)
}
