//! What a text is compared with before it is parsed: the stored version of the object, and objects that the same reader has read recently.
//! A reference only changes how fast an object is read, never the result.

use std::collections::HashMap;

use super::managed_fields::{KnownManagedFields, Prehashed};
use crate::ObjectKey;
use crate::object::Object;
use crate::object::json::scan::Cursor;

/// Larger texts are not remembered.
const MAX_REMEMBERED_BYTES: usize = 64 * 1024;
/// The most bytes that are remembered. Beyond, everything is forgotten, so that what is no longer read goes away.
const MAX_TOTAL_BYTES: usize = 4 * 1024 * 1024;

/// The references for the object that is being read.
pub(super) struct References<'a> {
    /// Looks up the version of an object that the caller has.
    look_up: &'a mut dyn FnMut(&ObjectKey) -> Option<Object>,
    /// The key that was looked up, and the result: there is one lookup for each object.
    stored: Option<(ObjectKey, Option<Object>)>,
    recent: Option<&'a mut RecentObjects>,
}

impl<'a> References<'a> {
    pub(super) fn new(
        look_up: &'a mut dyn FnMut(&ObjectKey) -> Option<Object>,
        recent: &'a mut RecentObjects,
    ) -> Self {
        Self { look_up, stored: None, recent: Some(recent) }
    }

    /// Creates references without recent objects. `look_up` returns `None` for every key.
    pub(super) fn none(look_up: &'a mut dyn FnMut(&ObjectKey) -> Option<Object>) -> Self {
        Self { look_up, stored: None, recent: None }
    }

    /// Looks up the stored version, unless that has been done.
    pub(super) fn look_up(&mut self, namespace: &str, name: &str) -> Option<&Object> {
        let look_up = || {
            let key = ObjectKey::new(namespace, name);
            let stored = (self.look_up)(&key);
            if let Some(stored) = &stored {
                stored.prefetch_text();
            }
            (key, stored)
        };
        self.stored.get_or_insert_with(look_up).1.as_ref()
    }

    /// Returns whether the stored version has been looked up.
    pub(super) fn was_looked_up(&self) -> bool {
        self.stored.is_some()
    }

    /// Returns the stored version, if it has been looked up.
    pub(super) fn stored(&self) -> Option<&Object> {
        self.stored.as_ref()?.1.as_ref()
    }

    /// Returns the key that has been looked up.
    ///
    /// This is not the key of the stored version, although the text is the same. Another reference to that one costs more than a new key,
    /// because the thread that takes the previous versions changes the same reference count.
    pub(super) fn key(&self) -> Option<&ObjectKey> {
        self.stored.as_ref().map(|(key, _)| key)
    }

    /// As [`RecentObjects::preamble`].
    pub(super) fn preamble(&self) -> Option<&Preamble> {
        self.recent.as_ref().and_then(|recent| recent.preamble())
    }

    /// Returns the stored version, if it has the key that was looked up, and the recent objects.
    pub(super) fn stored_and_recent(&mut self) -> Option<(&Object, &mut RecentObjects)> {
        let (key, stored) = self.stored.as_ref()?;
        Some((stored.as_ref().filter(|stored| stored.key() == key)?, self.recent.as_mut()?))
    }

    /// Takes the stored version and the key that was looked up.
    pub(super) fn take_stored(&mut self) -> Option<(ObjectKey, Object)> {
        let (key, stored) = self.stored.take()?;
        Some((key, stored?))
    }

    /// Returns the stored version, or else a recent object with these owners.
    pub(super) fn known(&self, owners: OwnerHash) -> Option<&Object> {
        let recent = || Some(&self.recent.as_ref()?.samples.get(&owners.0)?.object);
        self.stored().or_else(recent)
    }

