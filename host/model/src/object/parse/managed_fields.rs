//! Reads `metadata.managedFields` that are dropped. They only have to be well formed.
//!
//! Each entry is compared with known ones of the same manager and owner. The entries of a manager name the same fields in all Pods of a
//! workload, apart from some that come and go with the state, so a few known entries cover nearly all. They differ in some strings, such as the
//! time. A known entry remembers which: the text between these strings is compared at once, and the grammar validates the strings.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use crate::object::json::scan::{self, Cursor};
use crate::object::json::validate_against::{Allowed, Difference, common_prefix, validate_against_with};

/// Larger entries are not remembered.
const MAX_ENTRY_BYTES: usize = 16 * 1024;
/// The most bytes of entries that are remembered. Beyond, all are forgotten.
const MAX_TOTAL_BYTES: usize = 2 * 1024 * 1024;
/// The most entries that are remembered for one manager and owner.
const MAX_ALTERNATIVES: usize = 6;
/// The most strings of an entry that are known to vary.
const MAX_VARYING: usize = 8;
/// How an entry begins, up to the name of its manager.
const MANAGER: &str = r#"{"manager":""#;
/// How the fields of a status begin.
const STATUS: &[u8] = br#"{"f:status":"#;

/// Entries that are known to be well formed.
#[derive(Default)]
pub(super) struct KnownManagedFields {
    /// The entries by the hash of their owner and manager. A collision only costs time.
    entries: HashMap<u64, Alternatives, Prehashed>,
    bytes: usize,
}

/// Entries of one manager and owner that have different fields.
#[derive(Default)]
struct Alternatives {
    entries: Vec<KnownEntry>,
    /// The one that is replaced next, once there are too many.
    oldest: usize,
}

/// A well-formed entry.
struct KnownEntry {
    text: Box<str>,
    /// The content of the strings that vary, without quotes and in document order.
    varying: Vec<Range<usize>>,
}

impl KnownEntry {
    /// Returns the length of the entry that `text` starts with, if only the strings that vary differ from this one.
    fn match_len(&self, text: &str) -> Option<usize> {
        let (known, mut rest, mut at) = (self.text.as_bytes(), text.as_bytes(), 0);
        for Range { start, end } in &self.varying {
            rest = scan::rest_of_string(rest.strip_prefix(&known[at..*start])?)?;
            // After the closing quote, which `rest_of_string` has read as well.
            at = end + 1;
        }
        rest = rest.strip_prefix(&known[at..])?;
        Some(text.len() - rest.len())
    }

    /// Returns how much of this entry is the same as the one that `text` starts with, apart from the strings that vary.
    fn same_len(&self, text: &str) -> usize {
        let (known, mut rest, mut at) = (self.text.as_bytes(), text.as_bytes(), 0);
        for Range { start, end } in &self.varying {
            let same = rest.strip_prefix(&known[at..*start]).and_then(scan::rest_of_string);
            let Some(after) = same else { break };
            (rest, at) = (after, end + 1);
        }
        at + common_prefix(&known[at..], rest)
    }

    /// Notes a string that differs in another entry.
    fn note_varying(&mut self, string: Range<usize>) {
        let at = self.varying.partition_point(|known| known.start < string.start);
        if self.varying.len() < MAX_VARYING && self.varying.get(at) != Some(&string) {
            self.varying.insert(at, string);
        }
    }
}

impl Alternatives {
    /// Returns the length of the entry that `text` starts with, if it is known.
    fn match_len(&self, text: &str) -> Option<usize> {
        self.entries.iter().find_map(|entry| entry.match_len(text))
    }

    /// Returns the known entry that is most similar to the one that `text` starts with.
    fn most_similar(&mut self, text: &str) -> Option<&mut KnownEntry> {
        self.entries.iter_mut().max_by_key(|entry| entry.same_len(text))
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
        let text = cursor.rest();
        let Some(hash) = hash(text, owner) else { return cursor.value() };
        let mut known = self.entries.get_mut(&hash);
        if let Some(len) = known.as_ref().and_then(|known| known.match_len(text)) {
            return cursor.skip_bytes(len);
        }
        let similar = known.as_mut().and_then(|known| known.most_similar(text));
        let varying = match similar.and_then(|similar| compare(similar, text)) {
            Some((len, Fields::Same)) => return cursor.skip_bytes(len),
            Some((len, Fields::Different(varying))) => {
                cursor.skip_bytes(len)?;
                varying
            }
            None => {
                cursor.value()?;
                Vec::new()
            }
        };
        self.remember(hash, KnownEntry { text: text[..text.len() - cursor.rest().len()].into(), varying });
        Some(())
    }

