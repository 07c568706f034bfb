//! What is taken out of an object before it is kept (B09).

use std::borrow::Cow;

use super::members::Members;

/// How much of an object is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Projection {
    /// All of it.
    #[default]
    Full,
    /// `apiVersion`, `kind` and `metadata` only.
    Metadata,
}

/// What an informer takes out of every object, once, before it is queued.
///
/// ```
/// use pilothouse_model::{Object, ParseOptions, Projection, Transform};
///
/// let pod = br#"{"metadata":{"name":"web","managedFields":[{}]},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}"#;
/// let read = |transform: Transform| {
///     let options = ParseOptions { api_version: "v1", kind: "Pod", transform: &transform };
///     Object::parse(pod, &options).unwrap().json().to_owned()
/// };
/// let whole = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}"#;
/// assert_eq!(read(Transform::standard()), whole);
/// let metadata = Transform { projection: Projection::Metadata, ..Transform::standard() };
/// assert_eq!(read(metadata), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}"#);
/// let spec = Transform { keep: vec!["spec".into()], ..Transform::standard() };
/// assert_eq!(read(spec), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":"n"}}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transform {
    /// Drop `metadata.managedFields`: often half of an object, and only the server needs it.
    pub drop_managed_fields: bool,
    /// Drop the annotation that `kubectl apply` keeps on the client side.
    pub drop_last_applied: bool,
    /// How much of the rest is kept.
    pub projection: Projection,
    /// When not empty: besides type and metadata, keep only these top-level members, such as `spec`.
    pub keep: Vec<String>,
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Transform {
    /// What Pilothouse's informers do unless told otherwise: no managed fields, all else kept.
    #[must_use]
    pub fn standard() -> Self {
        Self { drop_managed_fields: true, ..Self::default() }
    }

    /// Whether the top-level member `name` (other than type and metadata) stays.
    pub(super) fn keeps(&self, name: &str) -> bool {
        self.projection == Projection::Full
            && (self.keep.is_empty() || self.keep.iter().any(|kept| kept == name))
    }

    /// Whether all top-level members stay.
    pub(super) fn keeps_members(&self) -> bool {
        self.projection == Projection::Full && self.keep.is_empty()
    }

    /// Whether metadata can be copied as it is.
    pub(super) fn keeps_metadata(&self) -> bool {
        !self.drop_managed_fields && !self.drop_last_applied
    }

    /// Writes `metadata` without what is dropped.
    pub(super) fn write_metadata(&self, out: &mut String, metadata: &Members<'_>) {
        out.push('{');
        let mut first = true;
        for (name, raw) in &metadata.0 {
            if self.drop_managed_fields && name == "managedFields" {
                continue;
            }
            let value = if self.drop_last_applied && name == "annotations" {
                let Some(annotations) = without_last_applied(raw) else { continue };
                annotations
            } else {
                Cow::Borrowed(*raw)
            };
            write_member(out, &mut first, name, &value);
        }
        out.push('}');
    }
}

/// The annotations without kubectl's, or `None` when nothing is left.
fn without_last_applied(raw: &str) -> Option<Cow<'_, str>> {
    let Ok(annotations) = serde_json::from_str::<Members<'_>>(raw) else { return Some(Cow::Borrowed(raw)) };
    if annotations.get(LAST_APPLIED).is_none() {
        return Some(Cow::Borrowed(raw));
    }
    let mut out = String::with_capacity(raw.len());
    out.push('{');
    let mut first = true;
    for (name, value) in annotations.0.iter().filter(|(name, _)| name != LAST_APPLIED) {
        write_member(&mut out, &mut first, name, value);
    }
    out.push('}');
    (!first).then_some(Cow::Owned(out))
}

/// Appends `"name":value`.
pub(super) fn write_member(out: &mut String, first: &mut bool, name: &str, raw: &str) {
    if !std::mem::take(first) {
        out.push(',');
    }
    write_string(out, name);
    out.push(':');
    out.push_str(raw);
}

/// Appends a JSON string.
pub(super) fn write_string(out: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}