    /// Returns what [`known`](Self::known) returns. If that is a recent object, another one that resembles it has been read; also returns how
    /// many there were before, with itself.
    pub(super) fn note_resembling(&mut self, owners: OwnerHash) -> Option<(&Object, Option<u32>)> {
        if let Some((_, Some(stored))) = &self.stored {
            return Some((stored, None));
        }
        let sample = self.recent.as_mut()?.samples.get_mut(&owners.0)?;
        let before = sample.count;
        sample.count = before.saturating_add(1);
        Some((&sample.object, Some(before)))
    }

    /// As [`RecentObjects::read_managed_fields`].
    pub(super) fn read_managed_fields(&mut self, cursor: &mut Cursor<'_>, owners: OwnerHash) -> Option<()> {
        match &mut self.recent {
            Some(recent) => recent.read_managed_fields(cursor, owners),
            None => cursor.value(),
        }
    }
}

/// A hash of an object's owner references. Objects of one owner are mostly made from one template, so they resemble each other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnerHash(u64);

impl OwnerHash {
    /// Hashes the text of `metadata.ownerReferences`. The quality of the hash matters little: after a collision, an object is parsed.
    pub(super) fn of(references: &str) -> Self {
        let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (words, _) = references.as_bytes().as_chunks::<8>();
        let (blocks, rest) = words.as_chunks::<4>();
        // Four independent sums: each step of one sum waits for the previous one.
        let sums = blocks.iter().fold([0; 4], |sums: [u64; 4], block| {
            std::array::from_fn(|at| mix(sums[at], u64::from_le_bytes(block[at])))
        });
        let words = rest.iter().map(|word| u64::from_le_bytes(*word));
        let mixed = sums.into_iter().chain(words).fold(0, mix);
        Self(mixed)
    }
}

/// What a reader remembers of the objects that it has read.
#[derive(Default)]
pub(super) struct RecentObjects {
    preamble: Preamble,
    /// An object of each owner.
    samples: HashMap<u64, Sample, Prehashed>,
    managed_fields: KnownManagedFields,
    /// The size of the samples.
    bytes: usize,
}

struct Sample {
    object: Object,
    /// How many objects that resemble this one were read, with itself.
    count: u32,
}

/// The text of an object before the value of `metadata`, if that text contains both types: as the server wrote it, and in the canonical
/// form. Both are empty until one has been read.
#[derive(Default)]
pub(super) struct Preamble {
    pub(super) source: String,
    pub(super) canonical: String,
}

impl RecentObjects {
    /// Returns the preamble of the last object that had one.
    pub(super) fn preamble(&self) -> Option<&Preamble> {
        Some(&self.preamble).filter(|preamble| !preamble.source.is_empty())
    }

    /// Returns whether canonical text starts with the canonical preamble.
    pub(super) fn is_preamble_of(&self, json: &str) -> bool {
        json.starts_with(&self.preamble.canonical)
    }

    /// As [`KnownManagedFields::read`].
    pub(super) fn read_managed_fields(&mut self, cursor: &mut Cursor<'_>, owners: OwnerHash) -> Option<()> {
        self.managed_fields.read(cursor, owners.0)
    }

    pub(super) fn remember_preamble(&mut self, source: &str, canonical: &str) {
        if source.len() <= MAX_REMEMBERED_BYTES
            && (self.preamble.source != source || self.preamble.canonical != canonical)
        {
            self.preamble = Preamble { source: source.to_owned(), canonical: canonical.to_owned() };
        }
    }

    pub(super) fn remember_object(&mut self, owners: OwnerHash, object: &Object) {
        let bytes = object.json().len();
        if bytes > MAX_REMEMBERED_BYTES {
            return;
        }
        self.bytes += bytes;
        if self.bytes > MAX_TOTAL_BYTES {
            self.samples.clear();
            self.bytes = bytes;
        }
        if let Some(old) = self.samples.insert(owners.0, Sample { object: object.clone(), count: 1 }) {
            self.bytes -= old.object.json().len();
        }
    }
}
