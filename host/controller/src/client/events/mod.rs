//! Writes Kubernetes Events (`events.k8s.io/v1`) about objects in the background.
//!
//! Equal events become one Event with a growing series, as with client-go's recorder: a plugin that complains
//! at every reconcile makes one object and not thousands.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use pilothouse_informer::supervise::{TaskPanic, supervise};
use pilothouse_model::Object;
use pilothouse_model::hash::HashMap;
use pilothouse_model::names::path_segment;
use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryKind, LogLevel};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{ApiClient, Payload, query};
use crate::environment::WallClock;
use crate::logs::PluginLogs;

/// An event to be recorded.
#[derive(Clone, Debug)]
pub(crate) struct NewEvent {
    /// The plugin that reports the event.
    pub(crate) plugin: Arc<str>,
    pub(crate) regarding: Object,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) note: String,
}

/// Passes events to the task that writes them. Never waits: if the task is behind by [`BACKLOG`] events,
/// further ones are dropped and counted, because events are diagnostics and must not delay work.
#[derive(Clone)]
pub(crate) struct EventRecorder {
    sender: mpsc::Sender<PendingEvent>,
}

/// An event that waits to be written. It holds a reference to its object, not the object itself: a thousand
/// objects may have gigabytes.
struct PendingEvent {
    plugin: Arc<str>,
    regarding: ObjectReference,
    warning: bool,
    reason: String,
    action: String,
    note: String,
    _charge: Option<HostMemoryCharge>,
}

/// The object that an event is about, and its resource version.
struct ObjectReference {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

/// Events that may wait to be written.
const BACKLOG: usize = 1024;
/// How long after the last occurrence an equal event extends the series. client-go's recorder also has 6
/// minutes.
const SERIES_TIMEOUT: Duration = Duration::from_mins(6);
/// Series that are remembered.
const MAX_SERIES: usize = 4096;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Identity {
    plugin: Arc<str>,
    regarding: String,
    warning: bool,
    reason: String,
    action: String,
    note: String,
}

struct RecordedSeries {
    path: String,
    count: u32,
    last: Instant,
}

impl EventRecorder {
    /// Starts the writing task. The task ends when the last recorder is dropped.
    pub(crate) fn start(server: ApiClient, instance: Arc<str>, logs: PluginLogs, clock: WallClock) -> Self {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        tokio::spawn(async move {
            let mut writer =
                EventWriter { server, instance, logs, clock, receiver, recorded: HashMap::default() };
            let report = |panic: &TaskPanic| tracing::error!("the recorder of Events {panic}");
            supervise(&mut writer, |writer| Box::pin(writer.run()), report).await;
        });
        Self { sender }
    }

    /// Queues an event of the host. Returns `false` if the event was dropped.
    pub(crate) fn record(&self, event: NewEvent) -> bool {
        self.sender.try_send(event.into()).is_ok()
    }

