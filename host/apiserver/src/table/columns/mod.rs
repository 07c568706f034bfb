//! The columns of the built-in kinds, after `k8s.io/kubernetes/pkg/printers/internalversion`.

mod apps;
mod batch;
mod core;
mod devices;
mod event;
mod flow_control;
mod network;
mod other;
mod pod;

use jiff::Timestamp;
use serde_json::Value;

use super::age;

/// A column of a built-in kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// The OpenAPI type of the cells (`string`, `integer`, `boolean` or `date`), which clients use for alignment.
    pub(super) ty: &'static str,
    /// Whether the column is shown with `-o wide` only.
    pub(super) wide: bool,
    /// Computes the cell of a row.
    pub(super) render: fn(&Row<'_>) -> Value,
}

impl Column {
    /// A column of the OpenAPI type `string`. Its cells may be numbers, as those of kube-apiserver are.
    const fn text(name: &'static str, render: fn(&Row<'_>) -> Value) -> Self {
        Self { name, ty: "string", wide: false, render }
    }

    const fn integer(name: &'static str, render: fn(&Row<'_>) -> Value) -> Self {
        Self { name, ty: "integer", wide: false, render }
    }

    const fn boolean(name: &'static str, render: fn(&Row<'_>) -> Value) -> Self {
        Self { name, ty: "boolean", wide: false, render }
    }

    const fn wide(name: &'static str, render: fn(&Row<'_>) -> Value) -> Self {
        Self { name, ty: "string", wide: true, render }
    }
}

const NAME: Column = Column::text("Name", |row| row.text("/metadata/name").into());
const AGE: Column = Column::text("Age", |row| row.since("/metadata/creationTimestamp").into());

/// The columns of kinds without a printer of their own, such as roles and CRDs (the default table convertor).
const DEFAULT_COLUMNS: &[Column] = &[
    NAME,
    Column {
        name: "Created At",
        ty: "date",
        ..Column::text("", |row| row.text("/metadata/creationTimestamp").into())
    },
];

/// Returns the columns of a built-in kind.
pub(super) fn for_kind(group: &str, kind: &str) -> &'static [Column] {
    match (group, kind) {
        ("", "Pod") => pod::POD,
        ("" | "events.k8s.io", "Event") => event::EVENT,
        ("", _) => core::for_kind(kind),
        ("apps", _) => apps::for_kind(kind),
        ("batch", _) => batch::for_kind(kind),
        ("networking.k8s.io" | "discovery.k8s.io", _) => network::for_kind(kind),
        ("resource.k8s.io", _) => devices::for_kind(kind),
        ("flowcontrol.apiserver.k8s.io", _) => flow_control::for_kind(kind),
        _ => other::for_kind(group, kind),
    }
}

/// The object of a row, with accessors for the cells.
pub(super) struct Row<'a> {
    pub(super) object: &'a Value,
    /// The time from which ages are computed.
    pub(super) now: Timestamp,
}

impl<'a> Row<'a> {
    /// Returns the string at a JSON pointer; empty if there is none.
    pub(super) fn text(&self, pointer: &str) -> &'a str {
        text(self.object, pointer)
    }

    fn text_or(&self, pointer: &str, default: &'static str) -> &'a str {
        match self.text(pointer) {
            "" => default,
            text => text,
        }
    }

    fn number(&self, pointer: &str) -> i64 {
        self.object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    fn list(&self, pointer: &str) -> &'a [Value] {
        list(self.object, pointer)
    }

    /// Returns the number of entries of a map.
    fn entry_count(&self, pointer: &str) -> i64 {
        self.object.pointer(pointer).and_then(Value::as_object).map_or(0, |map| count(map.len()))
    }

    fn since(&self, pointer: &str) -> String {
        age::since(self.text(pointer), self.now)
    }

    fn is_terminating(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// Returns the status of a condition in `/status/conditions`; empty if there is none.
    fn condition(&self, ty: &str) -> &'a str {
        condition(self.list("/status/conditions"), ty)
    }

    /// Returns the `field` of each container of a pod spec, joined with commas.
    fn containers(&self, pod_spec: &str, field: &str) -> Value {
        let containers = self.list(&format!("{pod_spec}/containers"));
        join(containers.iter().map(|container| text(container, &format!("/{field}")))).into()
    }

    /// Formats a label selector with `matchLabels` and `matchExpressions`.
    fn selector(&self, pointer: &str) -> Value {
        let parsed = self.object.pointer(pointer).map(pilothouse_model::LabelSelector::from_json);
        match parsed {
            Some(Ok(selector)) if !selector.is_empty() => selector.to_string().into(),
            Some(Err(_)) => "<error>".into(),
            _ => "<none>".into(),
        }
    }

    /// Formats a map of labels.
    fn labels(&self, pointer: &str) -> Value {
        let map = self.object.pointer(pointer).and_then(Value::as_object);
        let mut pairs: Vec<_> = map
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        pairs.sort();
        or_none(pairs.join(",")).into()
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn condition<'a>(conditions: &'a [Value], ty: &str) -> &'a str {
    conditions.iter().find(|condition| condition["type"] == ty).map_or("", |found| text(found, "/status"))
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".into() } else { text }
}

/// Formats a number or string without quotes; `default` if there is none.
fn scalar(value: Option<&Value>, default: &str) -> String {
    match value {
        None | Some(Value::Null) => default.into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
