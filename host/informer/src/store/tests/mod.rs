//! Tests of the store, its indexes and its readers.

mod concurrency;
mod indexes;
mod objects;
mod scans;
mod shared_indexes;

use std::sync::atomic::{AtomicUsize, Ordering};

use pilothouse_model::{Object, ObjectKey};

use super::{IndexMemory, Store};
use crate::options::Compression;
use crate::scripted_server::Pod;

/// Returns an uncompressed store, and one that packs all objects but the first.
fn stores() -> [Store; 2] {
    [Store::new(), Store::compressed(Compression { training_bytes: 1 })]
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn objects(pods: &[Pod]) -> Vec<Object> {
    pods.iter().map(Pod::object).collect()
}

fn names(objects: impl AsRef<[Object]>) -> Vec<String> {
    objects.as_ref().iter().map(|object| object.name().to_owned()).collect()
}

/// An account that counts what is charged to it.
#[derive(Default)]
pub(super) struct Account(AtomicUsize);

impl IndexMemory for Account {
    fn grew(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn shrank(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Account {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
