//! Parses a new version of an object by comparing all of it, the metadata included, with the stored version.
//!
//! [`Stored::compare_scalars`] validates the text. The new metadata is that of the stored version, with its ranges shifted by the change in
//! length of the scalars before them. Each changed scalar must be valid in its place: a string for a string, a number for the generation.
//! [`edited_metadata`] reads changes of labels and annotations. Anything else is left to the fast path, which reads the metadata member by
//! member. `tests/version_diff.rs`, `tests/edited_metadata.rs` and `tests/reader.rs` check that all agree.

use super::ParseOptions;
use super::edited_metadata::{self, Stored};
use super::fast_path::{ParsedObject, plain_string};
use super::reference::{OwnerHash, Preamble, RecentObjects, References};
use super::sharing::NewObject;
use super::tail::{self, Tail};
use crate::ObjectKey;
use crate::object::Object;
use crate::object::json::Span;
use crate::object::json::scan::Cursor;
use crate::object::metadata::{FieldHints, MemberStarts, Metadata, StringField, StringMap};
use crate::object::packed::Replacement;
use crate::object::prefetch::prefetched_string;

/// The most scalars of the metadata that may differ. Mostly only the resource version does.
const MAX_METADATA_CHANGES: usize = 8;
/// The members of the metadata that [`Metadata`] is made of.
const PARSED_MEMBERS: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
];
const MANAGED_FIELDS: &str = ",\"managedFields\":";

/// As [`ObjectReader::peek_key`](super::ObjectReader::peek_key).
pub(super) fn peek_key<'a>(text: &'a str, recent: &RecentObjects) -> Option<(&'a str, &'a str)> {
    key(text.strip_prefix(recent.preamble()?.source.as_str())?)
}

/// Parses the object that `text` starts with, if it differs from the stored version in some scalars only.
pub(super) fn parse_prefix(
    text: &str,
    options: &ParseOptions<'_>,
    references: &mut References<'_>,
) -> Option<ParsedObject> {
    let Comparison { metadata_members, tail, compared, len, changes, json } =
        compare(text, options, references)?;
    let (key, stored) = references.take_stored()?;
    let mut metadata = changes.apply(stored.metadata(), key);
    let preamble = references.preamble()?.canonical.as_str();
    let head = [preamble, metadata_members, "}"];
    let recipe = if options.shares_text_after.is_some() {
        let new = NewObject { head, tail, metadata: &metadata };
        new.recipe(&stored, || changes.replacements(), &compared, stored.is_base())
    } else {
        None
    };
    // Dropped before the text is written: the reference count is shared by several threads, and changing it waits until all previous
    // writes have reached the cache.
    drop(stored);

    let metadata_end = preamble.len() + metadata_members.len() + 1;
    metadata.after_metadata = Span::of_range(metadata_end, metadata_end + tail.len());
    (metadata.members, metadata.hints) = compared.moved_to(metadata_end);
    let object = match recipe {
        Some((base, recipe)) => {
            Object::from_base(base, &recipe, &[preamble, metadata_members, "}", tail, "}"], metadata)?
        }
        None => Object::plain(text_of(json, head, tail), metadata),
    };
    Some(ParsedObject { object, len, sample_of: None, preamble_lens: None })
}

/// Writes a text into `json`, which is empty, if its capacity is right.
fn text_of(mut json: String, head: [&str; 3], tail: &str) -> Box<str> {
    let needed = head.iter().map(|part| part.len()).sum::<usize>() + tail.len() + 1;
    if json.capacity() != needed {
        // Growing or shrinking the allocation might copy it.
        json = String::with_capacity(needed);
    }
    head.iter().for_each(|part| json.push_str(part));
    json.push_str(tail);
    json.push('}');
    json.into_boxed_str()
}

/// The parts of a text that are kept, and their differences from the stored version.
struct Comparison<'a> {
    /// The members of the metadata with the opening bracket, without the managed fields that are dropped.
    metadata_members: &'a str,
    /// The members after the metadata.
    tail: &'a str,
    compared: Tail,
    /// The length of the object in the text, in bytes.
    len: usize,
    changes: Changes,
    /// The empty string for the new version, with the capacity of the stored one.
    json: String,
}

