//! How a store that compresses learns its dictionary, and packs.
//!
//! The dictionary is made of the first objects that are listed, as soon as there are enough, or of the store's own when it has
//! grown so far by events: no more than that is ever plain, and a cache that never gets so large stays plain. It is made once:
//! what objects of one kind have in common, the names of members above all, does not change, and a new dictionary would mean to
//! pack everything anew.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pilothouse_model::{Dictionary, Object};

use super::StoredObject;
use super::state::State;
use crate::options::Compression;

pub(super) struct Packer {
    options: Compression,
    /// `None` inside: nothing could be learnt, so everything stays plain.
    dictionary: OnceLock<Option<Arc<Dictionary>>>,
    samples: Mutex<Samples>,
}

/// Objects of a list that is being read.
#[derive(Default)]
struct Samples {
    objects: Vec<Object>,
    bytes: usize,
}

impl Packer {
    pub(super) fn new(options: Compression) -> Self {
        Self { options, dictionary: OnceLock::new(), samples: Mutex::default() }
    }

    /// Puts packed objects in the place of plain ones. Those that come before enough is known stay plain, and are learnt from.
    pub(super) fn pack_listed(&self, objects: &mut [Object]) {
        for object in objects {
            if self.dictionary.get().is_none() {
                let mut samples = self.samples.lock();
                samples.bytes += object.json().len();
                samples.objects.push(object.clone());
                if samples.bytes >= self.options.training_bytes {
                    self.train_dictionary(std::mem::take(&mut *samples).objects.iter());
                }
            }
            if let StoredObject::Packed(packed) = self.pack(object.clone()) {
                *object = packed.object();
            }
        }
    }

    /// The list was read to its end, or given up.
    pub(super) fn end_list(&self) {
        drop(std::mem::take(&mut *self.samples.lock()));
    }

    /// Learns from what a store has, once that is enough; says whether it was now.
    pub(super) fn train_from_store(&self, state: &State) -> bool {
        let is_due = self.dictionary.get().is_none() && state.bytes() >= self.options.training_bytes;
        if is_due {
            let objects: Vec<_> = state.objects().map(StoredObject::object).collect();
            self.train_dictionary(objects.iter());
        }
        is_due
    }

    fn train_dictionary<'a>(&self, samples: impl Iterator<Item = &'a Object>) {
        self.dictionary.get_or_init(|| {
            let dictionary = Dictionary::train(samples);
            match &dictionary {
                Some(dictionary) => tracing::debug!(bytes = dictionary.memory_size(), "learnt a dictionary"),
                None => tracing::warn!("a cache stays uncompressed: zstd could not prepare a dictionary"),
            }
            dictionary
        });
    }

    /// How the store is to keep the object.
    pub(super) fn pack(&self, object: Object) -> StoredObject {
        let dictionary = self.dictionary.get().and_then(Option::as_ref);
        match dictionary.and_then(|dictionary| dictionary.pack(&object)) {
            Some(packed) => StoredObject::Packed(packed),
            None => StoredObject::new(object),
        }
    }

    /// Heap bytes of the dictionary.
    pub(super) fn memory_size(&self) -> usize {
        self.dictionary.get().and_then(Option::as_ref).map_or(0, |dictionary| dictionary.memory_size())
    }
}

#[cfg(test)]
mod tests;
