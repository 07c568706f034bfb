//! An object as immutable JSON text, with its metadata found once.

mod familiar;
mod fetch;
mod follow;
mod members;
mod metadata;
mod packed;
mod parse;
mod pointer;
mod reader;
mod scan;
mod skip;
mod successor;
#[cfg(test)]
mod tests;
mod transform;
mod usual;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub use fetch::fetch;
pub use metadata::OwnerReference;
pub use packed::{Dictionary, PackedObject};
pub use parse::{ObjectError, ParseOptions};
pub use reader::ObjectReader;
pub use transform::{Projection, Transform};

use crate::ObjectKey;
use familiar::Familiar;
use metadata::Metadata;
use packed::Json;

/// One version of a Kubernetes object. Immutable (B24); cloning copies a pointer.
///
/// The bytes are canonical: `apiVersion` and `kind` come first, then `metadata`, then the other members in the
/// server's order, so an object has the same bytes whether a list or a watch brought it.
#[derive(Clone)]
pub struct Object(Arc<Inner>);

struct Inner {
    json: Json,
    metadata: Metadata,
}

impl Object {
    /// Parses an object that names its own `apiVersion` and `kind`, with no transform.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, ObjectError> {
        Self::parse(json.as_ref(), &ParseOptions::default())
    }

    /// Parses one object of a list or of a watch event: validates the whole text, puts the type in where a list left
    /// it out, applies the transform, and finds the metadata (B09).
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn parse(json: &[u8], options: &ParseOptions<'_>) -> Result<Self, ObjectError> {
        parse::parse(json, options)
            .map(|(json, metadata)| Self(Arc::new(Inner { json: json.into(), metadata })))
    }

    /// As [`parse`](Self::parse), of an answer that may be about no object: its name is empty where it has none, as that of a
    /// `Status` and of a review.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn parse_answer(json: &[u8], options: &ParseOptions<'_>) -> Result<Self, ObjectError> {
        parse::parse_answer(json, options)
            .map(|(json, metadata)| Self(Arc::new(Inner { json: json.into(), metadata })))
    }

    /// As [`parse`](Self::parse), of the object that `text` starts with, with its length in bytes: for a list, which says where
    /// an item ends by nothing but the item. `None` when one pass does not tell: when the object goes on behind `text`, is of
    /// an unusual form, or is malformed. Then find its end, and [`parse`](Self::parse) it.
    #[must_use]
    pub fn parse_first(text: &str, options: &ParseOptions<'_>) -> Option<(Self, usize)> {
        let read = usual::parse_first(text, options, &mut Familiar::nothing(&mut |_| None))?;
        Some((Self(Arc::new(Inner { json: read.json.into(), metadata: read.metadata })), read.len))
    }

    /// Where the object is.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.0.metadata.key
    }

    /// `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key().name()
    }

    /// `metadata.namespace`, "" for cluster scope.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key().namespace()
    }

    /// `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.0.metadata.api_version.of(&self.0.json)
    }

    /// `kind`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.metadata.kind.of(&self.0.json)
    }

    /// `metadata.uid`, "" when absent.
    #[must_use]
    pub fn uid(&self) -> &str {
        match &self.0.json {
            Json::Plain(json) => self.0.metadata.uid.of(json),
            Json::Packed(packed) => packed.object().uid(),
        }
    }

    /// `metadata.resourceVersion`, "" when absent.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        match &self.0.json {
            Json::Plain(json) => self.0.metadata.resource_version.of(json),
            Json::Packed(packed) => packed.object().resource_version(),
        }
    }

    /// `metadata.generation`, 0 when absent.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.metadata.generation
    }

    /// `metadata.deletionTimestamp`, the server's text (RFC 3339).
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<&str> {
        let text = self.0.metadata.deletion_timestamp.of(&self.0.json);
        (!text.is_empty()).then_some(text)
    }

    /// All labels, in the server's order.
    pub fn labels(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.0.metadata.labels.pairs(&self.0.json).into_iter()
    }

    /// One label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.0.metadata.labels.value(&self.0.json, key)
    }

    /// Whether both have the same text of labels.
    #[must_use]
    pub fn same_labels(&self, other: &Self) -> bool {
        self.0.metadata.labels.place().of(&self.0.json) == other.0.metadata.labels.place().of(&other.0.json)
    }

    /// Whether both have the same text of annotations.
    #[must_use]
    pub fn same_annotations(&self, other: &Self) -> bool {
        self.0.metadata.annotations.place().of(&self.0.json)
            == other.0.metadata.annotations.place().of(&other.0.json)
    }

    /// Whether both have the same text of owner references.
    #[must_use]
    pub fn same_owner_references(&self, other: &Self) -> bool {
        self.0.metadata.owners.of(&self.0.json) == other.0.metadata.owners.of(&other.0.json)
    }

    /// All annotations, in the server's order.
    pub fn annotations(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.0.metadata.annotations.pairs(&self.0.json).into_iter()
    }

    /// One annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<Cow<'_, str>> {
        self.0.metadata.annotations.value(&self.0.json, key)
    }

    /// The finalizers.
    #[must_use]
    pub fn finalizers(&self) -> Vec<String> {
        self.field("/metadata/finalizers").and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
    }

    /// All owner references.
    #[must_use]
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        self.0.metadata.owner_references(&self.0.json)
    }

    /// The owner reference with `controller: true`.
    #[must_use]
    pub fn controller(&self) -> Option<OwnerReference> {
        self.owner_references().into_iter().find(|owner| owner.controller)
    }

    /// The canonical JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.0.json
    }

    /// The text of all members behind the metadata, each with a comma before it.
    fn behind_metadata(&self) -> &str {
        self.0.metadata.behind.of(&self.0.json)
    }

    /// The raw JSON text at an RFC 6901 pointer (`3`, `"web"`, `{…}`); `None` when absent or when the pointer is not
    /// well formed. Scans the text up to the value: no tree is built.
    #[must_use]
    pub fn field(&self, pointer: &str) -> Option<&str> {
        pointer::find_in(&self.0.json, &self.0.metadata, pointer)
    }

    /// As [`field`](Self::field), without quotes and escapes when the value is a string.
    #[must_use]
    pub fn text(&self, pointer: &str) -> Option<Cow<'_, str>> {
        self.field(pointer).map(text_of)
    }

    /// [`field`](Self::field) at each of the pointers, in their order; in fewer passes over the text.
    #[must_use]
    pub fn fields<P: AsRef<str>>(&self, pointers: &[P]) -> Vec<Option<&str>> {
        pointer::find_all(&self.0.json, &self.0.metadata, pointers)
    }

    /// The whole object as a tree. Slow; not for the path of a watch event.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        // The text was validated when the object was made.
        serde_json::from_str(&self.0.json).unwrap_or_default()
    }

    /// Approximate heap bytes of this version, shared by all its clones.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        size_of::<Inner>() + self.0.json.memory_size() + self.key().as_str().len()
    }

    /// Approximate heap bytes of this version once its text was read: as [`memory_size`](Self::memory_size), and for a view of a packed
    /// object, with the plain text that the view keeps then.
    #[must_use]
    pub fn unpacked_size(&self) -> usize {
        size_of::<Inner>() + self.0.json.unpacked_size() + self.key().as_str().len()
    }

    /// Of [`unpacked_size`](Self::unpacked_size), what a handle on this version takes beside the version that a cache holds: nothing of a
    /// plain object, and the plain text of a view.
    #[must_use]
    pub fn private_size(&self) -> usize {
        match &self.0.json {
            Json::Plain(_) => 0,
            Json::Packed(view) => size_of::<Inner>() + view.text_len(),
        }
    }

    /// Whether both are the very same allocation, or two views of one packed object.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || matches!((&self.0.json, &other.0.json), (Json::Packed(left), Json::Packed(right)) if left.object().ptr_eq(right.object()))
    }
}

/// The text that a value's JSON stands for: a string without quotes and escapes, any other value as it is.
#[must_use]
pub fn text_of(raw: &str) -> Cow<'_, str> {
    members::string(raw).unwrap_or(Cow::Borrowed(raw))
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.ptr_eq(other) || self.json() == other.json()
    }
}

impl Eq for Object {}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} rv:{}", self.kind(), self.key(), self.resource_version())
    }
}
