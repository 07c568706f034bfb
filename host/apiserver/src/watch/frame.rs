use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::registry::Endpoint;
use crate::request::{Form, View};
use crate::rest::respond;
use crate::rest::selection::Selection;
use crate::status::Status;
use crate::storage::{Draft, Event, EventKind, Stored};

/// Marks the bookmark after the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Turns events into the lines that one watch sends.
pub(crate) struct Frames {
    endpoint: Arc<Endpoint>,
    selection: Selection,
    view: View,
    clock: Arc<dyn Clock>,
    /// Whether a table's columns have been sent: only the first table of a watch has them.
    headed: bool,
}

impl Frames {
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        selection: Selection,
        view: View,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { endpoint, selection, view, clock, headed: false }
    }

    /// The line for an object that is there at the start, if it is selected.
    pub(crate) fn initial(&mut self, object: &Stored) -> Option<Bytes> {
        self.selection.matches(object).then(|| self.line(EventKind::Added, object))
    }

    /// The line for an event, if it concerns the selection: an object that enters it is added, one that leaves it is
    /// deleted.
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
            return Some(event.frame(self.endpoint.id, || plain(&self.endpoint, kind, &event.object)));
        }
        Some(self.line(kind, &event.object))
    }

    fn line(&mut self, kind: EventKind, object: &Stored) -> Bytes {
        if self.view.form == Form::Plain {
            return plain(&self.endpoint, kind, object);
        }
        let headed = std::mem::replace(&mut self.headed, true);
        let shown = respond::shown(&self.endpoint, object, self.view, self.clock.now(), !headed);
        json_line(kind.as_str(), &shown)
    }

    /// A bookmark at `revision`.
    pub(crate) fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let (kind, api_version) = match self.view.form {
            Form::Plain => (self.endpoint.kind(), self.endpoint.api_version.as_str()),
            Form::Table => ("Table", "meta.k8s.io/v1"),
            Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
        };
        let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if self.view.form == Form::Table {
            object["columnDefinitions"] = Value::Null;
            object["rows"] = json!([]);
        }
        json_line("BOOKMARK", &object)
    }
}

/// The line that tells a client what went wrong with its watch.
pub(super) fn error_line(status: &Status) -> Bytes {
    json_line("ERROR", &status.to_value())
}

fn json_line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}

fn plain(endpoint: &Endpoint, kind: EventKind, object: &Stored) -> Bytes {
    let mut out = BytesMut::with_capacity(object.body().len() + 128);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_str().as_bytes());
    out.put_slice(b"\",\"object\":");
    endpoint.put_object(&mut out, object);
    out.put_slice(b"}\n");
    out.freeze()
}

/// The object with another resourceVersion: what left a selection has the revision of the change.
fn at_revision(object: &Stored, revision: u64) -> Stored {
    let mut value = object.value();
    value["metadata"]["resourceVersion"] = revision.to_string().into();
    Stored::unwritten(Draft { value, fields: object.fields.clone() })
}