    fn remember(&mut self, hash: u64, entry: KnownEntry) {
        let bytes = entry.text.len();
        if bytes > MAX_ENTRY_BYTES {
            return;
        }
        self.bytes += bytes;
        if self.bytes > MAX_TOTAL_BYTES {
            self.entries.clear();
            self.bytes = bytes;
        }
        let known = self.entries.entry(hash).or_default();
        if known.entries.len() < MAX_ALTERNATIVES {
            known.entries.push(entry);
        } else {
            let replaced = std::mem::replace(&mut known.entries[known.oldest], entry);
            self.bytes -= replaced.text.len();
            known.oldest = (known.oldest + 1) % MAX_ALTERNATIVES;
        }
    }
}

/// Whether two entries have the same fields, apart from their names.
enum Fields {
    Same,
    /// With the strings of the new entry that differ.
    Different(Vec<Range<usize>>),
}

/// Compares the entry that `text` starts with with a known one, and returns its length. Notes the strings that differ. `None` if comparing
/// cannot decide whether it is well formed.
fn compare(known: &mut KnownEntry, text: &str) -> Option<(usize, Fields)> {
    let mut varying = Vec::new();
    let mut is_same = true;
    let len = validate_against_with(&known.text, text, Allowed::All, |difference, from, to| {
        let string = replaced_string(&known.text[from.clone()], &text[to.clone()], difference);
        match string.filter(|_| varying.len() < MAX_VARYING) {
            Some((known_len, new_len)) => {
                let content = |start: usize, len: usize| start + 1..start + len - 1;
                varying.push((content(from.start, known_len), content(to.start, new_len)));
            }
            None => is_same = false,
        }
        Some(())
    })?;
    varying.iter().for_each(|(string, _)| known.note_varying(string.clone()));
    let of_new = || varying.into_iter().map(|(_, string)| string).collect();
    Some((len, if is_same { Fields::Same } else { Fields::Different(of_new()) }))
}

/// Returns the lengths of the strings that both texts begin with, quotes included, if only these differ: values, or names of members.
fn replaced_string(known: &str, new: &str, difference: Difference) -> Option<(usize, usize)> {
    let after =
        |text: &str| Some(text.len() - scan::rest_of_string(text.strip_prefix('"')?.as_bytes())?.len());
    let (known_len, new_len) = (after(known)?, after(new)?);
    let is_whole = known_len == known.len() && new_len == new.len();
    let is_name = known.get(known_len..) == new.get(new_len..);
    (is_whole || difference == Difference::Structure && is_name).then_some((known_len, new_len))
}

