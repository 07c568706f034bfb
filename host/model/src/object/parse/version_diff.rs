//! Reading a version of an object by comparing all of it with the version that is known, its metadata included.
//!
//! That the text is well formed, [`follow_with`] tells. The metadata is then that of the known version, its places moved by as much as
//! the scalars in front of them became longer or shorter, as long as each scalar that differs is one that may stand where it does:
//! text for text, a number for the generation. All else is left to `usual`, which reads the metadata member by member. Both must agree:
//! `tests/successor.rs` and `tests/reader.rs` hold them together.

use std::ops::Range;

use super::familiar::{Familiar, Head, Owners, Shapes};
use super::fetch::room;
use super::follow::{Names, follow_with};
use super::metadata::{Farthest, Metadata, Pairs, Span, Text};
use super::parse::ParseOptions;
use super::scan::Cursor;
use super::usual::{Read, plain};
use crate::ObjectKey;

/// How many scalars of the metadata may differ. Most often it is the version alone.
const MOST: usize = 8;
/// The members of the metadata that have a meaning here.
const READ: [&str; 9] = [
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
/// What is dropped.
const MANAGED: &str = ",\"managedFields\":";

/// As [`ObjectReader::first_key`](super::ObjectReader::first_key).
pub(super) fn first_key<'a>(text: &'a str, shapes: &Shapes) -> Option<(&'a str, &'a str)> {
    key(text.strip_prefix(shapes.head()?.source.as_str())?)
}

/// The object that `text` is a version of, if all but some scalars is as in the version that the caller has.
pub(super) fn parse_first(
    text: &str,
    options: &ParseOptions<'_>,
    familiar: &mut Familiar<'_>,
) -> Option<Read> {
    let Compared { members, tail, len, changes, farthest, mut json } = compare(text, options, familiar)?;
    let (key, known) = familiar.take()?;
    let mut metadata = changes.moved(&known.0.metadata, key);
    // Let go of before the text is written: what is counted by several threads waits until all that was written is in the cache.
    drop(known);
    let head = familiar.head()?.canonical.as_str();

    json.reserve_exact(head.len() + members.len() + tail.len() + 2);
    json.push_str(head);
    json.push_str(members);
    json.push('}');
    let behind = json.len();
    json.push_str(tail);
    json.push('}');
    metadata.behind = Span::of_range(behind, json.len() - 1);
    metadata.farthest = farthest.moved_to(behind);
    Some(Read { json: json.into_boxed_str(), metadata, len, unlike: None, head: None })
}

/// The parts of a text that are kept, and how they differ from the known version.
struct Compared<'a> {
    /// Of the metadata, with the bracket in front of them.
    members: &'a str,
    /// Behind the metadata.
    tail: &'a str,
    /// How much of the text the object is.
    len: usize,
    changes: Changes,
    farthest: Places,
    /// Where it is going to be written: nothing yet, and room for as much as the known version has.
    json: String,
}

/// How far readers of the known version went. Behind the metadata, too, both texts have the same members in the same places of the grammar,
/// so the next reader need not go there again.
struct Places {
    known: [usize; 3],
    /// The same in the new text, as if what is behind its metadata began where that of the known one does.
    now: [usize; 3],
    /// Where that is.
    behind: usize,
}

impl Places {
    fn of(known: &Metadata) -> Self {
        let (known, behind) = (known.farthest.places(), known.behind.start());
        Self { known, now: known, behind }
    }

    /// A scalar behind the metadata has become longer, or shorter, or neither.
    fn note(&mut self, known_place: Range<usize>, place: Range<usize>) {
        let end = self.behind + known_place.end;
        for (known, now) in self.known.iter().zip(&mut self.now) {
            if *known >= end {
                *now = *now + place.len() - known_place.len();
            }
        }
    }

    /// Where they are when what is behind the metadata begins there. A place that is none stays one.
    fn moved_to(self, behind: usize) -> Farthest {
        Farthest::at(self.now.map(|place| if place == 0 { 0 } else { place - self.behind + behind }))
    }
}

fn compare<'a>(
    text: &'a str,
    options: &ParseOptions<'_>,
    familiar: &mut Familiar<'_>,
) -> Option<Compared<'a>> {
    let transform = options.transform;
    if transform.drop_last_applied || !transform.keeps_members() || u32::try_from(text.len()).is_err() {
        return None;
    }
    let (start, head) = {
        let Head { source, canonical } = familiar.head()?;
        text.starts_with(source).then_some((source.len(), canonical.len()))?
    };
    let (namespace, name) = key(text.get(start..)?)?;
    familiar.stored(namespace, name)?;
    let (known, shapes) = familiar.all()?;
    let (known_json, known_meta) = (known.json(), &known.0.metadata);
    shapes.is_head_of(known_json).then_some(())?;
    let json = room(known_json.len());

    // Without the bracket at its end: managed fields that are dropped may come before it.
    let known_members = known_json.get(head..known_meta.behind.start() - 1)?;
    let mut changes = Changes::default();
    let len = follow_with(known_members, &text[start..], Names::Same, |known_place, place| {
        let known_place = head + known_place.start..head + known_place.end;
        let value = text.get(start + place.start..start + place.end)?;
        may_be(value, known_place.start, known_json, known_meta).then_some(())?;
        changes.note(
            known_meta,
            Change { start: known_place.start, end: known_place.end, len: value.len() },
            value,
        )
    })?;
    let members = text.get(start..start + len)?;
    let mut cursor = Cursor::new(text);
    cursor.skip(start + len)?;
    if transform.drop_managed_fields && cursor.same(MANAGED).is_some() {
        shapes.managed_fields(&mut cursor, Owners::of(known_meta.owners.of(known_json)))?;
    }
    cursor.same("}")?;
    let mut farthest = Places::of(known_meta);
    let len = follow_with(known.behind_metadata(), cursor.rest(), Names::Same, |known_place, place| {
        farthest.note(known_place, place);
        Some(())
    })?;
    let tail = &cursor.rest()[..len];
    cursor.skip(tail.len())?;
    cursor.same("}")?;
    Some(Compared { members, tail, len: cursor.at(), changes, farthest, json })
}

