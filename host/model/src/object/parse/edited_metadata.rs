//! Compares the metadata of a new version with the stored one if more than scalars differ: labels or annotations were added, removed or
//! renamed, or the object is being deleted. These are the changes of the metadata that most clusters have.
//!
//! The members of the metadata that [`Metadata`] is made of must be unique, so only the following may differ, each at the place where
//! Kubernetes writes it. A map of labels or annotations is read as a whole. The annotations may come or go directly after the labels, and
//! the deletion timestamp may come directly before them. Everything else is compared as in [`version_diff`](super::version_diff), or left
//! to the fast path.

use std::ops::Range;

use super::fast_path::read_string_map;
use super::version_diff::{Change, Changes, may_replace};
use crate::object::json::Span;
use crate::object::json::scan::Cursor;
use crate::object::json::validate_against::{Allowed, common_prefix, validate_against_with};
use crate::object::metadata::Metadata;

const LABELS: &str = ",\"labels\":";
const ANNOTATIONS: &str = ",\"annotations\":";
const DELETION_TIMESTAMP: &str = ",\"deletionTimestamp\":";
const GRACE_PERIOD: &str = ",\"deletionGracePeriodSeconds\":";

/// The stored text and its metadata.
#[derive(Clone, Copy)]
pub(super) struct Stored<'s> {
    pub(super) json: &'s str,
    pub(super) metadata: &'s Metadata,
    /// Where the value of the metadata starts.
    pub(super) start: usize,
}

impl Stored<'_> {
    /// Returns the end of the metadata's members, before the closing bracket.
    pub(super) fn end(&self) -> usize {
        self.metadata.after_metadata.start() - 1
    }

    /// Compares the stored text in `range` with `text`, and notes the scalars that differ. Returns the length of what corresponds to it.
    pub(super) fn compare_scalars(
        &self,
        range: Range<usize>,
        text: &str,
        changes: &mut Changes,
    ) -> Option<usize> {
        let start = range.start;
        let known = self.json.get(range)?;
        validate_against_with(known, text, Allowed::Scalars, |_, known, new| {
            let (start, end) = (start + known.start, start + known.end);
            let value = text.get(new)?;
            may_replace(value, start, self.json, self.metadata).then_some(())?;
            changes.note(self.metadata, Change { start, end, new_len: value.len() }, value)
        })
    }
}

/// Compares the members of the metadata with those at `start` of `text`. Returns their length and the changes.
pub(super) fn compare(stored: Stored<'_>, text: &str, start: usize) -> Option<(usize, Changes)> {
    let (labels, annotations) = (stored.metadata.labels.span(), stored.metadata.annotations.span());
    let mut changes = Changes::default();
    let mut cursor = Cursor::new(text);
    cursor.skip_bytes(start)?;

    let labels_member = member_start(stored.json, labels, LABELS)?;
    let len = stored.compare_scalars(stored.start..labels_member, cursor.rest(), &mut changes)?;
    cursor.skip_bytes(len)?;
    deletion(stored, labels_member, &mut cursor, start, &mut changes)?;
    cursor.literal(LABELS)?;
    map(stored, labels, &mut cursor, &mut changes)?;

    let mut known_end = labels.end();
    if annotations.is_empty() {
        added_annotations(stored, known_end, &mut cursor, start, &mut changes)?;
    } else {
        (member_start(stored.json, annotations, ANNOTATIONS)? == known_end).then_some(())?;
        if cursor.literal(ANNOTATIONS).is_some() {
            map(stored, annotations, &mut cursor, &mut changes)?;
        } else {
            changes.add(Change { start: known_end, end: annotations.end(), new_len: 0 })?;
            changes.annotations = Some(Span::default());
        }
        known_end = annotations.end();
    }
    let len = stored.compare_scalars(known_end..stored.end(), cursor.rest(), &mut changes)?;
    cursor.skip_bytes(len)?;
    Some((cursor.at() - start, changes))
}

/// Returns where the member with this value starts, if `name` precedes the value.
fn member_start(json: &str, value: Span, name: &str) -> Option<usize> {
    let before = json.get(..value.start())?;
    before.ends_with(name).then(|| before.len() - name.len())
}

/// Reads the members of a deletion, if they are next and the stored version has none.
fn deletion(
    stored: Stored<'_>,
    known_at: usize,
    cursor: &mut Cursor<'_>,
    start: usize,
    changes: &mut Changes,
) -> Option<()> {
    let member = cursor.at();
    if cursor.literal(DELETION_TIMESTAMP).is_none() {
        return Some(());
    }
    is_absent(stored, "\"deletion")?;
    let value = cursor.at();
    cursor.plain_string()?;
    let timestamp = Span::of_range(value - start + stored.start, cursor.at() - start + stored.start);
    changes.deletion_timestamp = Some(timestamp.without_quotes());
    if cursor.literal(GRACE_PERIOD).is_some() {
        cursor.value()?;
    }
    changes.add(Change { start: known_at, end: known_at, new_len: cursor.at() - member })
}

/// Reads annotations, if they are next. The stored version has none.
fn added_annotations(
    stored: Stored<'_>,
    known_at: usize,
    cursor: &mut Cursor<'_>,
    start: usize,
    changes: &mut Changes,
) -> Option<()> {
    let member = cursor.at();
    if cursor.literal(ANNOTATIONS).is_none() {
        return Some(());
    }
    is_absent(stored, "\"annotations\"")?;
    let value = cursor.at();
    read_string_map(cursor)?;
    let map = Span::of_range(value - start + stored.start, cursor.at() - start + stored.start);
    changes.annotations = Some(map);
    changes.add(Change { start: known_at, end: known_at, new_len: cursor.at() - member })
}

/// Gives up if the metadata of the stored version has this text anywhere, which may be the name of a member.
fn is_absent(stored: Stored<'_>, text: &str) -> Option<()> {
    let metadata = stored.json.get(stored.start..stored.end())?;
    // Escapes could hide it.
    let has = |part: &str| memchr::memmem::find(metadata.as_bytes(), part.as_bytes()).is_some();
    (!has(text) && !has("\\u")).then_some(())
}

/// Reads the value of labels or annotations in the place of the stored one.
fn map(stored: Stored<'_>, known: Span, cursor: &mut Cursor<'_>, changes: &mut Changes) -> Option<()> {
    let known_text = known.of(stored.json);
    if cursor.literal(known_text).is_some() {
        return Some(());
    }
    let start = cursor.at();
    read_string_map(cursor)?;
    let new = cursor.since(start).of(cursor.text());
    // Both end with a bracket, so what differs is within them.
    let shorter = known_text.len().min(new.len());
    let before = common_prefix(known_text.as_bytes(), new.as_bytes()).min(shorter - 1);
    let pairs = known_text.bytes().rev().zip(new.bytes().rev()).take(shorter - before);
    let after = pairs.take_while(|(one, other)| one == other).count();
    let (before, after) = (whole_characters(new, before), whole_characters_at_end(new, after));
    changes.add(Change {
        start: known.start() + before,
        end: known.end() - after,
        new_len: new.len() - before - after,
    })
}

/// Returns the length of the prefix of at most `len` bytes that splits no character.
fn whole_characters(text: &str, len: usize) -> usize {
    (0..=len).rev().find(|len| text.is_char_boundary(*len)).unwrap_or(0)
}

/// As [`whole_characters`], for the end of the text.
fn whole_characters_at_end(text: &str, len: usize) -> usize {
    (0..=len).rev().find(|len| text.is_char_boundary(text.len() - len)).unwrap_or(0)
}
