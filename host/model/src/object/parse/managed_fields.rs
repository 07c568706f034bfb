//! Reads `metadata.managedFields` that are dropped. They only have to be well formed.
//!
//! Each entry is compared with a known one of the same manager and owner. The entries of a manager name the same fields in all Pods of a
//! workload, but for some that come and go with the state, so most of their text is the same. Of those that come and go, most do so
//! together, as the reasons and messages of conditions do when a Pod becomes ready. So two variants of an entry are remembered.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::object::json::scan::Cursor;
use crate::object::json::validate_against::{Allowed, Difference, validate_against_with};

/// Larger entries are not remembered.
const MAX_ENTRY_BYTES: usize = 16 * 1024;
/// The most bytes of entries that are remembered. Beyond, all are forgotten.
const MAX_TOTAL_BYTES: usize = 2 * 1024 * 1024;
/// The bytes by which a variant is longer or shorter where it differs. Names that differ, such as those of addresses, make no variant.
const MIN_VARIANT_BYTES: usize = 16;
/// How an entry begins, up to the name of its manager.
const MANAGER: &str = r#"{"manager":""#;
/// How the fields of a status begin.
const STATUS: &[u8] = br#"{"f:status":"#;

/// Entries that are known to be well formed.
#[derive(Default)]
pub(super) struct KnownManagedFields {
    /// The entries by the hash of their owner and manager. A collision only costs time.
    entries: HashMap<u64, KnownEntry, Prehashed>,
    bytes: usize,
}

/// An entry of a manager, which was the last that had to be parsed.
struct KnownEntry {
    text: Box<str>,
    /// An entry with other fields, and the offset of the first byte that differs because of that.
    variant: Option<(Box<str>, usize)>,
}