    /// Queues an event of a guest; its memory is charged to the plugin until it is written. Returns `false`
    /// if the event was dropped.
    pub(crate) fn record_charged(&self, event: NewEvent, memory: &HostMemory) -> bool {
        let mut pending = PendingEvent::from(event);
        let Ok(charge) = memory.try_charge(HostMemoryKind::Events, pending.bytes()) else { return false };
        pending._charge = Some(charge);
        self.sender.try_send(pending).is_ok()
    }
}

impl From<NewEvent> for PendingEvent {
    fn from(event: NewEvent) -> Self {
        let NewEvent { plugin, regarding: object, warning, reason, action, note } = event;
        let regarding = ObjectReference {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
        };
        Self { plugin, regarding, warning, reason, action, note, _charge: None }
    }
}

impl PendingEvent {
    fn bytes(&self) -> usize {
        let ObjectReference { api_version, kind, namespace, name, uid, resource_version } = &self.regarding;
        let texts = [api_version, kind, namespace, name, uid, resource_version];
        let texts = texts.into_iter().chain([&self.reason, &self.action, &self.note]);
        size_of::<Self>() + texts.map(String::len).sum::<usize>()
    }
}

impl ObjectReference {
    /// `namespace/name`, or `name` for cluster scope.
    fn key(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

struct EventWriter {
    server: ApiClient,
    instance: Arc<str>,
    logs: PluginLogs,
    clock: WallClock,
    receiver: mpsc::Receiver<PendingEvent>,
    recorded: HashMap<Identity, RecordedSeries>,
}

impl EventWriter {
    /// Writes events until the last recorder is dropped.
    async fn run(&mut self) {
        let Self { server, instance, logs, clock, receiver, recorded } = self;
        while let Some(event) = receiver.recv().await {
            let now = Instant::now();
            if recorded.len() >= MAX_SERIES {
                recorded.retain(|_, known| now.duration_since(known.last) < SERIES_TIMEOUT);
                if recorded.len() >= MAX_SERIES {
                    recorded.clear();
                }
            }
            let identity = identity(&event);
            let existing =
                recorded.get_mut(&identity).filter(|known| now.duration_since(known.last) < SERIES_TIMEOUT);
            let outcome = match existing {
                Some(known) => {
                    known.count += 1;
                    known.last = now;
                    let series = series(known.count, clock.now());
                    let payload = Payload {
                        content_type: "application/merge-patch+json",
                        body: series.to_string().into(),
                    };
                    server.request(Method::PATCH, &known.path, Some(payload)).await
                }
                None => {
                    let (collection, name, body) = manifest(&event, instance, clock.now());
                    let path = format!("{collection}/{}", path_segment(&name));
                    let collection = collection + &query(&[("fieldManager", &event.plugin)]);
                    let payload = Payload::json(body.to_string());
                    let outcome = server.request(Method::POST, &collection, Some(payload)).await;
                    // Only an Event that exists can become a series.
                    if outcome.is_ok() {
                        recorded.insert(identity.clone(), RecordedSeries { path, count: 1, last: now });
                    }
                    outcome
                }
            };
            if let Err(error) = outcome {
                recorded.remove(&identity);
                if let Some(log) = logs.of_known(&event.plugin) {
                    let text = format_args!("Event {:?} not recorded: {error}", event.reason);
                    log.host(LogLevel::Warn, text, &[("key", &event.regarding.key())]);
                }
            }
        }
    }
}

fn identity(event: &PendingEvent) -> Identity {
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
    json!({"series": {"count": count, "lastObservedTime": micro_time(now)}})
}

/// Formats a time as `metav1.MicroTime`.
fn micro_time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Returns the path of the collection, and the name and the manifest of the Event.
fn manifest(event: &PendingEvent, instance: &str, now: Timestamp) -> (String, String, Value) {
    let object = &event.regarding;
    // Events about cluster-scoped objects live in `default`, as with client-go.
    let namespace = if object.namespace.is_empty() { "default" } else { &object.namespace };
    let name = format!("{}.{:x}", object.name, now.as_nanosecond());
    let body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": micro_time(now),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pending_event(note: &str) -> PendingEvent {
        new_event(note).into()
    }

    #[tokio::test]
    async fn a_guests_events_are_charged_until_written_and_hold_no_object() {
        let (sender, mut receiver) = mpsc::channel(BACKLOG);
        let recorder = EventRecorder { sender };
        let memory = HostMemory::new(2 * pending_event("n").bytes());
        assert!(
            recorder.record_charged(new_event("n"), &memory)
                && recorder.record_charged(new_event("m"), &memory)
        );
        assert_eq!(memory.used(), memory.limit());
        assert!(!recorder.record_charged(new_event("o"), &memory), "dropped");
        assert!(recorder.record(new_event("p")), "the host's own is not the plugin's");
        while receiver.try_recv().is_ok() {}
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_recorder_continues_after_a_panic() {
        let methods = Arc::<parking_lot::Mutex<Vec<Method>>>::default();
        let seen = Arc::clone(&methods);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let mut methods = seen.lock();
            methods.push(request.method().clone());
            let count = methods.len();
            // The response is polled by the recorder's task.
            async move {
                assert!(count > 1, "a defect in the recorder");
                Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(
                    b"{}".to_vec(),
                )))
            }
        });
        let server = ApiClient::new(kube::Client::new(service, "default"));
        let recorder =
            EventRecorder::start(server, "test".into(), PluginLogs::default(), WallClock::default());
        for _ in 0..3 {
            assert!(recorder.record(new_event("n")));
        }
        while methods.lock().len() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The first Event was not written, so the second one is not an occurrence of it.
        assert_eq!(*methods.lock(), [Method::POST, Method::POST, Method::PATCH]);
    }

    fn new_event(note: &str) -> NewEvent {
        let object =
            r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"u","resourceVersion":"5"}}"#;
        NewEvent {
            plugin: "p".into(),
            regarding: Object::from_json(object).expect("an object"),
            warning: true,
            reason: "Odd".into(),
            action: String::new(),
            note: note.into(),
        }
    }

    #[test]
    fn an_event_about_a_cluster_scoped_object_lives_in_default() {
        let now = Timestamp::UNIX_EPOCH;
        let (path, name, body) = manifest(&pending_event("n"), "host", now);
        assert_eq!(
            (path.as_str(), name.as_str()),
            ("/apis/events.k8s.io/v1/namespaces/default/events", "n1.0")
        );
        assert_eq!(body["eventTime"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(body["regarding"]["kind"], "Node");
        assert_eq!(body["type"], "Warning");
        assert_eq!(body["action"], "Reconcile", "the server refuses an empty action");
    }

    #[test]
    fn only_equal_events_share_a_series() {
        assert!(identity(&pending_event("a")) == identity(&pending_event("a")));
        assert!(identity(&pending_event("a")) != identity(&pending_event("b")));
    }
}