fn compare<'a>(
    text: &'a str,
    options: &ParseOptions<'_>,
    references: &mut References<'_>,
) -> Option<Comparison<'a>> {
    let transform = options.transform;
    if transform.drop_last_applied || !transform.keeps_all_members() || u32::try_from(text.len()).is_err() {
        return None;
    }
    let (start, stored_start) = {
        let Preamble { source, canonical } = references.preamble()?;
        text.starts_with(source).then_some((source.len(), canonical.len()))?
    };
    let (namespace, name) = key(text.get(start..)?)?;
    references.look_up(namespace, name)?;
    let (stored, recent) = references.stored_and_recent()?;
    let (stored_json, stored_metadata) = (stored.json(), stored.metadata());
    recent.is_preamble_of(stored_json).then_some(())?;
    let json = if stored.is_plain() { prefetched_string(stored_json.len()) } else { String::new() };

    // Without the closing bracket: managed fields that are dropped may come before it.
    let known = Stored { json: stored_json, metadata: stored_metadata, start: stored_start };
    let mut changes = Changes::default();
    let (len, changes) = match known.compare_scalars(stored_start..known.end(), &text[start..], &mut changes)
    {
        Some(len) => (len, changes),
        None => edited_metadata::compare(known, text, start)?,
    };
    let metadata_members = text.get(start..start + len)?;
    let mut cursor = Cursor::new(text);
    cursor.skip_bytes(start + len)?;
    if transform.drop_managed_fields && cursor.literal(MANAGED_FIELDS).is_some() {
        let owners = OwnerHash::of(stored_metadata.owner_references.of(stored_json));
        recent.read_managed_fields(&mut cursor, owners)?;
    }
    cursor.literal("}")?;
    let compared = tail::compare(stored, cursor.rest(), options.shares_text_after.is_some())?;
    let tail = cursor.rest().get(..compared.len())?;
    cursor.skip_bytes(tail.len())?;
    cursor.literal("}")?;
    Some(Comparison { metadata_members, tail, compared, len: cursor.at(), changes, json })
}

