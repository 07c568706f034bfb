//! What is removed from an object when it is parsed.

use std::borrow::Cow;

use crate::object::json::members::Members;

/// Which part of an object is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Projection {
    /// The whole object.
    #[default]
    Full,
    /// `apiVersion`, `kind` and `metadata` only.
    Metadata,
}

/// What an informer removes from every object, once, before the object is queued (like a `TransformFunc` of client-go).
///
/// ```
/// use pilothouse_model::{Object, ParseOptions, Projection, Transform};
///
/// let pod = br#"{"metadata":{"name":"web","managedFields":[{}]},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}"#;
/// let read = |transform: Transform| {
///     let options = ParseOptions::default().with_type("v1", "Pod").with_transform(&transform);
///     Object::parse(pod, &options).unwrap().json().to_owned()
/// };
/// let whole = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}"#;
/// assert_eq!(read(Transform::standard()), whole);
/// let metadata = Transform::standard().with_projection(Projection::Metadata);
/// assert_eq!(read(metadata), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}"#);
/// let spec = Transform::standard().with_keep(["spec"]);
/// assert_eq!(read(spec), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":"n"}}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Transform {
    /// Drop `metadata.managedFields`, which often is half of an object and is only used by the server.
    pub drop_managed_fields: bool,
    /// Drop the annotation `kubectl.kubernetes.io/last-applied-configuration`, which client-side `kubectl apply` writes.
    pub drop_last_applied: bool,
    /// Which part of the rest is kept.
    pub projection: Projection,
    /// The only top-level members to keep besides the type and the metadata, such as `spec`. Empty: keep all.
    pub keep: Vec<String>,
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Transform {
    /// Returns the default of Pilothouse's informers: drop `managedFields`, keep the rest.
    #[must_use]
    pub fn standard() -> Self {
        Self { drop_managed_fields: true, ..Self::default() }
    }

    /// Sets [`drop_managed_fields`](Self::drop_managed_fields).
    #[must_use]
    pub fn with_drop_managed_fields(mut self, drop: bool) -> Self {
        self.drop_managed_fields = drop;
        self
    }

    /// Sets [`drop_last_applied`](Self::drop_last_applied).
    #[must_use]
    pub fn with_drop_last_applied(mut self, drop: bool) -> Self {
        self.drop_last_applied = drop;
        self
    }

    /// Sets [`projection`](Self::projection).
    #[must_use]
    pub fn with_projection(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }

    /// Sets [`keep`](Self::keep).
    #[must_use]
    pub fn with_keep(mut self, members: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.keep = members.into_iter().map(Into::into).collect();
        self
    }

    /// Returns whether the top-level member `name` (other than type and metadata) is kept.
    pub(super) fn keeps_member(&self, name: &str) -> bool {
        self.projection == Projection::Full
            && (self.keep.is_empty() || self.keep.iter().any(|kept| kept == name))
    }

    /// Returns whether all top-level members are kept.
    pub(super) fn keeps_all_members(&self) -> bool {
        self.projection == Projection::Full && self.keep.is_empty()
    }

    /// Returns whether the metadata is copied unchanged.
    pub(super) fn keeps_metadata(&self) -> bool {
        !self.drop_managed_fields && !self.drop_last_applied
    }

    /// Writes `metadata` without the members that are dropped.
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

/// Returns the annotations without kubectl's; `None` if no other is left.
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
