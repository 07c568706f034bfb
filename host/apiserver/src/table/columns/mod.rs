//! The columns of built-in kinds: names and contents as in `k8s.io/kubernetes/pkg/printers/internalversion`.

mod apps;
mod batch;
mod cluster;
mod core;
mod event;
mod network;
mod pod;

use jiff::Timestamp;
use serde_json::Value;

use super::age;

/// One column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// The type that clients align by: `string`, `integer` or `boolean`.
    pub(super) ty: &'static str,
    /// Shown with `-o wide` only.
    pub(super) wide: bool,
    pub(super) show: fn(&Cell<'_>) -> Value,
}

impl Column {
    const fn text(name: &'static str, show: fn(&Cell<'_>) -> Value) -> Self {
        Self { name, ty: "string", wide: false, show }
    }

    const fn integer(name: &'static str, show: fn(&Cell<'_>) -> Value) -> Self {
        Self { name, ty: "integer", wide: false, show }
    }

    const fn boolean(name: &'static str, show: fn(&Cell<'_>) -> Value) -> Self {
        Self { name, ty: "boolean", wide: false, show }
    }

    const fn wide(name: &'static str, show: fn(&Cell<'_>) -> Value) -> Self {
        Self { name, ty: "string", wide: true, show }
    }
}

const NAME: Column = Column::text("Name", |row| row.text("/metadata/name").into());
const AGE: Column = Column::text("Age", |row| row.since("/metadata/creationTimestamp").into());

/// What a real server shows of kinds without a printer of their own: roles, CRDs and the like.
const PLAIN: &[Column] = &[
    NAME,
    Column {
        name: "Created At",
        ty: "date",
        ..Column::text("", |row| row.text("/metadata/creationTimestamp").into())
    },
];

/// The columns of a built-in kind.
pub(super) fn of(group: &str, kind: &str) -> &'static [Column] {
    match (group, kind) {
        ("", "Pod") => pod::POD,
        ("" | "events.k8s.io", "Event") => event::EVENT,
        ("", _) => core::of(kind),
        ("apps", _) => apps::of(kind),
        ("batch", _) => batch::of(kind),
        ("networking.k8s.io" | "discovery.k8s.io", _) => network::of(kind),
        _ => cluster::of(group, kind),
    }
}

/// An object whose row is being made.
pub(super) struct Cell<'a> {
    pub(super) object: &'a Value,
    pub(super) now: Timestamp,
}

impl<'a> Cell<'a> {
    /// The text at a JSON pointer, "" if there is none.
    pub(super) fn text(&self, pointer: &str) -> &'a str {
        text(self.object, pointer)
    }

    fn text_or(&self, pointer: &str, otherwise: &'static str) -> &'a str {
        match self.text(pointer) {
            "" => otherwise,
            text => text,
        }
    }

    fn number(&self, pointer: &str) -> i64 {
        self.object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    fn list(&self, pointer: &str) -> &'a [Value] {
        list(self.object, pointer)
    }

    /// The number of entries of a map.
    fn entries(&self, pointer: &str) -> i64 {
        self.object.pointer(pointer).and_then(Value::as_object).map_or(0, |map| count(map.len()))
    }

    fn since(&self, pointer: &str) -> String {
        age::since(self.text(pointer), self.now)
    }

    fn is_terminating(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// The status of a condition in `/status/conditions`.
    fn condition(&self, ty: &str) -> &'a str {
        condition(self.list("/status/conditions"), ty)
    }

    /// The `field` of each container of a pod spec, joined.
    fn containers(&self, pod: &str, field: &str) -> Value {
        let containers = self.list(&format!("{pod}/containers"));
        join(containers.iter().map(|one| text(one, &format!("/{field}")))).into()
    }

    /// A `{matchLabels, matchExpressions}` selector in its text form.
    fn selector(&self, pointer: &str) -> Value {
        let parsed = self.object.pointer(pointer).map(pilothouse_model::LabelSelector::from_json);
        match parsed {
            Some(Ok(selector)) if !selector.is_empty() => selector.to_string().into(),
            Some(Err(_)) => "<error>".into(),
            _ => "<none>".into(),
        }
    }

    /// A map of labels in its text form.
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
    conditions.iter().find(|one| one["type"] == ty).map_or("", |one| text(one, "/status"))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".into() } else { text }
}

/// A number or text as it is written; `otherwise` if there is none.
fn plain(value: Option<&Value>, otherwise: &str) -> String {
    match value {
        None | Some(Value::Null) => otherwise.into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
