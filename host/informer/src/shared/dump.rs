//! Serializable dumps of the informers' state, for bug reports.

use serde::Serialize;

use super::informer::Informer;
use super::registration::Registration;
use crate::failure::FailureKind;
use crate::status::InformerPhase;

/// The state of one informer, for a bug report: what it watches, its progress, its failure and its subscribers. It contains
/// no object content, so it can be shared; it does contain namespace names and selectors.
///
/// [`InformerRegistry::informers`](crate::InformerRegistry::informers) returns one for each informer. `Debug` and
/// `serde_json` print all of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InformerDump {
    /// What is watched, in the form of `kubectl` arguments.
    pub key: String,
    /// The URL path.
    pub path: String,
    /// What is cached of each object: `full` or `metadata`, followed by the fields that are kept, if not all are.
    pub projection: String,
    /// What the reflector is doing.
    pub phase: InformerPhase,
    /// The phase in words, with the current failure.
    pub status: String,
    /// Whether the first list has been applied to the cache.
    pub synced: bool,
    /// The last resource version seen.
    pub resource_version: Option<String>,
    /// The failure that keeps it from watching; `None` while it lists or watches successfully.
    pub error: Option<FailureDump>,
    /// The cache.
    pub store: StoreDump,
    /// Deltas that have not been applied to the store yet.
    pub pending_deltas: usize,
    /// List requests sent; every page counts.
    pub list_requests: u64,
    /// Watch requests sent, including streaming lists.
    pub watch_requests: u64,
    /// Events read.
    pub events: u64,
    /// Requests that failed or whose response could not be decoded.
    pub failures: u64,
    /// Events that were ignored because the cached object is newer.
    pub stale_events: u64,
    /// The informer's subscribers.
    pub subscribers: Vec<SubscriberDump>,
}

/// The state of an informer's cache.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StoreDump {
    /// Cached objects.
    pub objects: usize,
    /// Heap bytes of the cached objects, approximately.
    pub bytes: usize,
    /// Cached objects that are compressed.
    pub packed: usize,
    /// The version up to which the cache is complete. It is behind the reflector's version while deltas are queued.
    pub resource_version: String,
    /// Indexes. One that several subscribers share counts once.
    pub indexes: usize,
}

/// A failed request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FailureDump {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The HTTP status code, if there was a response.
    pub code: Option<u16>,
    /// What failed, on which resource, and what to do.
    pub message: String,
}

/// The state of one subscriber.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriberDump {
    /// What the subscriber requested, in the form of `kubectl` arguments.
    pub key: String,
    /// Whether the subscriber sees only a part of a wider informer's objects.
    pub narrowed: bool,
    /// Pending notifications.
    pub backlog: usize,
    /// Whether the subscriber has taken the whole initial list.
    pub synced: bool,
    /// The resync period in seconds; `None` if resync is disabled.
    pub resync_seconds: Option<u64>,
    /// The names of the subscriber's indexes, sorted.
    pub indexes: Vec<String>,
}

impl InformerDump {
    pub(super) fn of(informer: &Informer) -> Self {
        let status = informer.status();
        let mut subscribers = Vec::new();
        informer.visit_subscribers(|registration| subscribers.push(SubscriberDump::of(registration)));
        let transform = &informer.key.transform;
        Self {
            key: informer.key.to_string(),
            path: informer.key.url_path(),
            projection: std::iter::once(format!("{:?}", transform.projection).to_lowercase())
                .chain(transform.keep.iter().cloned())
                .collect::<Vec<_>>()
                .join(","),
            phase: status.phase,
            status: status.to_string(),
            synced: status.synced,
            error: status.error.as_ref().map(|failure| FailureDump {
                kind: failure.kind,
                code: failure.code,
                message: failure.to_string(),
            }),
            resource_version: status.resource_version,
            store: StoreDump {
                objects: informer.store.len(),
                bytes: informer.store.memory_size(),
                packed: informer.store.packed(),
                resource_version: informer.store.resource_version(),
                indexes: informer.store.index_count(),
            },
            pending_deltas: informer.queue.len(),
            list_requests: status.list_requests,
            watch_requests: status.watch_requests,
            events: status.events,
            failures: status.failures,
            stale_events: status.stale_events,
            subscribers,
        }
    }
}

impl SubscriberDump {
    fn of(registration: &Registration) -> Self {
        let subscriber = &registration.subscriber;
        Self {
            key: subscriber.key.to_string(),
            narrowed: registration.is_restricted(),
            backlog: subscriber.backlog_len(),
            synced: subscriber.has_synced(),
            resync_seconds: registration.resync.as_ref().map(|resync| resync.period.as_secs()),
            indexes: subscriber.index_names(),
        }
    }
}
