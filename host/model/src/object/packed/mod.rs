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

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict};

use super::metadata::Metadata;
use super::{Inner, Object};
use crate::ObjectKey;

/// The zstd level. Higher levels save less than the size of an object's metadata, and their prepared dictionaries are five times as large.
const LEVEL: i32 = 1;
/// The size of a dictionary in bytes.
const DICTIONARY_BYTES: usize = 32 * 1024;
/// The most bytes of one sample that a dictionary is trained with, so that a few large objects do not outweigh the others.
const SAMPLE_BYTES: usize = 8 * 1024;
/// The largest scratch buffer that a thread keeps for its next object, in bytes.
const SCRATCH_BYTES: usize = 256 * 1024;

/// A zstd dictionary of what many objects have in common, prepared for compression and decompression.
pub struct Dictionary {
    compression: CDict<'static>,
    decompression: DDict<'static>,
}

/// An object whose text is compressed. Immutable; cloning copies a pointer.
///
/// ```
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

/// The zstd contexts of a thread: some 70 KB for compression and 100 KB for decompression.
#[derive(Default)]
struct Contexts {
    compression: Option<CCtx<'static>>,
    decompression: Option<DCtx<'static>>,
    scratch: Vec<u8>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Calls `run` with the thread's contexts, or with new ones if the thread is ending and has dropped its own.
fn with_contexts<R>(run: impl Fn(&mut Contexts) -> R) -> R {
    let shared =
        CONTEXTS.try_with(|contexts| contexts.try_borrow_mut().map(|mut contexts| run(&mut contexts)));
    match shared {
        Ok(Ok(result)) => result,
        _ => run(&mut Contexts::default()),
    }
}

impl Dictionary {
    /// Trains a dictionary on samples; `None` if there are none. A few hundred objects are enough. Training takes some 30 ms per megabyte.
    #[must_use]
    pub fn train<'a>(samples: impl IntoIterator<Item = &'a Object>) -> Option<Arc<Self>> {
        let (mut data, mut sizes) = (Vec::new(), Vec::new());
        for sample in samples {
            let sample = sample.json().as_bytes();
            let sample = &sample[..sample.len().min(SAMPLE_BYTES)];
            data.extend_from_slice(sample);
            sizes.push(sample.len());
        }
        let trained = zstd::dict::from_continuous(&data, &sizes, DICTIONARY_BYTES);
        // Training fails on too few samples. The samples themselves are a usable dictionary then.
        let content = trained.unwrap_or_else(|_| data[..data.len().min(DICTIONARY_BYTES)].to_vec());
        if content.is_empty() {
            return None;
        }
        let compression = CDict::try_create(&content, LEVEL)?;
        Some(Arc::new(Self { compression, decompression: DDict::try_create(&content)? }))
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
        let bytes = with_contexts(|contexts| {
            let scratch = &mut contexts.scratch;
            scratch.clear();
            scratch.resize(max_len, 0);
            if contexts.compression.is_none() {
                contexts.compression = CCtx::try_create();
            }
            let context = contexts.compression.as_mut()?;
            // Fails if the compressed text does not fit into `scratch`.
            let len =
                context.compress_using_cdict(&mut scratch[..], text.as_bytes(), &self.compression).ok()?;
            let bytes = [uid.as_bytes(), version.as_bytes(), &scratch[..len]].concat().into_boxed_slice();
            if scratch.len() > SCRATCH_BYTES {
                *scratch = Vec::new();
            }
            Some(bytes)
        })?;
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
        self.compression.sizeof() + self.decompression.sizeof()
    }

    /// Decompresses a text of `len` bytes.
    fn unpack(&self, bytes: &[u8], len: usize) -> Option<Box<str>> {
        let text = with_contexts(|contexts| {
            let mut text = Vec::with_capacity(len);
            if contexts.decompression.is_none() {
                contexts.decompression = DCtx::try_create();
            }
            let context = contexts.decompression.as_mut()?;
            context.decompress_using_ddict(&mut text, bytes, &self.decompression).ok()?;
            Some(text)
        })?;
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

#[cfg(test)]
mod tests;
