//! The task that writes Events.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_model::hash::HashMap;
use pilothouse_model::percent_encoding::path_segment;
use pilothouse_plugin::LogLevel;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::PendingEvent;
use super::queue::{EventQueue, Source};
use crate::client::{ApiClient, Payload, query};
use crate::environment::WallClock;
use crate::logs::PluginLogs;
use crate::timestamp::rfc_3339_microseconds;

/// Timeout of a request. Events are diagnostics: one in a namespace with a slow webhook is not worth a longer wait.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after the last occurrence an equal event extends the series. client-go's recorder also has 6
/// minutes.
const SERIES_TIMEOUT: Duration = Duration::from_mins(6);
/// Series that are remembered.
const MAX_SERIES: usize = 4096;

/// What equal events have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    plugin: Arc<str>,
    regarding: String,
    warning: bool,
    reason: String,
    action: String,
    note: String,
}

/// An Event that was created, and how often it has occurred.
pub(super) struct RecordedSeries {
    path: String,
    count: u32,
    last: Instant,
}

/// The state of the writing task.
pub(super) struct EventWriter {
    pub(super) server: ApiClient,
    pub(super) instance: Arc<str>,
    pub(super) logs: PluginLogs,
    pub(super) clock: WallClock,
    pub(super) queue: Arc<Mutex<EventQueue<PendingEvent>>>,
    /// Receives something after an event was queued. Ends when the last recorder is dropped.
    pub(super) queued: mpsc::Receiver<()>,
    pub(super) recorded: HashMap<Identity, RecordedSeries>,
}

/// An event whose request has ended.
struct SentEvent {
    source: Source,
    event: PendingEvent,
    identity: Identity,
    /// The path of the Event if it was created.
    created: Option<String>,
    result: Result<(), String>,
}

impl EventWriter {
    /// Writes events until the last recorder is dropped and all queued events were sent.
    pub(super) async fn run(&mut self) {
        self.queue.lock().abandon_in_flight();
        let mut in_flight = FuturesUnordered::new();
        let mut has_recorders = true;
        loop {
            loop {
                let next = self.queue.lock().next();
                let Some((source, event)) = next else { break };
                in_flight.push(self.send(source, event));
            }
            if !has_recorders && in_flight.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                Some(sent) = in_flight.next(), if !in_flight.is_empty() => self.finish(sent),
                queued = self.queued.recv(), if has_recorders => has_recorders = queued.is_some(),
            }
        }
    }

    /// Returns the request of an event, which creates an Event or extends the series of an equal one.
    fn send(&mut self, source: Source, event: PendingEvent) -> impl Future<Output = SentEvent> + use<> {
        let now = Instant::now();
        if self.recorded.len() >= MAX_SERIES {
            self.recorded.retain(|_, known| now.duration_since(known.last) < SERIES_TIMEOUT);
            if self.recorded.len() >= MAX_SERIES {
                self.recorded.clear();
            }
        }
        let identity = identity(&event);
        let existing =
            self.recorded.get_mut(&identity).filter(|known| now.duration_since(known.last) < SERIES_TIMEOUT);
        let (method, path, payload, created) = match existing {
            Some(known) => {
                known.count += 1;
                known.last = now;
                let body = series(known.count, self.clock.now()).to_string().into();
                let payload = Payload { content_type: "application/merge-patch+json", body };
                (Method::PATCH, known.path.clone(), payload, None)
            }
            None => {
                let (collection, name, body) = manifest(&event, &self.instance, self.clock.now());
                let path = format!("{collection}/{}", path_segment(&name));
                let collection = collection + &query(&[("fieldManager", &event.plugin)]);
                (Method::POST, collection, Payload::json(body.to_string()), Some(path))
            }
        };
        let server = self.server.clone();
        async move {
            let result = match timeout(REQUEST_TIMEOUT, server.request(method, &path, Some(payload))).await {
                Ok(result) => result.map(drop).map_err(|error| error.to_string()),
                Err(_) => Err(format!("no response in {} s", REQUEST_TIMEOUT.as_secs())),
            };
            SentEvent { source, event, identity, created, result }
        }
    }

    /// Remembers an Event that was created, and logs one that was not.
    fn finish(&mut self, sent: SentEvent) {
        let SentEvent { source, event, identity, created, result } = sent;
        self.queue.lock().finish(&source);
        match result {
            // Only an Event that exists can become a series.
            Ok(()) => {
                if let Some(path) = created {
                    self.recorded.insert(identity, RecordedSeries { path, count: 1, last: Instant::now() });
                }
            }
            Err(error) => {
                self.recorded.remove(&identity);
                if let Some(log) = self.logs.of_known(&event.plugin) {
                    let text = format_args!("Event {:?} not recorded: {error}", event.reason);
                    log.host(LogLevel::Warn, text, &[("key", &event.regarding.key())]);
                }
            }
        }
    }
}

pub(super) fn identity(event: &PendingEvent) -> Identity {
    let object = &event.regarding;
    Identity {
        plugin: Arc::clone(&event.plugin),
        regarding: format!("{}/{}/{}", object.kind, object.key(), object.uid),
        warning: event.warning,
        reason: event.reason.clone(),
        action: event.action.clone(),
        note: event.note.clone(),
    }
}

fn series(count: u32, now: Timestamp) -> Value {
    json!({"series": {"count": count, "lastObservedTime": rfc_3339_microseconds(now).to_string()}})
}

/// Returns the path of the collection, and the name and the manifest of the Event.
pub(super) fn manifest(event: &PendingEvent, instance: &str, now: Timestamp) -> (String, String, Value) {
    let object = &event.regarding;
    // Events about cluster-scoped objects live in `default`, as with client-go.
    let namespace = if object.namespace.is_empty() { "default" } else { &object.namespace };
    let name = format!("{}.{:x}", object.name, now.as_nanosecond());
    let body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": rfc_3339_microseconds(now).to_string(),
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason,
        "action": if event.action.is_empty() { "Reconcile" } else { &event.action },
        "note": event.note,
        "reportingController": format!("pilothouse.dev/{}", event.plugin),
        "reportingInstance": format!("{}-{instance}", event.plugin),
        "regarding": {
            "apiVersion": object.api_version, "kind": object.kind, "name": object.name,
            "namespace": object.namespace, "uid": object.uid, "resourceVersion": object.resource_version,
        },
    });
    (format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"), name, body)
}
