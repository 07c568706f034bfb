//! Packed objects: the metadata as it is, and the text in one of two forms. In a compressed cache, zstd compresses it with a dictionary of what
//! such objects have in common. In a plain cache, it is stored as [copies from a base](from_base), an object of the same owner.
//!
//! A cache stores a [`PackedObject`]. [`PackedObject::object`] returns an [`Object`] that is a view of it. The view unpacks the text when it
//! is first read, and keeps it until the view is dropped. The key, UID, resource version and generation can be read without unpacking. In a
//! text that is not compressed, so can each other part of the metadata that lies within one copy or between two.
//!
//! # When unpacking fails
//!
//! Unpacking cannot fail in a sound process: the compressed bytes and the dictionary are immutable and live as long as the object. A failure
//! means that the process's memory is damaged, or a bug in zstd. The object then reads as `{}`, which no reader takes for an object of its
//! kind, and an error is logged. It is not reported as absent, because a controller would clean up after an object that is gone.
//!
//! # Without the feature `compressed-cache`
//!
//! The [`codec`] is left out. No dictionary can be created, so all objects are plain.

#[cfg_attr(not(feature = "compressed-cache"), path = "codec_left_out.rs")]
mod codec;
mod from_base;

use std::fmt;
use std::sync::{Arc, OnceLock};

use codec::Codec;
use from_base::{FromBase, Layout};
pub(super) use from_base::{MIN_COPY, Recipe, Replacement};

use super::json::Span;
use super::metadata::Metadata;
use super::prefetch::prefetch_bytes;
use super::{Form, Object, Plain, prefetch};
use crate::ObjectKey;

/// A zstd dictionary of what many objects have in common, prepared for compression and decompression. It is created by `Dictionary::train`,
/// which needs the feature `compressed-cache`.
pub struct Dictionary {
    codec: Codec,
}

/// An object whose text is compressed, or made from that of another object. Immutable; cloning copies a pointer.
///
#[cfg_attr(feature = "compressed-cache", doc = "```")]
#[cfg_attr(not(feature = "compressed-cache"), doc = "```ignore")]
/// use pilothouse_model::{Dictionary, Object};
///
/// let pod = |name: u32| Object::from_json(format!(
///     r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-{name}","namespace":"a","uid":"{name}"}},
///         "spec":{{"containers":[{{"name":"web","image":"registry.example.com/web:1.2.3","args":["--verbose","--port=8080"]}}],
///         "terminationGracePeriodSeconds":30,"serviceAccountName":"web","restartPolicy":"Always"}}}}"#
/// )).unwrap();
/// let samples: Vec<Object> = (0..100).map(pod).collect();
/// let dictionary = Dictionary::train(&samples).unwrap();
/// let packed = dictionary.pack(&pod(7)).expect("it becomes smaller");
/// assert!(packed.memory_size() < pod(7).memory_size());
/// assert_eq!(packed.object(), pod(7));
/// ```
#[derive(Clone)]
pub struct PackedObject(Arc<Packed>);

/// The text comes first: it is in the cache line of the reference counts, which each reader touches.
#[repr(C)]
struct Packed {
    text: PackedText,
    metadata: Metadata,
}

enum PackedText {
    Compressed(CompressedText),
    FromBase(FromBase),
}

struct CompressedText {
    /// The UID, the resource version and the compressed text. The first two are not compressed, because each event of the object reads them.
    bytes: Box<[u8]>,
    uid_len: u32,
    version_len: u32,
    /// The length of what was compressed.
    len: u32,
    dictionary: Arc<Dictionary>,
    /// How the text is made from what was compressed; `None` if that is the text.
    layout: Option<Box<Layout>>,
}

/// A view of a packed object, with the unpacked text once it has been read.
pub(super) struct View {
    object: PackedObject,
    text: OnceLock<Box<str>>,
}

