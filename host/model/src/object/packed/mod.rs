//! Objects that wait packed: the metadata as it is, the text compressed with a dictionary of what such objects have in common.
//!
//! A [`PackedObject`] is what a cache keeps. [`PackedObject::object`] makes an [`Object`] of it, which is a view: it unpacks the
//! text when the first reader asks for what is only there, and keeps it as long as it lives. A view that is asked for no more
//! than key, UID, versions and generation never unpacks.
//!
//! # When unpacking fails
//!
//! It cannot: the bytes are those that the compressor gave, they and the dictionary are immutable and live as long as the
//! object. So a failure means that the process's memory is damaged, or that zstd is at fault. The object then reads as `{}`,
//! which no reader takes for an object of its kind, and an error is logged. It is not told to be absent: controllers take
//! away what belongs to an object that is gone.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict};

use super::metadata::Metadata;
use super::{Inner, Object};
use crate::ObjectKey;

/// zstd's fastest level with a table of its own. Higher ones win less than what each object's metadata takes, and their
/// prepared dictionaries are five times as large.
const LEVEL: i32 = 1;
/// Bytes of a dictionary.
const DICTIONARY_BYTES: usize = 32 * 1024;
/// Bytes of one sample that are learnt from: a few large objects must not be all that there is to learn.
const SAMPLE_BYTES: usize = 8 * 1024;
/// What a thread keeps for its next object.
const SCRATCH_BYTES: usize = 256 * 1024;

/// What many objects have in common, prepared for packing and unpacking.
pub struct Dictionary {
    packing: CDict<'static>,
    unpacking: DDict<'static>,
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
    /// UID, resource version, then the compressed text: the first two are read at each event of the object.
    bytes: Box<[u8]>,
    uid_len: u32,
    version_len: u32,
    text_len: u32,
    dictionary: Arc<Dictionary>,
}

/// The text of an object.
pub(super) enum Json {
    Plain(Box<str>),
    Packed(Box<View>),
}

/// A packed text, and the plain one once somebody asked for it.
pub(super) struct View {
    object: PackedObject,
    text: OnceLock<Box<str>>,
}

/// What zstd needs to work, kept by each thread that packs or unpacks: some 70 and 100 KB.
#[derive(Default)]
struct Contexts {
    packing: Option<CCtx<'static>>,
    unpacking: Option<DCtx<'static>>,
    scratch: Vec<u8>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Runs with the thread's contexts, or with new ones where the thread has none any more.
fn with_contexts<R>(run: impl Fn(&mut Contexts) -> R) -> R {
    let shared =
        CONTEXTS.try_with(|contexts| contexts.try_borrow_mut().map(|mut contexts| run(&mut contexts)));
    match shared {
        Ok(Ok(result)) => result,
        _ => run(&mut Contexts::default()),
    }
}

impl Dictionary {
    /// Learns what the samples have in common. Takes some 30 ms for a megabyte of them; a few hundred objects are enough.
    /// `None` when there is nothing to learn from.
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
        // Where there is too little to find out what is common, the samples themselves are better than nothing.
        let content = trained.unwrap_or_else(|_| data[..data.len().min(DICTIONARY_BYTES)].to_vec());
        if content.is_empty() {
            return None;
        }
        let packing = CDict::try_create(&content, LEVEL)?;
        Some(Arc::new(Self { packing, unpacking: DDict::try_create(&content)? }))
    }

    /// The object, packed; `None` when it is no smaller so. A view of a packed object gives that one.
    #[must_use]
    pub fn pack(self: &Arc<Self>, object: &Object) -> Option<PackedObject> {
        let Inner { json, metadata } = &*object.0;
        let text = match json {
            Json::Packed(view) => return Some(view.object.clone()),
            Json::Plain(text) => text,
        };
        let (uid, version) = (object.uid(), object.resource_version());
        let fixed = size_of::<Packed>() - size_of::<Inner>() + uid.len() + version.len();
        let room = text.len().checked_sub(fixed + 1)?;
        let bytes = with_contexts(|contexts| {
            let scratch = &mut contexts.scratch;
            scratch.clear();
            scratch.resize(room, 0);
            if contexts.packing.is_none() {
                contexts.packing = CCtx::try_create();
            }
            // Fails when it does not fit.
            let context = contexts.packing.as_mut()?;
            let len = context.compress_using_cdict(&mut scratch[..], text.as_bytes(), &self.packing).ok()?;
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

    /// Heap bytes.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.packing.sizeof() + self.unpacking.sizeof()
    }

    /// The text of `len` bytes that was packed into `bytes`.
    fn unpack(&self, bytes: &[u8], len: usize) -> Option<Box<str>> {
        let text = with_contexts(|contexts| {
            let mut text = Vec::with_capacity(len);
            if contexts.unpacking.is_none() {
                contexts.unpacking = DCtx::try_create();
            }
            let context = contexts.unpacking.as_mut()?;
            context.decompress_using_ddict(&mut text, bytes, &self.unpacking).ok()?;
            Some(text)
        })?;
        String::from_utf8(text).ok().filter(|text| text.len() == len).map(String::into_boxed_str)
    }
}

impl PackedObject {
    /// The object. Its text is unpacked when it is first asked for.
    #[must_use]
    pub fn object(&self) -> Object {
        let json = Json::Packed(Box::new(View { object: self.clone(), text: OnceLock::new() }));
        Object(Arc::new(Inner { json, metadata: self.0.metadata.clone() }))
    }

    /// The packed object that this is a view of; `None` for a plain object.
    #[must_use]
    pub fn of(object: &Object) -> Option<&Self> {
        match &object.0.json {
            Json::Plain(_) => None,
            Json::Packed(view) => Some(&view.object),
        }
    }

    /// Where the object is.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.0.metadata.key
    }

    /// `metadata.uid`, "" when absent.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.head(0, self.0.uid_len as usize)
    }

    /// `metadata.resourceVersion`, "" when absent.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        let uid_len = self.0.uid_len as usize;
        self.head(uid_len, uid_len + self.0.version_len as usize)
    }

    /// Approximate heap bytes, shared by all clones and views; the dictionary is not counted.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        size_of::<Packed>() + self.0.bytes.len() + self.key().as_str().len()
    }

    /// Whether both are the very same allocation.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn head(&self, start: usize, end: usize) -> &str {
        // Copied from a text, so there is no error to lose.
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
            // As long as the text was, so that the places in the metadata are places in it.
            format!("{{}}{}", " ".repeat(len.saturating_sub(2))).into_boxed_str()
        })
    }
}

impl Object {
    /// The same object with nothing unpacked: for a look at the text after which it is not to stay. A plain object is as it was.
    #[must_use]
    pub fn closed(&self) -> Self {
        PackedObject::of(self).map_or_else(|| self.clone(), PackedObject::object)
    }
}

impl View {
    /// Bytes of the plain text.
    pub(super) fn text_len(&self) -> usize {
        self.object.0.text_len as usize
    }

    pub(super) fn object(&self) -> &PackedObject {
        &self.object
    }
}

impl Json {
    /// As [`memory_size`](Self::memory_size) once the text was read.
    pub(super) fn unpacked_size(&self) -> usize {
        match self {
            Self::Plain(text) => text.len(),
            Self::Packed(view) => size_of::<View>() + view.object.memory_size() + view.text_len(),
        }
    }

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

impl Deref for Json {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Packed(view) => view.text.get_or_init(|| view.object.unpack()),
        }
    }
}

impl From<Box<str>> for Json {
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
