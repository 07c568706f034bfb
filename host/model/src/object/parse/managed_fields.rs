//! Reads `metadata.managedFields` that are dropped. They only have to be well formed.
//!
//! Each entry is compared with a known one of the same manager and owner. The entries of a manager name the same fields in all Pods of a
//! workload, but for some that come and go with the state, so most of their text is the same.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::object::json::scan::Cursor;
use crate::object::json::validate_against::{Allowed, validate_against};

/// Larger entries are not remembered.
const MAX_ENTRY_BYTES: usize = 16 * 1024;
/// The most bytes of entries that are remembered. Beyond, all are forgotten.
const MAX_TOTAL_BYTES: usize = 2 * 1024 * 1024;
/// How an entry begins, up to the name of its manager.
const MANAGER: &str = r#"{"manager":""#;
/// How the fields of a status begin.
const STATUS: &[u8] = br#"{"f:status":"#;

/// Entries that are known to be well formed.
#[derive(Default)]
pub(super) struct KnownManagedFields {
    /// The last parsed entry by the hash of its owner and manager. A collision only costs time.
    entries: HashMap<u64, Box<str>, Prehashed>,
    bytes: usize,
}

impl KnownManagedFields {
    /// Reads the value, which may be of any type.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, owner: u64) -> Option<()> {
        if cursor.first() != Some(b'[') {
            return cursor.value();
        }
        cursor.elements(|cursor| self.entry(cursor, owner))
    }

    fn entry(&mut self, cursor: &mut Cursor<'_>, owner: u64) -> Option<()> {
        let Some(hash) = hash(cursor.rest(), owner) else { return cursor.value() };
        if let Some(known) = self.entries.get(&hash)
            && let Some(len) = validate_against(known, cursor.rest(), Allowed::All)
        {
            return cursor.skip_bytes(len);
        }
        let start = cursor.at();
        cursor.value()?;
        let entry = cursor.since(start).of(cursor.text());
        if entry.len() <= MAX_ENTRY_BYTES {
            self.remember(hash, entry);
        }
        Some(())
    }

    fn remember(&mut self, hash: u64, entry: &str) {
        self.bytes += entry.len();
        if self.bytes > MAX_TOTAL_BYTES {
            self.entries.clear();
            self.bytes = entry.len();
        }
        if let Some(old) = self.entries.insert(hash, entry.into()) {
            self.bytes -= old.len();
        }
    }
}

/// Returns a hash of the owner and of the manager of the entry that `rest` starts with; `None` if it does not start as Kubernetes writes it.
///
/// The fields of a status do not depend on the owner. One entry for all owners stays in the processor's cache.
fn hash(rest: &str, owner: u64) -> Option<u64> {
    let rest = rest.strip_prefix(MANAGER)?.as_bytes();
    let manager = &rest[..memchr::memchr(b'"', rest)?];
    let fields = memchr::memchr(b'{', rest).map_or(rest, |start| &rest[start..]);
    let owner = if fields.starts_with(STATUS) { 0 } else { owner };
    let mix =
        |sum: u64, byte: &u8| (sum.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some(manager.iter().fold(owner, mix))
}

/// Builds the hasher of numbers that are hashes already.
pub(super) type Prehashed = BuildHasherDefault<PrehashedHasher>;

/// Returns the number that was written last.
#[derive(Default)]
pub(super) struct PrehashedHasher(u64);

impl Hasher for PrehashedHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
