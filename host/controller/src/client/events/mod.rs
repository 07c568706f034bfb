//! Writes Kubernetes Events (`events.k8s.io/v1`) about objects in the background.
//!
//! Equal events become one Event with a growing series, as with client-go's recorder: a plugin that complains
//! at every reconcile makes one object and not thousands.
//!
//! The plugins take turns ([`queue`]), so that one whose Events take long delays neither those of others nor the host's own.

mod queue;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_informer::supervise::{TaskPanic, supervise};
use pilothouse_model::Object;
use pilothouse_model::hash::HashMap;
use pilothouse_model::percent_encoding::path_segment;
use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryKind, LogLevel};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::{ApiClient, Payload, query};
use crate::environment::WallClock;
use crate::logs::PluginLogs;
use crate::timestamp::rfc_3339_microseconds;
use queue::{EventQueue, Source};

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

/// Passes events to the task that writes them. Never waits: if too many events of a plugin are queued,
/// further ones are dropped and counted, because events are diagnostics and must not delay work.
#[derive(Clone)]
pub(crate) struct EventRecorder {
    queue: Arc<Mutex<EventQueue<PendingEvent>>>,
    /// Wakes the task. It has room for one message, which is enough: the task looks at the whole queue.
    queued: mpsc::Sender<()>,
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

/// Timeout of a request. Events are diagnostics: one in a namespace with a slow webhook is not worth a longer wait.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after the last occurrence an equal event extends the series. client-go's recorder also has 6
/// minutes.
const SERIES_TIMEOUT: Duration = Duration::from_mins(6);
/// The maximum length of a note of the host, in characters. The API server accepts 1024 bytes.
const MAX_NOTE: usize = 256;
/// Series that are remembered.
const MAX_SERIES: usize = 4096;

/// Returns the note of an event of the host, without what exceeds [`MAX_NOTE`].
pub(crate) fn short_note(note: &str) -> String {
    note.chars().take(MAX_NOTE).collect()
}

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
        let (recorder, queued) = Self::new();
        let queue = Arc::clone(&recorder.queue);
        tokio::spawn(async move {
            let recorded = HashMap::default();
            let mut writer = EventWriter { server, instance, logs, clock, queue, queued, recorded };
            let report = |panic: &TaskPanic| tracing::error!("the recorder of Events {panic}");
            supervise(&mut writer, |writer| Box::pin(writer.run()), report).await;
        });
        recorder
    }

    /// Returns a recorder, and what the task that writes its events receives.
    fn new() -> (Self, mpsc::Receiver<()>) {
        let (sender, receiver) = mpsc::channel(1);
        (Self { queue: Arc::default(), queued: sender }, receiver)
    }

    /// Queues an event of the host. Returns `false` if the event was dropped.
    pub(crate) fn record(&self, event: NewEvent) -> bool {
        self.push(Source::Host(Arc::clone(&event.plugin)), event.into())
    }

    /// Queues an event of a guest; its memory is charged to the plugin until it is written. Returns `false`
    /// if the event was dropped.
    pub(crate) fn record_charged(&self, event: NewEvent, memory: &HostMemory) -> bool {
        let mut pending = PendingEvent::from(event);
        let Ok(charge) = memory.try_charge(HostMemoryKind::Events, pending.bytes()) else { return false };
        pending._charge = Some(charge);
        self.push(Source::Guest(Arc::clone(&pending.plugin)), pending)
    }

    fn push(&self, source: Source, event: PendingEvent) -> bool {
        let is_queued = self.queue.lock().push(source, event);
        // If there is no room, the task has not yet looked at the queue since another event was added.
        let _ = self.queued.try_send(());
        is_queued
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
    queue: Arc<Mutex<EventQueue<PendingEvent>>>,
    /// Receives something after an event was queued. Ends when the last recorder is dropped.
    queued: mpsc::Receiver<()>,
    recorded: HashMap<Identity, RecordedSeries>,
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
    async fn run(&mut self) {
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
    json!({"series": {"count": count, "lastObservedTime": rfc_3339_microseconds(now).to_string()}})
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pending_event(note: &str) -> PendingEvent {
        new_event(note).into()
    }

    #[tokio::test]
    async fn a_guests_events_are_charged_until_written_and_hold_no_object() {
        let (recorder, _queued) = EventRecorder::new();
        let memory = HostMemory::new(2 * pending_event("n").bytes());
        assert!(
            recorder.record_charged(new_event("n"), &memory)
                && recorder.record_charged(new_event("m"), &memory)
        );
        assert_eq!(memory.used(), memory.limit());
        assert!(!recorder.record_charged(new_event("o"), &memory), "dropped");
        assert!(recorder.record(new_event("p")), "the host's own is not the plugin's");
        while let Some((source, event)) = { recorder.queue.lock().next() } {
            drop(event);
            recorder.queue.lock().finish(&source);
        }
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

    /// The Events of one plugin have no response, as in a namespace with a slow webhook.
    #[tokio::test(start_paused = true)]
    async fn a_plugin_whose_events_take_long_delays_no_others() {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let service = {
            let seen = Arc::clone(&seen);
            tower::service_fn(move |request: http::Request<kube::client::Body>| {
                let plugin = request.uri().query().unwrap_or_default().replace("fieldManager=", "");
                let hangs = plugin == "slow";
                seen.lock().push(plugin);
                async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    let body = kube::client::Body::from(b"{}".to_vec());
                    Ok::<_, std::convert::Infallible>(http::Response::new(body))
                }
            })
        };
        let server = ApiClient::new(kube::Client::new(service, "default"));
        let recorder =
            EventRecorder::start(server, "test".into(), PluginLogs::default(), WallClock::default());
        let memory = HostMemory::default();
        let of = |plugin: &str, note: u32| NewEvent { plugin: plugin.into(), ..new_event(&note.to_string()) };
        let admitted = (0..1_000).filter(|note| recorder.record_charged(of("slow", *note), &memory)).count();
        assert!((100..200).contains(&admitted), "{admitted}");
        assert!(recorder.record_charged(of("other", 0), &memory));
        assert!(recorder.record(of("slow", 0)), "the host's own");
        let count = |plugin: &str| seen.lock().iter().filter(|seen| *seen == plugin).count();
        while count("other") == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(count("slow"), 2, "one of the plugin, one of the host");
        // Those that have no response are given up at some time, and the next ones are sent.
        while count("slow") < 6 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(memory.used() > 0);
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
