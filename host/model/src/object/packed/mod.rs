//! Packed objects: the metadata as it is, the text compressed by zstd with a dictionary of what such objects have in common.
//!
//! A cache stores a [`PackedObject`]. [`PackedObject::object`] returns an [`Object`] that is a view of it. The view unpacks the text when it
//! is first read, and keeps it until the view is dropped. The key, UID, resource version and generation can be read without unpacking.
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

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use codec::Codec;

use super::metadata::Metadata;
use super::{Inner, Object};
use crate::ObjectKey;

/// A zstd dictionary of what many objects have in common, prepared for compression and decompression. It is created by `Dictionary::train`,
/// which needs the feature `compressed-cache`.
pub struct Dictionary {
    codec: Codec,
}

/// An object whose text is compressed. Immutable; cloning copies a pointer.
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

struct Packed {
    metadata: Metadata,
    /// The UID, the resource version and the compressed text. The first two are not compressed, because each event of the object reads them.
    bytes: Box<[u8]>,
    uid_len: u32,
    version_len: u32,
    text_len: u32,
    dictionary: Arc<Dictionary>,
}

/// The text of an object.
pub(super) enum ObjectText {
    Plain(Box<str>),
    Packed(Box<View>),
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

    /// Packs the object; `None` if that would not make it smaller. For a view, returns the packed object that it is a view of.
    #[must_use]
    pub fn pack(self: &Arc<Self>, object: &Object) -> Option<PackedObject> {
        let Inner { json, metadata } = &*object.0;
        let text = match json {
            ObjectText::Packed(view) => return Some(view.object.clone()),
            ObjectText::Plain(text) => text,
        };
        let (uid, version) = (object.uid(), object.resource_version());
        let overhead = size_of::<Packed>() - size_of::<Inner>() + uid.len() + version.len();
        let max_len = text.len().checked_sub(overhead + 1)?;
        let bytes = self.codec.compress([uid, version], text, max_len)?;
        Some(PackedObject(Arc::new(Packed {
            metadata: metadata.clone(),
            bytes,
            uid_len: u32::try_from(uid.len()).ok()?,
            version_len: u32::try_from(version.len()).ok()?,
            text_len: u32::try_from(text.len()).ok()?,
            dictionary: Arc::clone(self),
        })))
    }

    /// Returns the size on the heap in bytes.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.codec.memory_size()
    }

    /// Decompresses a text of `len` bytes.
    fn unpack(&self, bytes: &[u8], len: usize) -> Option<Box<str>> {
        let text = self.codec.decompress(bytes, len)?;
        String::from_utf8(text).ok().filter(|text| text.len() == len).map(String::into_boxed_str)
    }
}

impl PackedObject {
    /// Returns a view of the object, which unpacks the text when it is first read.
    #[must_use]
    pub fn object(&self) -> Object {
        let json = ObjectText::Packed(Box::new(View { object: self.clone(), text: OnceLock::new() }));
        Object(Arc::new(Inner { json, metadata: self.0.metadata.clone() }))
    }

    /// Returns the packed object that `object` is a view of; `None` for a plain object.
    #[must_use]
    pub fn of(object: &Object) -> Option<&Self> {
        match &object.0.json {
            ObjectText::Plain(_) => None,
            ObjectText::Packed(view) => Some(&view.object),
        }
    }

    /// Returns the object's key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.0.metadata.key
    }

    /// Returns `metadata.uid`, "" if absent.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.uncompressed(0, self.0.uid_len as usize)
    }

    /// Returns `metadata.resourceVersion`, "" if absent.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        let uid_len = self.0.uid_len as usize;
        self.uncompressed(uid_len, uid_len + self.0.version_len as usize)
    }

    /// Returns the approximate size on the heap in bytes, which all clones and views share. The dictionary is not counted.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        size_of::<Packed>() + self.0.bytes.len() + self.key().as_str().len()
    }

    /// Returns whether both are the same allocation.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn uncompressed(&self, start: usize, end: usize) -> &str {
        // These bytes were copied from a `str`, so this cannot fail.
        self.0.bytes.get(start..end).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    fn unpack(&self) -> Box<str> {
        let packed = &*self.0;
        let (start, len) = ((packed.uid_len + packed.version_len) as usize, packed.text_len as usize);
        let text = packed.bytes.get(start..).and_then(|bytes| packed.dictionary.unpack(bytes, len));
        text.unwrap_or_else(|| {
            tracing::error!(
                key = %self.key(),
                "a cached object could not be unpacked, so it is served as {{}}: the host's memory is damaged; restart the host"
            );
            // As long as the original text, so that the metadata's ranges stay in bounds.
            format!("{{}}{}", " ".repeat(len.saturating_sub(2))).into_boxed_str()
        })
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

impl View {
    /// Returns the length of the unpacked text in bytes.
    pub(super) fn text_len(&self) -> usize {
        self.object.0.text_len as usize
    }

    pub(super) fn object(&self) -> &PackedObject {
        &self.object
    }
}

impl ObjectText {
    /// Returns what [`memory_size`](Self::memory_size) returns after the text has been read.
    pub(super) fn unpacked_size(&self) -> usize {
        match self {
            Self::Plain(text) => text.len(),
            Self::Packed(view) => size_of::<View>() + view.object.memory_size() + view.text_len(),
        }
    }

    /// Returns the size on the heap in bytes.
    pub(super) fn memory_size(&self) -> usize {
        match self {
            Self::Plain(text) => text.len(),
            Self::Packed(view) => {
                let text = view.text.get().map_or(0, |text| text.len());
                size_of::<View>() + view.object.memory_size() + text
            }
        }
    }
}

impl Deref for ObjectText {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Packed(view) => view.text.get_or_init(|| view.object.unpack()),
        }
    }
}

impl From<Box<str>> for ObjectText {
    fn from(text: Box<str>) -> Self {
        Self::Plain(text)
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