/// Namespace and name, where the metadata starts with them.
fn key(metadata: &str) -> Option<(&str, &str)> {
    let mut cursor = Cursor::new(metadata);
    cursor.same(r#"{"name":"#)?;
    let name = cursor.plain_string()?;
    if cursor.same(r#","generateName":"#).is_some() {
        cursor.plain_string()?;
    }
    let is_namespaced = cursor.same(r#","namespace":"#).is_some();
    let namespace = if is_namespaced { cursor.plain_string()? } else { "" };
    Some((namespace, name))
}

/// Whether the metadata goes on meaning something when this scalar comes in place of the known one at `place`.
fn may_be(value: &str, place: usize, known: &str, metadata: &Metadata) -> bool {
    let is_in = |span: Span| (span.start()..span.end()).contains(&place);
    let is_text = |text: &Text| matches!(text, Text::Inside(inner) if inner.start() == place + 1);
    if is_in(metadata.labels.place()) || is_in(metadata.annotations.place()) {
        return value.starts_with('"');
    }
    if [&metadata.uid, &metadata.resource_version, &metadata.deletion_timestamp].into_iter().any(is_text) {
        return plain(value).is_some();
    }
    if metadata.generation_at as usize == place {
        return value.parse::<u64>().is_ok();
    }
    !is_in(metadata.owners) && !is_named(&known[..place])
}

/// Whether the value behind `before` is of a member that is read, or may be one. There is a null, or it would have been found before.
fn is_named(before: &str) -> bool {
    match before.strip_suffix("\":") {
        Some(name) => {
            let name = name.rsplit('"').next().unwrap_or_default();
            name.contains('\\') || READ.contains(&name)
        }
        // An element of a list has no name. White space is not known from servers.
        None => !before.ends_with(['[', ',']),
    }
}

/// A scalar of the known text in whose place another one stands, and how long that is.
#[derive(Clone, Copy, Default)]
struct Change {
    start: usize,
    end: usize,
    len: usize,
}

/// In the order of the text.
#[derive(Default)]
struct Changes {
    all: [Change; MOST],
    len: usize,
    /// The new one.
    generation: Option<u64>,
}

impl Changes {
    fn note(&mut self, known: &Metadata, change: Change, value: &str) -> Option<()> {
        if change.start == known.generation_at as usize {
            self.generation = Some(value.parse().ok()?);
        }
        *self.all.get_mut(self.len)? = change;
        self.len += 1;
        Some(())
    }

    fn all(&self) -> &[Change] {
        &self.all[..self.len]
    }

    /// Where a place is now whose changes are those that `is_before` chooses.
    fn shifted(&self, place: usize, is_before: impl Fn(&Change) -> bool) -> usize {
        let before = self.all().iter().filter(|change| is_before(change));
        before.fold(place, |place, change| place + change.len - (change.end - change.start))
    }

    fn span(&self, span: Span) -> Span {
        let start = self.shifted(span.start(), |change| change.end <= span.start());
        // Behind what is in the middle of a string there is a part of it: what is between the quotes.
        Span::of_range(start, self.shifted(span.end(), |change| change.start < span.end()))
    }

    fn text(&self, text: &Text) -> Text {
        match text {
            Text::Inside(span) => Text::Inside(self.span(*span)),
            // It has not changed, or it would have been refused.
            Text::Escaped(text) => Text::Escaped(text.clone()),
        }
    }

    fn moved(&self, known: &Metadata, key: ObjectKey) -> Metadata {
        let generation_at = known.generation_at as usize;
        let generation_at = self.shifted(generation_at, |change| change.end <= generation_at);
        Metadata {
            key,
            api_version: self.text(&known.api_version),
            kind: self.text(&known.kind),
            uid: self.text(&known.uid),
            resource_version: self.text(&known.resource_version),
            deletion_timestamp: self.text(&known.deletion_timestamp),
            generation: self.generation.unwrap_or(known.generation),
            generation_at: u32::try_from(generation_at).unwrap_or_default(),
            labels: Pairs::at(self.span(known.labels.place())),
            annotations: Pairs::at(self.span(known.annotations.place())),
            owners: self.span(known.owners),
            behind: known.behind,
            farthest: Farthest::default(),
        }
    }
}
