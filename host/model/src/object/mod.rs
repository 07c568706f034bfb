//! [`Object`]: a Kubernetes object as immutable JSON text, whose metadata is found once.

mod decode;
mod json;
mod metadata;
mod packed;
mod parse;
mod pointer;
mod prefetch;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use decode::DecodeError;
pub use metadata::OwnerReference;
pub use packed::{Dictionary, PackedObject};
pub use parse::{ObjectError, ObjectReader, ParseOptions, Projection, Transform};
pub use prefetch::prefetch;

use crate::ObjectKey;
use json::Span;
use metadata::{Metadata, StringField, StringMap};
use packed::View;

/// One version of a Kubernetes object. It is immutable, so no consumer can change a cache through it, and cloning copies a pointer.
///
/// The bytes are canonical: `apiVersion` and `kind` come first, then `metadata`, then the other members in the server's order. So the same
/// object has the same bytes whether it comes from a list (whose items lack the type for built-in resources) or from a watch.
#[derive(Clone)]
pub struct Object(Form);

#[derive(Clone)]
enum Form {
    Plain(Arc<Plain>),
    /// A view of a packed object.
    Packed(Arc<View>),
}

/// An object whose text is stored as it is.
struct Plain {
    json: Box<str>,
    metadata: Metadata,
    /// Whether texts of other objects have been made from this one.
    is_base: AtomicBool,
}

