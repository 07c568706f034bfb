//! Serializes the events of one watch.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::registry::Endpoint;
use crate::request::{Form, Selection, View};
use crate::respond;
use crate::status::Status;
use crate::storage::{Event, EventKind, ObjectDraft, StoredObject};

/// The annotation of the bookmark after the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Serializes the events of one watch, each as a line of JSON.
pub(crate) struct EventEncoder {
    endpoint: Arc<Endpoint>,
    selection: Selection,
    view: View,
    clock: Arc<dyn Clock>,
    /// Whether the column definitions of a table were sent; only the first table of a watch has them.
    columns_sent: bool,
}

impl EventEncoder {
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        selection: Selection,
        view: View,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { endpoint, selection, view, clock, columns_sent: false }
    }

    /// Returns the ADDED event for an object that exists when the watch starts, if it is selected.
    pub(crate) fn initial(&mut self, object: &StoredObject) -> Option<Bytes> {
        self.selection.matches(object).then(|| self.line(EventKind::Added, object))
    }

    /// Returns the line for an event, or `None` if it does not affect the selection. An object that enters the selection
    /// is ADDED, one that leaves it is DELETED.
    pub(crate) fn event(&mut self, event: &Event) -> Option<Bytes> {
        let before = event.previous.as_ref().is_some_and(|object| self.selection.matches(object));
        let after = event.kind != EventKind::Deleted && self.selection.matches(&event.object);
        let kind = match (before, after) {
            (false, false) => return None,
            (false, true) => EventKind::Added,
            (true, true) => EventKind::Modified,
            (true, false) => EventKind::Deleted,
        };
        if kind == EventKind::Deleted && event.kind == EventKind::Modified {
            let last = event.previous.as_ref().map(|before| at_revision(before, event.revision()))?;
            return Some(self.line(kind, &last));
        }
        if kind == event.kind && self.view.form == Form::Plain {
            return Some(event.frame(self.endpoint.id, || plain_line(&self.endpoint, kind, &event.object)));
        }
        Some(self.line(kind, &event.object))
    }

    fn line(&mut self, kind: EventKind, object: &StoredObject) -> Bytes {
        if self.view.form == Form::Plain {
            return plain_line(&self.endpoint, kind, object);
        }
        let with_columns = !std::mem::replace(&mut self.columns_sent, true);
        let now = self.clock.now();
        let object = respond::render_object(&self.endpoint, object, self.view, now, with_columns);
        json_line(kind.as_str(), &object)
    }

    /// Returns a bookmark at `revision`; `ends_initial_events` marks the end of the initial events.
    pub(crate) fn bookmark(&self, revision: u64, ends_initial_events: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial_events {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let (kind, api_version) = match self.view.form {
            Form::Plain => (self.endpoint.kind(), self.endpoint.api_version.as_str()),
            Form::Table => ("Table", self.view.meta_version.api_version()),
            Form::Metadata => ("PartialObjectMetadata", self.view.meta_version.api_version()),
        };
        let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if self.view.form == Form::Table {
            object["columnDefinitions"] = Value::Null;
            object["rows"] = json!([]);
        }
        json_line("BOOKMARK", &object)
    }
}

/// Returns the ERROR event with a status.
pub(super) fn error_line(status: &Status) -> Bytes {
    json_line("ERROR", &status.to_value())
}

fn json_line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}

/// Returns the line for an event with a whole object.
fn plain_line(endpoint: &Endpoint, kind: EventKind, object: &StoredObject) -> Bytes {
    let mut out = BytesMut::with_capacity(object.body().len() + 128);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_str().as_bytes());
    out.put_slice(b"\",\"object\":");
    endpoint.put_object(&mut out, object);
    out.put_slice(b"}\n");
    out.freeze()
}

/// Returns the object with another resourceVersion. An object that left the selection is sent with the revision of the
/// change.
fn at_revision(object: &StoredObject, revision: u64) -> StoredObject {
    let mut value = object.value();
    value["metadata"]["resourceVersion"] = revision.to_string().into();
    let (fields, schema) = (object.fields.clone(), object.schema);
    StoredObject::unwritten(ObjectDraft { value, fields, schema })
}