impl Dictionary {
    /// Trains a dictionary on samples; `None` if there are none. A few hundred objects are enough. Training takes some 30 ms per megabyte.
    #[cfg(feature = "compressed-cache")]
    #[must_use]
    pub fn train<'a>(samples: impl IntoIterator<Item = &'a Object>) -> Option<Arc<Self>> {
        Codec::train(samples).map(|codec| Arc::new(Self { codec }))
    }

    /// Packs the object; `None` if that would not make it smaller. For a view of a compressed object, returns that object.
    #[must_use]
    pub fn pack(self: &Arc<Self>, object: &Object) -> Option<PackedObject> {
        if let Some(packed) = PackedObject::of(object).filter(|packed| packed.is_compressed()) {
            return Some(packed.clone());
        }
        let from_base = object.text_from_base();
        let text = object.stored_text();
        let (uid, version) = (object.uid(), object.resource_version());
        let overhead = size_of::<Packed>().saturating_sub(size_of::<Plain>()) + uid.len() + version.len();
        let overhead = overhead + from_base.map_or(0, |_| size_of::<Layout>());
        let max_len = text.len().checked_sub(overhead + 1)?;
        let bytes = self.codec.compress([uid, version], text, max_len)?;
        let text = CompressedText {
            bytes,
            uid_len: u32::try_from(uid.len()).ok()?,
            version_len: u32::try_from(version.len()).ok()?,
            len: u32::try_from(text.len()).ok()?,
            dictionary: Arc::clone(self),
            layout: from_base.map(|text| Box::new(text.layout().clone())),
        };
        Some(PackedObject(Arc::new(Packed {
            metadata: object.metadata().clone(),
            text: PackedText::Compressed(text),
        })))
    }

    /// Returns the size on the heap in bytes.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.codec.memory_size()
    }

    /// Decompresses a text of `len` bytes.
    fn unpack(&self, bytes: &[u8], len: usize) -> Option<String> {
        String::from_utf8(self.codec.decompress(bytes, len)?).ok()
    }
}

impl PackedObject {
    /// Returns a view of the object, which unpacks the text when it is first read.
    #[must_use]
    pub fn object(&self) -> Object {
        self.clone().into_object()
    }

    fn into_object(self) -> Object {
        Object(Form::Packed(Arc::new(View { object: self, text: OnceLock::new() })))
    }

    /// Returns the packed object that `object` is a view of; `None` for a plain object.
    #[must_use]
    pub fn of(object: &Object) -> Option<&Self> {
        match &object.0 {
            Form::Plain(_) => None,
            Form::Packed(view) => Some(&view.object),
        }
    }

    pub(super) fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    /// Returns the object's key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.0.metadata.key
    }

    /// Returns whether the text is compressed. Otherwise it is made from that of another object.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        matches!(self.0.text, PackedText::Compressed(_))
    }

    /// Returns `metadata.uid`, "" if absent.
    #[must_use]
    pub fn uid(&self) -> &str {
        match &self.0.text {
            PackedText::Compressed(text) => text.uid(),
            PackedText::FromBase(text) => self.0.metadata.uid.in_text(|span| text.uid(span.range())),
        }
    }

    /// Returns `metadata.resourceVersion`, "" if absent.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        match &self.0.text {
            PackedText::Compressed(text) => text.resource_version(),
            PackedText::FromBase(text) => {
                self.0.metadata.resource_version.in_text(|span| text.resource_version(span.range()))
            }
        }
    }

    /// Returns the approximate size on the heap in bytes, which all clones and views share. Neither a dictionary nor an object that the text
    /// is made from is counted.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        let text = match &self.0.text {
            PackedText::Compressed(text) => {
                text.bytes.len() + text.layout.as_ref().map_or(0, |_| size_of::<Layout>())
            }
            PackedText::FromBase(text) => text.own().len(),
        };
        size_of::<Packed>() + text + self.key().as_str().len()
    }

    /// Returns whether both are the same allocation.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Prefetches the object's metadata; see [`prefetch`].
    pub fn prefetch_metadata(&self) {
        let packed = &*self.0;
        prefetch(&packed.text);
        packed.metadata.prefetch();
    }

    /// Prefetches the object's text and its key, unless the text is compressed; see [`prefetch`].
    pub fn prefetch_text(&self) {
        if let PackedText::FromBase(text) = &self.0.text {
            text.prefetch();
            prefetch_bytes(self.key().as_str().as_bytes());
        }
    }

    /// Returns the length of the unpacked text in bytes.
    fn text_len(&self) -> usize {
        match &self.0.text {
            PackedText::Compressed(text) => text.text_len(),
            PackedText::FromBase(text) => text.layout().len(),
        }
    }

    fn unpack(&self) -> Box<str> {
        let unpacked = match &self.0.text {
            PackedText::FromBase(text) => text.text(),
            PackedText::Compressed(text) => text.unpack(),
        };
        let unpacked = unpacked.filter(|text| text.len() == self.text_len()).map(String::into_boxed_str);
        unpacked.unwrap_or_else(|| {
            tracing::error!(
                key = %self.key(),
                "a cached object could not be unpacked, so it is served as {{}}: the host's memory is damaged; restart the host"
            );
            // As long as the original text, so that the metadata's ranges stay in bounds.
            format!("{{}}{}", " ".repeat(self.text_len().saturating_sub(2))).into_boxed_str()
        })
    }
}