/// Returns a hash of the owner and of the manager of the entry that `rest` starts with; `None` if it does not start as Kubernetes writes it.
///
/// The fields of a status do not depend on the owner. One entry for all owners stays in the processor's cache.
fn hash(rest: &str, owner: u64) -> Option<u64> {
    let rest = rest.strip_prefix(MANAGER)?.as_bytes();
    let len = rest.len() - scan::rest_of_string(rest)?.len();
    let fields = memchr::memchr(b'{', rest).map_or(rest, |start| &rest[start..]);
    let owner = if fields.starts_with(STATUS) { 0 } else { owner };
    let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The length and the ends of most names identify the manager. The text after a short name is mostly the same.
    let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let ends = [word(rest.first_chunk()), word(rest[..len].last_chunk())];
    Some(ends.into_iter().fold(mix(owner, len as u64), mix))
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

    /// Reads the entry and returns whether all of it was accepted.
    fn read(known: &mut KnownManagedFields, entry: &str) -> bool {
        let text = format!("[{entry}],");
        let mut cursor = Cursor::new(&text);
        known.read(&mut cursor, OWNER).is_some() && cursor.rest() == ","
    }

    fn texts(fields: &KnownManagedFields) -> Vec<&str> {
        let bytes: usize =
            fields.entries.values().flat_map(|known| &known.entries).map(|entry| entry.text.len()).sum();
        assert_eq!(bytes, fields.bytes);
        fields.entries.values().flat_map(|known| &known.entries).map(|entry| &*entry.text).collect()
    }

    const REASON: &str = r#""f:message":{},"f:reason":{},"#;

    #[test]
    fn an_entry_with_more_or_fewer_fields_is_remembered_as_well() {
        let (bare, full) = (entry("1", "", "10.0.0.1"), entry("2", REASON, "10.0.0.22"));
        for (first, second) in [(&bare, &full), (&full, &bare)] {
            let mut fields = KnownManagedFields::default();
            assert!(read(&mut fields, first) && read(&mut fields, second));
            assert_eq!(texts(&fields), [first, second]);
            for (time, conditions, address) in
                [("3", "", "10.3.3.3"), ("4", REASON, "10.4.4.44"), ("", "", ""), ("\\u00e9", REASON, "\\\"")]
            {
                assert!(read(&mut fields, &entry(time, conditions, address)));
            }
            assert_eq!(texts(&fields), [first, second]);
            let known = fields.entries.values().next().expect("entries");
            let varying = |position: usize| known.entries[position].varying.len();
            assert_eq!([varying(0), varying(1)], [2, 2], "the time and the name with the address");
        }
    }

    #[test]
    fn an_entry_that_differs_in_known_strings_is_compared_at_once() {
        let mut fields = KnownManagedFields::default();
        assert!(
            read(&mut fields, &entry("1", "", "10.0.0.1"))
                && read(&mut fields, &entry("2", "", "10.0.0.123"))
        );
        let known = fields.entries.values().next().expect("an entry");
        let text = entry("a longer one", "", "1.1");
        assert_eq!(known.match_len(&(text.clone() + ",{}]")), Some(text.len()));
        assert_eq!(known.match_len(&entry("3", REASON, "1.1")), None);
        assert_eq!(known.match_len(&text[..text.len() - 1]), None);
        assert_eq!(Alternatives::default().match_len(&text), None);
    }

    #[test]
    fn the_oldest_alternative_is_replaced() {
        let mut fields = KnownManagedFields::default();
        let with = |count: usize| entry("1", &r#""f:message":{},"#.repeat(count), "10.0.0.1");
        for count in 0..MAX_ALTERNATIVES + 2 {
            assert!(read(&mut fields, &with(count)));
        }
        let expected: Vec<_> = [6, 7, 2, 3, 4, 5].map(with).to_vec();
        assert_eq!(texts(&fields), expected);
    }

    #[test]
    fn a_value_that_differs_is_no_string_that_varies() {
        let mut fields = KnownManagedFields::default();
        let number = |number: u32| format!(r#"{{"manager":"m","fieldsV1":{{"f:a":{number}}}}}"#);
        assert!(read(&mut fields, &number(1)) && read(&mut fields, &number(2)));
        assert_eq!(texts(&fields), [number(1), number(2)]);
        assert!(
            fields.entries.values().flat_map(|known| &known.entries).all(|entry| entry.varying.is_empty())
        );
    }

    #[test]
    fn a_damaged_entry_is_refused_whatever_is_known() {
        let damages = ["", "\"", "{", "}", ",", ":", "1", "\\"];
        for at in 1..entry("1", REASON, "10.0.0.1").len() {
            for damage in damages {
                let mut fields = KnownManagedFields::default();
                assert!(read(&mut fields, &entry("1", "", "10.0.0.1")));
                assert!(read(&mut fields, &entry("2", "", "10.0.0.22")));
                assert!(read(&mut fields, &entry("1", REASON, "10.0.0.1")));
                assert!(read(&mut fields, &entry("2", REASON, "10.0.0.22")));
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
        let before = texts(&fields).len();
        assert!(read(&mut fields, &larger));
        assert_eq!(fields.entries.len(), before, "larger entries are not remembered");
        assert_eq!(texts(&fields).len(), before);
    }
}
