use serde::Serialize;

use super::informer::Informer;

/// The state of one informer, for a bug report. It holds no object's content.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InformerDump {
    /// What is watched, as a command line would say it.
    pub key: String,
    /// The URL path.
    pub path: String,
    /// What it is doing, and what keeps it from doing so.
    pub status: String,
    /// Whether the first list has been processed.
    pub synced: bool,
    /// The last resource version seen.
    pub resource_version: Option<String>,
    /// Cached objects.
    pub objects: usize,
    /// Heap bytes of the cached objects, approximately.
    pub object_bytes: usize,
    /// Deltas that wait for the store.
    pub pending_deltas: usize,
    /// Requests for lists, pages counted.
    pub list_requests: u64,
    /// Requests for watches.
    pub watch_requests: u64,
    /// Events read.
    pub events: u64,
    /// Failed requests and unreadable answers.
    pub failures: u64,
    /// Events that were older than the cached object.
    pub stale_events: u64,
    /// Its subscribers.
    pub subscribers: Vec<SubscriberDump>,
}

/// The state of one subscriber.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriberDump {
    /// What it asked for.
    pub key: String,
    /// Notifications that it has not taken.
    pub backlog: usize,
    /// Whether it has been given the initial list.
    pub synced: bool,
}

impl InformerDump {
    pub(super) fn of(informer: &Informer) -> Self {
        let status = informer.status();
        let mut subscribers = Vec::new();
        informer.visit_subscribers(|key, backlog, synced| {
            subscribers.push(SubscriberDump { key: key.to_string(), backlog, synced });
        });
        let objects = informer.store.list();
        Self {
            key: informer.key.to_string(),
            path: informer.key.url_path(),
            status: status.to_string(),
            synced: status.synced,
            resource_version: status.resource_version,
            objects: objects.len(),
            object_bytes: objects.iter().map(pilothouse_model::Object::memory_size).sum(),
            pending_deltas: informer.pending_deltas(),
            list_requests: status.list_requests,
            watch_requests: status.watch_requests,
            events: status.events,
            failures: status.failures,
            stale_events: status.stale_events,
            subscribers,
        }
    }
}
