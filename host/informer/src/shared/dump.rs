use serde::Serialize;

use super::informer::Informer;
use super::registration::Registration;
use crate::failure::FailureKind;
use crate::status::InformerPhase;

/// The state of one informer, for a bug report: what it asks for, how far it is, what keeps it, and who waits for whom.
/// It holds no object's content, so it can be shown to others; names of namespaces and selectors are in it.
///
/// [`InformerRegistry::informers`](crate::InformerRegistry::informers) gives one for each informer; `Debug` and
/// `serde_json` print it whole.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InformerDump {
    /// What is watched, as a command line would say it.
    pub key: String,
    /// The URL path.
    pub path: String,
    /// What is taken out of objects: `full` or `metadata`, then the members that are kept, when not all are.
    pub projection: String,
    /// What the reflector is doing.
    pub phase: InformerPhase,
    /// The same in a sentence, with what keeps it from doing so.
    pub status: String,
    /// Whether the first list has been processed.
    pub synced: bool,
    /// The last resource version seen.
    pub resource_version: Option<String>,
    /// What keeps it from watching; `None` while it lists or watches without trouble.
    pub error: Option<FailureDump>,
    /// The cache.
    pub store: StoreDump,
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

/// The state of an informer's cache.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreDump {
    /// Cached objects.
    pub objects: usize,
    /// Their heap bytes, approximately.
    pub bytes: usize,
    /// How many of them are compressed.
    pub packed: usize,
    /// The version up to which the cache has seen everything; behind the reflector's while deltas wait.
    pub resource_version: String,
    /// Indexes, those that subscribers share counted once.
    pub indexes: usize,
}

/// A failed request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureDump {
    /// What kind it is.
    pub kind: FailureKind,
    /// The HTTP status, if there was an answer.
    pub code: Option<u16>,
    /// What happened, to what, and what to do.
    pub message: String,
}

/// The state of one subscriber.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriberDump {
    /// What it asked for.
    pub key: String,
    /// Whether it sees only a part of a wider informer's objects.
    pub narrowed: bool,
    /// Notifications that it has not taken.
    pub backlog: usize,
    /// Whether it has been given the initial list.
    pub synced: bool,
    /// The seconds between its resyncs.
    pub resync_seconds: Option<u64>,
    /// The names of its indexes, sorted.
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