impl Object {
    /// Parses an object that has its own `apiVersion` and `kind`, without a transform.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, ObjectError> {
        Self::parse(json.as_ref(), &ParseOptions::default())
    }

    /// Parses an item of a list or the object of a watch event: validates the whole text, adds the type if it is missing, applies the
    /// transform, and finds the metadata.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn parse(json: &[u8], options: &ParseOptions<'_>) -> Result<Self, ObjectError> {
        parse::parse(json, options)
    }

    /// Parses the body of a response like [`parse`](Self::parse), but also accepts one without a name or metadata, such as a `Status` or a
    /// review. Its name is empty.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn parse_response(json: &[u8], options: &ParseOptions<'_>) -> Result<Self, ObjectError> {
        parse::parse_response(json, options).map(|(json, metadata)| Self::plain(json, metadata))
    }

    /// Parses the object that `text` starts with in one pass, and returns it with its length in bytes. Meant for the items of a list, whose
    /// ends are not known beforehand.
    ///
    /// Returns `None` if the object does not end within `text`, is malformed, or has an uncommon form such as escapes in names. The caller
    /// then has to find the end of the object and [`parse`](Self::parse) it.
    #[must_use]
    pub fn parse_prefix(text: &str, options: &ParseOptions<'_>) -> Option<(Self, usize)> {
        parse::parse_prefix(text, options)
    }

    fn plain(json: Box<str>, metadata: Metadata) -> Self {
        Self(Form::Plain(Arc::new(Plain { json, metadata, is_base: AtomicBool::new(false) })))
    }

    fn metadata(&self) -> &Metadata {
        match &self.0 {
            Form::Plain(plain) => &plain.metadata,
            Form::Packed(view) => view.object().metadata(),
        }
    }

    /// Returns a part of the text. A text that is made from that of another object mostly need not be unpacked for that.
    fn part(&self, span: Span) -> &str {
        match &self.0 {
            Form::Plain(plain) => span.of(&plain.json),
            Form::Packed(view) => view.part(span),
        }
    }

    fn string<'a>(&'a self, field: &'a StringField) -> &'a str {
        field.in_text(|span| Some(self.part(span)))
    }

    /// Returns the object's key: its namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.metadata().key
    }

    /// Returns `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key().name()
    }

    /// Returns `metadata.namespace`, "" for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key().namespace()
    }

    /// Returns `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.string(&self.metadata().api_version)
    }

    /// Returns `kind`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.string(&self.metadata().kind)
    }

    /// Returns `metadata.uid`, "" if absent.
    #[must_use]
    pub fn uid(&self) -> &str {
        match &self.0 {
            Form::Plain(plain) => plain.metadata.uid.of(&plain.json),
            Form::Packed(view) => view.object().uid(),
        }
    }

    /// Returns `metadata.resourceVersion`, "" if absent.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        match &self.0 {
            Form::Plain(plain) => plain.metadata.resource_version.of(&plain.json),
            Form::Packed(view) => view.object().resource_version(),
        }
    }

    /// Returns `metadata.generation`, 0 if absent.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.metadata().generation
    }

    /// Returns `metadata.deletionTimestamp` as the server wrote it (RFC 3339).
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<&str> {
        let text = self.string(&self.metadata().deletion_timestamp);
        (!text.is_empty()).then_some(text)
    }

    /// Returns all labels, in the server's order.
    pub fn labels(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        StringMap::pairs(self.part(self.metadata().labels.span())).into_iter()
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        StringMap::value(self.part(self.metadata().labels.span()), key)
    }

    /// Returns whether the JSON text of the labels is the same in both objects. Equal labels in another order are not the same.
    #[must_use]
    pub fn same_labels(&self, other: &Self) -> bool {
        self.part(self.metadata().labels.span()) == other.part(other.metadata().labels.span())
    }

    /// Returns whether the JSON text of the annotations is the same in both objects.
    #[must_use]
    pub fn same_annotations(&self, other: &Self) -> bool {
        self.part(self.metadata().annotations.span()) == other.part(other.metadata().annotations.span())
    }

    /// Returns whether the JSON text of the owner references is the same in both objects.
    #[must_use]
    pub fn same_owner_references(&self, other: &Self) -> bool {
        self.part(self.metadata().owner_references) == other.part(other.metadata().owner_references)
    }

    /// Returns all annotations, in the server's order.
    pub fn annotations(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        StringMap::pairs(self.part(self.metadata().annotations.span())).into_iter()
    }

    /// Returns the value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<Cow<'_, str>> {
        StringMap::value(self.part(self.metadata().annotations.span()), key)
    }

    /// Returns `metadata.finalizers`.
    #[must_use]
    pub fn finalizers(&self) -> Vec<String> {
        self.field("/metadata/finalizers").and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
    }

    /// Returns `metadata.ownerReferences`.
    #[must_use]
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        OwnerReference::all(self.part(self.metadata().owner_references))
    }

    /// Returns the owner reference with `controller: true`, like `GetControllerOf` of apimachinery.
    #[must_use]
    pub fn controller(&self) -> Option<OwnerReference> {
        self.owner_references().into_iter().find(|owner| owner.controller)
    }

    /// Returns the canonical JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        match &self.0 {
            Form::Plain(plain) => &plain.json,
            Form::Packed(view) => view.text(),
        }
    }

    /// Returns the text of all members after the metadata, each with a comma before it.
    fn text_after_metadata(&self) -> &str {
        self.metadata().after_metadata.of(self.json())
    }

    /// Returns the raw JSON text at an RFC 6901 pointer (`3`, `"web"`, `{…}`); `None` if it is absent or the pointer is malformed. Scans
    /// the text up to the value: no tree is built.
    #[must_use]
    pub fn field(&self, pointer: &str) -> Option<&str> {
        pointer::find_in(self.json(), self.metadata(), pointer)
    }

    /// Returns [`field`](Self::field), decoded if it is a string; see [`unquote_json`].
    #[must_use]
    pub fn text(&self, pointer: &str) -> Option<Cow<'_, str>> {
        self.field(pointer).map(unquote_json)
    }

    /// Returns [`field`](Self::field) for each of the pointers, in their order, in fewer passes over the text.
    #[must_use]
    pub fn fields<P: AsRef<str>>(&self, pointers: &[P]) -> Vec<Option<&str>> {
        pointer::find_all(self.json(), self.metadata(), pointers)
    }

    /// Parses the whole object into a tree; `Null` if the object nests more deeply than `serde_json` reads (128 levels). This is slow: avoid
    /// it for each watch event.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        // The text was validated when the object was parsed, so only its depth can be refused.
        serde_json::from_str(self.json()).unwrap_or_default()
    }

    /// Returns the approximate size of this version on the heap in bytes, which all its clones share.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.size_with(View::memory_size)
    }

    /// Returns what [`memory_size`](Self::memory_size) returns after the text has been read. For a view of a packed object, that includes
    /// the unpacked text.
    #[must_use]
    pub fn unpacked_size(&self) -> usize {
        self.size_with(View::unpacked_size)
    }

    fn size_with(&self, of_view: impl Fn(&View) -> usize) -> usize {
        match &self.0 {
            Form::Plain(plain) => size_of::<Plain>() + plain.json.len() + self.key().as_str().len(),
            Form::Packed(view) => size_of::<View>() + of_view(view),
        }
    }

    /// Returns the part of [`unpacked_size`](Self::unpacked_size) that is not shared with a cache that holds this version: 0 for a plain
    /// object, the unpacked text and the view itself for a view.
    #[must_use]
    pub fn private_size(&self) -> usize {
        match &self.0 {
            Form::Plain(_) => 0,
            Form::Packed(view) => size_of::<View>() + view.text_len(),
        }
    }

    /// Returns whether the text is stored as it is.
    fn is_plain(&self) -> bool {
        matches!(self.0, Form::Plain(_))
    }

    /// Returns whether texts of other objects have been made from this one.
    fn is_base(&self) -> bool {
        matches!(&self.0, Form::Plain(plain) if plain.is_base.load(Ordering::Relaxed))
    }

    fn mark_as_base(&self) {
        if let Form::Plain(plain) = &self.0 {
            plain.is_base.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether there are other references to this very object.
    fn is_shared(&self) -> bool {
        match &self.0 {
            Form::Plain(plain) => Arc::strong_count(plain) > 1,
            Form::Packed(view) => Arc::strong_count(view) > 1,
        }
    }

    /// Returns whether both are the same allocation, or views of the same packed object.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Plain(left), Form::Plain(right)) => Arc::ptr_eq(left, right),
            (Form::Packed(left), Form::Packed(right)) => left.object().ptr_eq(right.object()),
            _ => false,
        }
    }
}

/// Returns a JSON string without quotes and escapes, and any other JSON value unchanged.
#[must_use]
pub fn unquote_json(raw: &str) -> Cow<'_, str> {
    json::members::string(raw).unwrap_or(Cow::Borrowed(raw))
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
