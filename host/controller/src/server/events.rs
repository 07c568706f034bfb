//! Kubernetes Events (`events.k8s.io/v1`) about objects, written in the background.
//!
//! Equal events become one with a growing series, as client-go's recorder does, so that a plugin that complains at
//! every reconcile makes one object and not thousands.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use pilothouse_informer::supervise::{Panic, supervise};
use pilothouse_model::Object;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Payload, Server, query};

/// An event to be recorded.
#[derive(Clone, Debug)]
pub(crate) struct NewEvent {
    /// The plugin that says it.
    pub(crate) plugin: Arc<str>,
    pub(crate) regarding: Object,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) note: String,
}

/// Hands events to the task that writes them. Never waits: when the task is behind by [`BACKLOG`], events are dropped
/// and counted, because an event is a comment and must not hold work up.
#[derive(Clone)]
pub(crate) struct EventRecorder {
    sender: mpsc::Sender<NewEvent>,
}

const BACKLOG: usize = 1024;
/// How long an event counts as the same; client-go's recorder has 6 minutes.
const SERIES: Duration = Duration::from_mins(6);
const KEPT: usize = 4096;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Identity {
    plugin: Arc<str>,
    regarding: String,
    warning: bool,
    reason: String,
    action: String,
    note: String,
}

struct Recorded {
    path: String,
    count: u32,
    last: Instant,
}

impl EventRecorder {
    /// Starts the writing task; it ends when the last recorder is dropped.
    pub(crate) fn start(server: Server, instance: Arc<str>) -> Self {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        tokio::spawn(async move {
            let mut writer = Writer { server, instance, receiver, recorded: HashMap::new() };
            let report = |panic: &Panic| tracing::error!("the recorder of Events {panic}");
            supervise(&mut writer, |writer| Box::pin(writer.run()), report).await;
        });
        Self { sender }
    }

    /// Queues an event; false when it was dropped.
    pub(crate) fn record(&self, event: NewEvent) -> bool {
        self.sender.try_send(event).is_ok()
    }
}

struct Writer {
    server: Server,
    instance: Arc<str>,
    receiver: mpsc::Receiver<NewEvent>,
    recorded: HashMap<Identity, Recorded>,
}

impl Writer {
    /// Writes until the last recorder is dropped.
    async fn run(&mut self) {
        let Self { server, instance, receiver, recorded } = self;
        while let Some(event) = receiver.recv().await {
            let now = Instant::now();
            if recorded.len() >= KEPT {
                recorded.retain(|_, known| now.duration_since(known.last) < SERIES);
                if recorded.len() >= KEPT {
                    recorded.clear();
                }
            }
            let identity = identity(&event);
            let again = recorded.get_mut(&identity).filter(|known| now.duration_since(known.last) < SERIES);
            let outcome = match again {
                Some(known) => {
                    known.count += 1;
                    known.last = now;
                    let series = series(known.count, Timestamp::now());
                    let payload = Payload {
                        content_type: "application/merge-patch+json",
                        body: series.to_string().into(),
                    };
                    server.request(Method::PATCH, &known.path, Some(payload)).await
                }
                None => {
                    let (collection, name, body) = manifest(&event, instance, Timestamp::now());
                    let path = format!("{collection}/{name}");
                    recorded.insert(identity.clone(), Recorded { path, count: 1, last: now });
                    let path = collection + &query(&[("fieldManager", &event.plugin)]);
                    server.request(Method::POST, &path, Some(Payload::json(body.to_string()))).await
                }
            };
            if let Err(error) = outcome {
                recorded.remove(&identity);
                let regarding = event.regarding.key();
                tracing::warn!(plugin = %event.plugin, %regarding, reason = event.reason, "event not recorded: {error}");
            }
        }
    }
}

fn identity(event: &NewEvent) -> Identity {
    let object = &event.regarding;
    Identity {
        plugin: Arc::clone(&event.plugin),
        regarding: format!("{}/{}/{}", object.kind(), object.key(), object.uid()),
        warning: event.warning,
        reason: event.reason.clone(),
        action: event.action.clone(),
        note: event.note.clone(),
    }
}

fn series(count: u32, now: Timestamp) -> Value {
    json!({"series": {"count": count, "lastObservedTime": micro(now)}})
}

/// metav1.MicroTime.
fn micro(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// The collection's path, the event's name, and its manifest.
fn manifest(event: &NewEvent, instance: &str, now: Timestamp) -> (String, String, Value) {
    let object = &event.regarding;
    // Events about cluster-scoped objects live in `default`, as with client-go.
    let namespace = if object.namespace().is_empty() { "default" } else { object.namespace() };
    let name = format!("{}.{:x}", object.name(), now.as_nanosecond());
    let body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": micro(now),
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason,
        "action": if event.action.is_empty() { "Reconcile" } else { &event.action },
        "note": event.note,
        "reportingController": format!("pilothouse.dev/{}", event.plugin),
        "reportingInstance": format!("{}-{instance}", event.plugin),
        "regarding": {
            "apiVersion": object.api_version(), "kind": object.kind(), "name": object.name(),
            "namespace": object.namespace(), "uid": object.uid(), "resourceVersion": object.resource_version(),
        },
    });
    (format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"), name, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(note: &str) -> NewEvent {
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
        let (path, name, body) = manifest(&event("n"), "host", now);
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
    fn events_are_one_series_only_if_all_they_say_is_equal() {
        assert!(identity(&event("a")) == identity(&event("a")));
        assert!(identity(&event("a")) != identity(&event("b")));
    }
}