impl KnownEntry {
    /// Returns the known text that resembles `text` more.
    fn resembling(&self, text: &str) -> &str {
        match &self.variant {
            Some((variant, at)) if text.as_bytes().get(*at) == variant.as_bytes().get(*at) => variant,
            _ => &self.text,
        }
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.variant.as_ref().map_or(0, |(variant, _)| variant.len())
    }
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
        let start = cursor.at();
        if let Some(known) = self.entries.get(&hash) {
            let text = known.resembling(cursor.rest());
            let mut differs_at = None;
            let len = validate_against_with(text, cursor.rest(), Allowed::All, |difference, from, to| {
                let is_variant = difference == Difference::Structure
                    && from.len().abs_diff(to.len()) >= MIN_VARIANT_BYTES
                    && from.start == to.start;
                if is_variant && differs_at.is_none() {
                    differs_at = Some(from.start);
                }
                Some(())
            });
            if let Some(len) = len {
                let entry = cursor.rest().get(..len)?;
                if let (None, Some(at)) = (&known.variant, differs_at) {
                    let equal =
                        text.bytes().zip(entry.bytes()).skip(at).take_while(|(one, other)| one == other);
                    let at = at + equal.count();
                    self.remember_variant(hash, entry, at);
                }
                return cursor.skip_bytes(len);
            }
        }
        cursor.value()?;
        self.remember(hash, cursor.since(start).of(cursor.text()));
        Some(())
    }

    fn remember(&mut self, hash: u64, entry: &str) {
        if entry.len() > MAX_ENTRY_BYTES {
            return;
        }
        self.make_room(entry.len());
        let entry = KnownEntry { text: entry.into(), variant: None };
        if let Some(old) = self.entries.insert(hash, entry) {
            self.bytes -= old.bytes();
        }
    }

    /// Remembers an entry that has other fields than the known one. The first byte that differs because of that is at `at`.
    fn remember_variant(&mut self, hash: u64, entry: &str, at: usize) {
        if entry.len() > MAX_ENTRY_BYTES {
            return;
        }
        self.make_room(entry.len());
        match self.entries.get_mut(&hash) {
            Some(known) => known.variant = Some((entry.into(), at)),
            // All have been forgotten.
            None => self.bytes -= entry.len(),
        }
    }

    /// Counts the bytes of an entry, and forgets all others if there are too many.
    fn make_room(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes > MAX_TOTAL_BYTES {
            self.entries.clear();
            self.bytes = bytes;
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

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u64 = 7;

    fn entry(time: &str, conditions: &str, address: &str) -> String {
        format!(
            r#"{{"manager":"kubelet","operation":"Update","time":"{time}","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"Ready\"}}":{{".":{{}},{conditions}"f:status":{{}}}}}},"f:podIPs":{{"k:{{\"ip\":\"{address}\"}}":{{}}}}}}}}}}"#
        )
    }

    const REASON: &str = r#""f:message":{},"f:reason":{},"#;

    /// Reads the entry and returns whether all of it was accepted.
    fn read(known: &mut KnownManagedFields, entry: &str) -> bool {
        let text = format!("[{entry}],");
        let mut cursor = Cursor::new(&text);
        known.read(&mut cursor, OWNER).is_some() && cursor.rest() == ","
    }

    fn known(known: &KnownManagedFields) -> (String, Option<String>) {
        let entry = known.entries.values().next().expect("an entry");
        let bytes: usize = known.entries.values().map(KnownEntry::bytes).sum();
        assert_eq!(bytes, known.bytes);
        (entry.text.to_string(), entry.variant.as_ref().map(|(text, _)| text.to_string()))
    }

    #[test]
    fn an_entry_with_more_or_fewer_fields_is_a_variant() {
        let (bare, full) = (entry("1", "", "10.0.0.1"), entry("2", REASON, "10.0.0.22"));
        for (first, second) in [(&bare, &full), (&full, &bare)] {
            let mut fields = KnownManagedFields::default();
            assert!(read(&mut fields, first) && read(&mut fields, second));
            assert_eq!(known(&fields), (first.clone(), Some(second.clone())));
            let stored = fields.entries.values().next().expect("an entry");
            assert_eq!(stored.resembling(&entry("3", "", "10.3.3.3")), bare);
            assert_eq!(stored.resembling(&entry("4", REASON, "10.4.4.4")), full);
            assert_eq!(stored.resembling(""), *first);
        }
    }

    #[test]
    fn names_that_differ_make_no_variant() {
        let mut fields = KnownManagedFields::default();
        for address in ["10.0.0.1", "10.0.0.123", "1.1.1.1"] {
            assert!(read(&mut fields, &entry("1", "", address)));
        }
        assert_eq!(known(&fields), (entry("1", "", "10.0.0.1"), None));
    }

    #[test]
    fn a_damaged_entry_is_refused_whatever_is_known() {
        let damages = ["", "\"", "{", "}", ",", ":", "1", "\\"];
        for at in 1..entry("1", REASON, "10.0.0.1").len() {
            for damage in damages {
                let mut fields = KnownManagedFields::default();
                assert!(read(&mut fields, &entry("1", "", "10.0.0.1")));
                assert!(read(&mut fields, &entry("1", REASON, "10.0.0.1")));
                let text = entry("1", REASON, "10.0.0.1");
                let text = format!("{}{damage}{}", &text[..at], &text[at + 1..]);
                let is_value = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
                assert_eq!(read(&mut fields, &text), is_value, "{text}");
            }
        }
    }

    #[test]
    fn all_entries_are_forgotten_when_there_are_too_many() {
        let mut fields = KnownManagedFields::default();
        let large = "x".repeat(MAX_ENTRY_BYTES - 200);
        for owner in 0..1_000 {
            let text = format!(r#"[{{"manager":"m{owner}","fieldsV1":{{"f:{large}":{{}}}}}}],"#);
            fields.read(&mut Cursor::new(&text), OWNER).expect("it is well formed");
            assert!(fields.bytes <= MAX_TOTAL_BYTES);
        }
        let larger = format!(r#"{{"manager":"m","fieldsV1":{{"f:{large}{large}":{{}}}}}}"#);
        let before = fields.entries.len();
        assert!(read(&mut fields, &larger));
        assert_eq!(fields.entries.len(), before, "larger entries are not remembered");
        let bytes: usize = fields.entries.values().map(KnownEntry::bytes).sum();
        assert_eq!(bytes, fields.bytes);
    }
}