/// Returns the namespace and name, if the metadata starts with them.
fn key(metadata: &str) -> Option<(&str, &str)> {
    let mut cursor = Cursor::new(metadata);
    cursor.literal(r#"{"name":"#)?;
    let name = cursor.plain_string()?;
    if cursor.literal(r#","generateName":"#).is_some() {
        cursor.plain_string()?;
    }
    let is_namespaced = cursor.literal(r#","namespace":"#).is_some();
    let namespace = if is_namespaced { cursor.plain_string()? } else { "" };
    Some((namespace, name))
}

/// Returns whether the metadata stays valid if `value` replaces the scalar at offset `start` of the stored text `json`.
pub(super) fn may_replace(value: &str, start: usize, json: &str, metadata: &Metadata) -> bool {
    let is_in = |span: Span| (span.start()..span.end()).contains(&start);
    let is_field =
        |field: &StringField| matches!(field, StringField::InText(inner) if inner.start() == start + 1);
    if is_in(metadata.labels.span()) || is_in(metadata.annotations.span()) {
        return value.starts_with('"');
    }
    if [&metadata.uid, &metadata.resource_version, &metadata.deletion_timestamp].into_iter().any(is_field) {
        return plain_string(value).is_some();
    }
    if metadata.generation_start as usize == start {
        return value.parse::<u64>().is_ok();
    }
    !is_in(metadata.owner_references) && !may_be_parsed_member(&json[..start])
}

/// Returns whether the value after `before` belongs to one of [`PARSED_MEMBERS`], or may belong to one. Such a value is null, because any
/// other would have been found by its range.
fn may_be_parsed_member(before: &str) -> bool {
    match before.strip_suffix("\":") {
        Some(name) => {
            let name = name.rsplit('"').next().unwrap_or_default();
            name.contains('\\') || PARSED_MEMBERS.contains(&name)
        }
        // An element of an array has no name. Servers write no white space here, so anything else is refused.
        None => !before.ends_with(['[', ',']),
    }
}

/// A part of the stored text that was replaced: its range, and the length of what took its place.
#[derive(Clone, Copy, Default)]
pub(super) struct Change {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) new_len: usize,
}

/// The changes of the metadata in document order.
#[derive(Default)]
pub(super) struct Changes {
    all: [Change; MAX_METADATA_CHANGES],
    len: usize,
    /// The new generation, if it changed.
    generation: Option<u64>,
    /// The new deletion timestamp, if it was added.
    pub(super) deletion_timestamp: Option<Span>,
    /// The new annotations, if they were added or removed.
    pub(super) annotations: Option<Span>,
}

impl Changes {
    /// Adds the change of a scalar to `value`. Gives up if there are too many.
    pub(super) fn note(&mut self, stored: &Metadata, change: Change, value: &str) -> Option<()> {
        if change.start == stored.generation_start as usize {
            self.generation = Some(value.parse().ok()?);
        }
        self.add(change)
    }

    /// Adds a change. Gives up if there are too many.
    pub(super) fn add(&mut self, change: Change) -> Option<()> {
        *self.all.get_mut(self.len)? = change;
        self.len += 1;
        Some(())
    }

    fn all(&self) -> &[Change] {
        &self.all[..self.len]
    }

    /// Returns an offset of the stored text shifted by those changes that `is_before` selects.
    fn shifted(&self, offset: usize, is_before: impl Fn(&Change) -> bool) -> usize {
        let before = self.all().iter().filter(|change| is_before(change));
        before.fold(offset, |offset, change| offset + change.new_len - (change.end - change.start))
    }

    /// Returns what takes the place of the changed parts.
    fn replacements(&self) -> Vec<Replacement> {
        let (mut known_at, mut new_at) = (0, 0);
        let replacement = |change: &Change| {
            let start = new_at + change.start - known_at;
            (known_at, new_at) = (change.end, start + change.new_len);
            Replacement { known: change.start..change.end, new: start..new_at }
        };
        self.all().iter().map(replacement).collect()
    }

    fn span(&self, span: Span) -> Span {
        let start = self.shifted(span.start(), |change| change.end <= span.start());
        // A range between quotes ends before its change does, which includes the closing quote. So the start is compared.
        Span::of_range(start, self.shifted(span.end(), |change| change.start < span.end()))
    }

    fn string(&self, field: &StringField) -> StringField {
        match field {
            StringField::InText(span) => StringField::InText(self.span(*span)),
            // Unchanged: `may_replace` refuses such a change.
            StringField::Owned(text) => StringField::Owned(text.clone()),
        }
    }

    /// Returns the metadata of the new version.
    fn apply(&self, stored: &Metadata, key: ObjectKey) -> Metadata {
        let generation_start = stored.generation_start as usize;
        let generation_start = self.shifted(generation_start, |change| change.end <= generation_start);
        Metadata {
            key,
            api_version: self.string(&stored.api_version),
            kind: self.string(&stored.kind),
            uid: self.string(&stored.uid),
            resource_version: self.string(&stored.resource_version),
            deletion_timestamp: match self.deletion_timestamp {
                Some(added) => StringField::InText(added),
                None => self.string(&stored.deletion_timestamp),
            },
            generation: self.generation.unwrap_or(stored.generation),
            generation_start: u32::try_from(generation_start).unwrap_or_default(),
            labels: StringMap::at(self.span(stored.labels.span())),
            annotations: StringMap::at(
                self.annotations.unwrap_or_else(|| self.span(stored.annotations.span())),
            ),
            owner_references: self.span(stored.owner_references),
            after_metadata: stored.after_metadata,
            members: MemberStarts::default(),
            hints: FieldHints::default(),
        }
    }
}