impl CompressedText {
    fn uid(&self) -> &str {
        self.uncompressed(0, self.uid_len as usize)
    }

    fn resource_version(&self) -> &str {
        let uid_len = self.uid_len as usize;
        self.uncompressed(uid_len, uid_len + self.version_len as usize)
    }

    fn uncompressed(&self, start: usize, end: usize) -> &str {
        // These bytes were copied from a `str`, so this cannot fail.
        self.bytes.get(start..end).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Returns the length of the whole text.
    fn text_len(&self) -> usize {
        self.layout.as_ref().map_or(self.len as usize, |layout| layout.len())
    }

    fn unpack(&self) -> Option<String> {
        let bytes = self.bytes.get((self.uid_len + self.version_len) as usize..)?;
        let text = self.dictionary.unpack(bytes, self.len as usize)?;
        match &self.layout {
            None => Some(text),
            Some(layout) => layout.text(&text),
        }
    }
}

impl Object {
    /// Returns a new view of the same packed object, which has not unpacked the text; for a plain object, returns a clone. Reading the text
    /// through the new view does not make this one keep it.
    #[must_use]
    pub fn fresh_view(&self) -> Self {
        PackedObject::of(self).map_or_else(|| self.clone(), PackedObject::object)
    }
}

impl Object {
    /// Returns a view of an object whose text, given in parts, is made from that of `base`. `None` if the recipe is not one for it, or if
    /// its UID or its resource version would be in several pieces.
    pub(super) fn from_base(
        base: Object,
        recipe: &Recipe,
        text: &[&str],
        metadata: Metadata,
    ) -> Option<Self> {
        let mut from_base = FromBase::new(base, recipe, text)?;
        debug_assert_eq!(from_base.text(), Some(text.concat()), "the recipe is not one for the text");
        from_base.note_identity(metadata.uid.span().range(), metadata.resource_version.span().range())?;
        from_base.base().mark_as_base();
        let packed = Packed { metadata, text: PackedText::FromBase(from_base) };
        Some(PackedObject(Arc::new(packed)).into_object())
    }

    /// Returns the object that the text is made from, with the recipe for the text with these replacements. `None` if the text is not made
    /// from that of another object, or if the recipe would be too long.
    pub(super) fn recipe_with(
        &self,
        replacements: impl Iterator<Item = Replacement>,
    ) -> Option<(&Object, Recipe)> {
        let text = self.text_from_base()?;
        Some((text.base(), text.replace(replacements)?))
    }

    fn text_from_base(&self) -> Option<&FromBase> {
        match &PackedObject::of(self)?.0.text {
            PackedText::FromBase(text) => Some(text),
            PackedText::Compressed(_) => None,
        }
    }

    /// Returns what of the text is stored, before it is compressed: all of it, or what it does not share with its base.
    fn stored_text(&self) -> &str {
        self.text_from_base().map_or_else(|| self.json(), FromBase::own)
    }
}

impl View {
    /// Returns the text. The first call unpacks it.
    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| self.object.unpack())
    }

    /// Returns a part of the text. Unpacks the text only if that is needed.
    pub(super) fn part(&self, span: Span) -> &str {
        let part = match &self.object.0.text {
            PackedText::FromBase(text) => text.part(span.range()),
            PackedText::Compressed(_) => None,
        };
        part.unwrap_or_else(|| span.of(self.text()))
    }

    /// Returns the length of the unpacked text in bytes.
    pub(super) fn text_len(&self) -> usize {
        self.object.text_len()
    }

    pub(super) fn object(&self) -> &PackedObject {
        &self.object
    }

    /// Returns the size on the heap in bytes, with that of the packed object, and the text's if it has been read.
    pub(super) fn memory_size(&self) -> usize {
        self.object.memory_size() + self.text.get().map_or(0, |text| text.len())
    }

    /// Returns what [`memory_size`](Self::memory_size) returns after the text has been read.
    pub(super) fn unpacked_size(&self) -> usize {
        self.object.memory_size() + self.text_len()
    }
}

impl fmt::Debug for PackedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packed {} rv:{}", self.key(), self.resource_version())
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("bytes", &self.memory_size()).finish()
    }
}

#[cfg(all(test, feature = "compressed-cache"))]
mod tests;
