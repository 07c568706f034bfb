//! Trains the dictionary of a compressed store and packs its objects.
//!
//! The dictionary is trained on the first listed objects as soon as there are enough of them, or on the store's objects once
//! the store has grown large enough by events. So no more than that is ever uncompressed, and a cache that stays smaller stays
//! uncompressed. It is trained once: the common content of objects of one kind, above all their field names, does not change,
//! and a new dictionary would require packing all objects again.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pilothouse_model::{Dictionary, Object};

use super::StoredObject;
use super::state::State;
use crate::options::Compression;

/// Packs the objects of one store.
pub(super) struct Packer {
    options: Compression,
    /// Unset before the training. `None` inside if the training failed, so all objects stay uncompressed.
    dictionary: OnceLock<Option<Arc<Dictionary>>>,
    samples: Mutex<Samples>,
}

/// Training samples: objects of the list that is being read.
#[derive(Default)]
struct Samples {
    objects: Vec<Object>,
    bytes: usize,
}

impl Packer {
    pub(super) fn new(options: Compression) -> Self {
        Self { options, dictionary: OnceLock::new(), samples: Mutex::default() }
    }

    /// Packs objects of a list that is being read. Objects that arrive before the dictionary exists stay uncompressed and become
    /// training samples.
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

    /// Drops the samples, after a list was read to its end or given up.
    pub(super) fn end_list(&self) {
        drop(std::mem::take(&mut *self.samples.lock()));
    }

    /// Trains the dictionary on the store's objects once there are enough. Returns whether it did so now.
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
            let dictionary = train(samples);
            match &dictionary {
                Some(dictionary) => {
                    tracing::debug!(bytes = dictionary.memory_size(), "trained a compression dictionary");
                }
                None => tracing::warn!("the cache stays uncompressed: zstd could not train a dictionary"),
            }
            dictionary
        });
    }

    /// Returns the object in the form in which the store keeps it: packed if there is a dictionary.
    pub(super) fn pack(&self, object: Object) -> StoredObject {
        let dictionary = self.dictionary.get().and_then(Option::as_ref);
        match dictionary.and_then(|dictionary| dictionary.pack(&object)) {
            Some(packed) => StoredObject::Packed(packed),
            None => StoredObject::new(object),
        }
    }

    /// Returns the heap bytes of the dictionary.
    pub(super) fn memory_size(&self) -> usize {
        self.dictionary.get().and_then(Option::as_ref).map_or(0, |dictionary| dictionary.memory_size())
    }
}

#[cfg(feature = "compressed-cache")]
fn train<'a>(samples: impl Iterator<Item = &'a Object>) -> Option<Arc<Dictionary>> {
    Dictionary::train(samples)
}

/// Returns `None`. Without the feature, only tests of this crate can create a [`Compression`].
#[cfg(not(feature = "compressed-cache"))]
fn train<'a>(_: impl Iterator<Item = &'a Object>) -> Option<Arc<Dictionary>> {
    None
}

#[cfg(all(test, feature = "compressed-cache"))]
mod tests;
