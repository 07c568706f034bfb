//! Writes Kubernetes Events (`events.k8s.io/v1`) about objects in the background.
//!
//! Equal events become one Event with a growing series, as with client-go's recorder: a plugin that complains
//! at every reconcile makes one object and not thousands.
//!
//! The plugins take turns ([`queue`]), so that one whose Events take long delays neither those of others nor the host's own.

mod queue;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_informer::supervise::{TaskPanic, supervise};
use pilothouse_model::Object;
use pilothouse_model::hash::HashMap;
use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryKind};
use tokio::sync::mpsc;

use super::ApiClient;
use crate::environment::WallClock;
use crate::logs::PluginLogs;
use queue::{EventQueue, Source};
use writer::EventWriter;

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

/// The maximum length of a note of the host, in characters. The API server accepts 1024 bytes.
const MAX_NOTE: usize = 256;
/// Returns the note of an event of the host, without what exceeds [`MAX_NOTE`].
pub(crate) fn short_note(note: &str) -> String {
    note.chars().take(MAX_NOTE).collect()
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
