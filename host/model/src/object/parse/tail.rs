//! Validates the members after the metadata by comparing them with those of a known object.

use std::ops::Range;

use crate::object::Object;
use crate::object::json::resync::MAX_ADDED_DEPTH;
use crate::object::json::validate_against::{Allowed, Difference, validate_against_with};
use crate::object::metadata::{FieldHints, MAX_MEMBER_STARTS, MemberStarts, Metadata};
use crate::object::packed::{MIN_COPY, Replacement};

/// Members that correspond to those of a known object.
pub(super) struct Tail {
    len: usize,
    hints: ShiftedHints,
    /// The offsets of the members, relative to the end of the metadata.
    starts: [usize; MAX_MEMBER_STARTS],
    count: usize,
    /// A bound of the nesting; `None` if the starts are not known.
    depth: Option<u32>,
    /// What differs from the known members, with short equal parts in between; empty unless it was asked for.
    replacements: Vec<Replacement>,
}

impl Tail {
    /// Returns their length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns what differs from the known members. The metadata ends at `known_end` in the known text, and at `new_end` in the new one.
    pub(super) fn replacements(
        &self,
        known_end: usize,
        new_end: usize,
    ) -> impl ExactSizeIterator<Item = Replacement> {
        let moved_to = move |Replacement { known, new }: &Replacement| Replacement {
            known: moved(known.clone(), known_end),
            new: moved(new.clone(), new_end),
        };
        self.replacements.iter().map(moved_to)
    }

    /// Returns the members' starts and the hints for a version whose metadata ends at `metadata_end`.
    pub(super) fn moved_to(self, metadata_end: usize) -> (MemberStarts, FieldHints) {
        let mut members = self.depth.map_or_else(MemberStarts::default, MemberStarts::within);
        self.starts[..self.count].iter().for_each(|start| members.push(metadata_end + start));
        (members, self.hints.moved_to(metadata_end))
    }
}

/// Compares the members that `rest` starts with. Their names are the known ones, in the same order, so none of them repeats.
/// `collects_replacements` says whether [`Tail::replacements`] will be called for the result.
pub(super) fn compare(known: &Object, rest: &str, collects_replacements: bool) -> Option<Tail> {
    let metadata = known.metadata();
    let mut tail = Tail {
        len: 0,
        hints: ShiftedHints::of(metadata),
        starts: [0; MAX_MEMBER_STARTS],
        count: 0,
        depth: None,
        replacements: Vec::with_capacity(if collects_replacements { 32 } else { 0 }),
    };
    let replace = |replacements: &mut Vec<Replacement>, known: &Range<usize>, new: &Range<usize>| {
        match replacements.last_mut() {
            _ if !collects_replacements => {}
            // The equal text in between is too short for a copy of its own.
            Some(last) if known.start - last.known.end < MIN_COPY => {
                (last.known.end, last.new.end) = (known.end, new.end);
            }
            _ => replacements.push(Replacement { known: known.clone(), new: new.clone() }),
        }
    };
    let Some((starts, depth)) = metadata.members.known() else {
        // Where a value ends is not known, so none may change its structure.
        let (hints, replacements) = (&mut tail.hints, &mut tail.replacements);
        tail.len =
            validate_against_with(known.text_after_metadata(), rest, Allowed::Scalars, |_, from, to| {
                replace(replacements, &from, &to);
                hints.note(Difference::Scalar, from, to);
                Some(())
            })?;
        return Some(tail);
    };
    let json = known.json();
    let (first, last) = (metadata.after_metadata.start(), metadata.after_metadata.end());
    let ends = starts.clone().skip(1).chain([last]);
    let mut is_deeper = false;
    for (start, end) in starts.zip(ends) {
        let value_start = start + name_len(json.get(start..end)?)?;
        tail.starts[tail.count] = tail.len;
        tail.count += 1;
        let value = rest.get(tail.len..)?.strip_prefix(&json[start..value_start])?;
        let value_at = rest.len() - value.len();
        let (hints, replacements) = (&mut tail.hints, &mut tail.replacements);
        let value_len =
            validate_against_with(&json[value_start..end], value, Allowed::All, |difference, from, to| {
                is_deeper |= difference == Difference::Structure;
                let (from, to) = (moved(from, value_start - first), moved(to, value_at));
                replace(replacements, &from, &to);
                hints.note(difference, from, to);
                Some(())
            })?;
        tail.len = value_at + value_len;
    }
    tail.depth = Some(if is_deeper { depth + MAX_ADDED_DEPTH } else { depth });
    Some(tail)
}

/// Returns the length of the comma, the name and the colon before a value.
fn name_len(member: &str) -> Option<usize> {
    let name = member.strip_prefix(",\"")?;
    let value = name[memchr::memchr(b'"', name.as_bytes())?..].strip_prefix("\":")?;
    Some(member.len() - value.len())
}

fn moved(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

/// The [`FieldHints`] of the known object, adjusted for the new one. Both have the same members after the metadata.
struct ShiftedHints {
    /// The offsets in the known object.
    known: [usize; 3],
    /// The offsets in the new object, if its metadata ended where that of the known one does.
    shifted: [usize; 3],
    /// Where the metadata of the known object ends.
    metadata_end: usize,
}

impl ShiftedHints {
    fn of(metadata: &Metadata) -> Self {
        let (known, metadata_end) = (metadata.hints.offsets(), metadata.after_metadata.start());
        Self { known, shifted: known, metadata_end }
    }

    /// Adjusts the offsets for a difference. Both ranges are relative to the end of the metadata.
    fn note(&mut self, difference: Difference, known_range: Range<usize>, new_range: Range<usize>) {
        if self.known == [0; 3] {
            return;
        }
        let (start, end) = (self.metadata_end + known_range.start, self.metadata_end + known_range.end);
        let [_, object, member] = self.known;
        if difference == Difference::Structure && object <= start && start <= member {
            // The member may be gone, or another one of its name may now precede it.
            self.known[1..].fill(0);
            self.shifted[1..].fill(0);
        }
        for (known, shifted) in self.known.iter().zip(&mut self.shifted) {
            if *known >= end && *known > 0 {
                *shifted = *shifted + new_range.len() - known_range.len();
            }
        }
    }

    /// Returns the hints for an object whose metadata ends at `metadata_end`. The offset 0 (no hint) stays 0.
    fn moved_to(self, metadata_end: usize) -> FieldHints {
        let moved = |offset: usize| if offset == 0 { 0 } else { offset - self.metadata_end + metadata_end };
        FieldHints::from_offsets(self.shifted.map(moved))
    }
}
