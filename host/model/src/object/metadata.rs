//! What is read from `metadata` once, as places in the object's own text.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use serde::Deserialize;

use super::members::{self, Members};
use super::parse::ObjectError;
use super::pointer;
use crate::ObjectKey;

/// An owner of an object, as in `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's `apiVersion`.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's UID.
    pub uid: String,
    /// Whether this owner is the controlling one.
    #[serde(default)]
    pub controller: bool,
}

impl OwnerReference {
    /// The API group of the owner, "" for core.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// A place in the object's text. The default is the empty text at 0.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

/// A string: almost always a place in the text, its own copy only if the JSON had escapes.
#[derive(Clone)]
pub(super) enum Text {
    Inside(Span),
    Escaped(Box<str>),
}

/// A map of strings, kept as the place of its raw text and read when asked.
#[derive(Clone, Copy, Default)]
pub(super) struct Pairs(Span);

#[derive(Clone)]
pub(super) struct Metadata {
    pub(super) key: ObjectKey,
    pub(super) api_version: Text,
    pub(super) kind: Text,
    pub(super) uid: Text,
    pub(super) resource_version: Text,
    pub(super) deletion_timestamp: Text,
    pub(super) generation: u64,
    /// Where its number is; 0 when there is none.
    pub(super) generation_at: u32,
    pub(super) labels: Pairs,
    pub(super) annotations: Pairs,
    pub(super) owners: Span,
    /// All members behind the metadata, each with a comma before it.
    pub(super) behind: Span,
    pub(super) farthest: Farthest,
}

/// How far readers went in what is behind the metadata: the next one need not go past all that is before. Hints: as good as none for who
/// sees an old one.
#[derive(Default)]
pub(super) struct Farthest {
    /// Where the farthest value at the top is, of which a reader wanted something.
    value: AtomicU32,
    /// The member of a value at the top that was found behind the most text of that value: where that value is, and where the member's is.
    /// One number, so that they belong together.
    member: AtomicU64,
}

impl Clone for Farthest {
    fn clone(&self) -> Self {
        Self {
            value: AtomicU32::new(self.value.load(Ordering::Relaxed)),
            member: AtomicU64::new(self.member.load(Ordering::Relaxed)),
        }
    }
}

impl Farthest {
    /// Where the value of the member with this name is, if that is the one.
    pub(super) fn value_of(&self, name: &str, json: &str) -> Option<usize> {
        let start = self.value.load(Ordering::Relaxed) as usize;
        is_named(json, start, name).then_some(start)
    }

    /// The value of a member whose name has neither quotes nor escapes is there.
    pub(super) fn note(&self, start: usize) {
        if let Ok(start) = u32::try_from(start)
            && start > self.value.load(Ordering::Relaxed)
        {
            self.value.store(start, Ordering::Relaxed);
        }
    }

    /// Where the value of this member of this member of the top is, if that is the one.
    pub(super) fn member_of(&self, top: &str, name: &str, json: &str) -> Option<usize> {
        let (start, member) = self.member();
        (is_named(json, member, name) && is_named(json, start, top)).then_some(member)
    }

    /// The object at `start`, at the top, has the value of a member at `member`. Neither name has quotes or escapes.
    ///
    /// Of two members the one is worth more that is farther from its object's start: `/status/phase`, mostly the first of its object, must
    /// not take the place of `/spec/nodeName`, which is behind all containers.
    pub(super) fn note_member(&self, start: usize, member: usize) {
        let (known_start, known_member) = self.member();
        if member - start > known_member - known_start
            && let (Ok(start), Ok(member)) = (u32::try_from(start), u32::try_from(member))
        {
            self.member.store(u64::from(start) << 32 | u64::from(member), Ordering::Relaxed);
        }
    }

    /// All places: that of the value at the top, and of the member its object's and its own. 0 where there is none.
    pub(super) fn places(&self) -> [usize; 3] {
        let (start, member) = self.member();
        [self.value.load(Ordering::Relaxed) as usize, start, member]
    }

    /// What [`places`](Self::places) gives; those that were read in another text must have been moved to this one.
    pub(super) fn at([value, start, member]: [usize; 3]) -> Self {
        let (hints, none) = (Self::default(), [0, 0]);
        hints.note(value);
        if [start, member] != none {
            hints.note_member(start, member);
        }
        hints
    }

    /// Where the object at the top is of which a member was found, and where that one's value is; 0 for none.
    pub(super) fn member(&self) -> (usize, usize) {
        let both = self.member.load(Ordering::Relaxed);
        ((both >> 32) as usize, (both & u64::from(u32::MAX)) as usize)
    }
}

/// Whether a value is that of a member with this name, where that member's name has neither quotes nor escapes: so it can be read backwards,
/// up to its quote.
fn is_named(json: &str, value: usize, name: &str) -> bool {
    let (json, name) = (json.as_bytes(), name.as_bytes());
    // Its quotes and the colon.
    let Some(start) = value.checked_sub(name.len() + 3) else { return false };
    match json.get(start..value) {
        Some([b'"', known @ .., b'"', b':']) => known == name && !name.contains(&b'"'),
        _ => false,
    }
}

impl Span {
    /// The place of `part`, which must be a slice of `whole`.
    fn of_slice(whole: &str, part: &str) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        debug_assert!(start + part.len() <= whole.len(), "not a slice of the text");
        // `parse` refuses texts of 4 GiB and more.
        Self {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            len: u32::try_from(part.len()).unwrap_or(u32::MAX),
        }
    }

    /// The place from `start` to `end`.
    pub(super) fn of_range(start: usize, end: usize) -> Self {
        // As above.
        Self {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            len: u32::try_from(end - start).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn len(self) -> usize {
        self.len as usize
    }

    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    pub(super) fn end(self) -> usize {
        (self.start + self.len) as usize
    }

    /// What is between the quotes of a string.
    pub(super) fn inner(self) -> Self {
        Self { start: self.start + 1, len: self.len - 2 }
    }

    /// Where this place is after `from`, which it is inside of, was copied to `to`.
    pub(super) fn moved(self, from: Self, to: Self) -> Self {
        Self { start: self.start - from.start + to.start, len: self.len }
    }

    /// As [`of`](Self::of), of a text that may be another one.
    pub(super) fn get(self, whole: &str) -> Option<&str> {
        whole.get(self.start as usize..self.end())
    }

    pub(super) fn of(self, whole: &str) -> &str {
        &whole[self.start as usize..(self.start + self.len) as usize]
    }
}

impl Text {
    fn read(whole: &str, path: &'static str, raw: Option<&str>) -> Result<Self, ObjectError> {
        let Some(raw) = raw.filter(|raw| *raw != "null") else {
            return Ok(Self::Inside(Span::default()));
        };
        match members::string(raw) {
            Some(Cow::Borrowed(inner)) => Ok(Self::Inside(Span::of_slice(whole, inner))),
            Some(Cow::Owned(text)) => Ok(Self::Escaped(text.into_boxed_str())),
            None => Err(ObjectError::field(path, "a string", raw)),
        }
    }

    /// Where it is in the object's text, if it is there.
    pub(super) fn place(&self) -> Span {
        match self {
            Self::Inside(span) => *span,
            Self::Escaped(_) => Span::default(),
        }
    }

    pub(super) fn of<'a>(&'a self, whole: &'a str) -> &'a str {
        match self {
            Self::Inside(span) => span.of(whole),
            Self::Escaped(text) => text,
        }
    }
}

impl Pairs {
    /// The map whose text, known to be a map of strings, is there.
    pub(super) fn at(place: Span) -> Self {
        Self(place)
    }

    /// Where it is.
    pub(super) fn place(self) -> Span {
        self.0
    }

    fn read(whole: &str, path: &'static str, raw: Option<&str>) -> Result<Self, ObjectError> {
        let Some(raw) = raw.filter(|raw| *raw != "null") else {
            return Ok(Self::default());
        };
        let strings = serde_json::from_str::<Members<'_>>(raw)
            .is_ok_and(|members| members.0.iter().all(|(_, value)| value.starts_with('"')));
        if strings {
            Ok(Self(Span::of_slice(whole, raw)))
        } else {
            Err(ObjectError::field(path, "a map of strings", raw))
        }
    }

    pub(super) fn pairs<'a>(&self, whole: &'a str) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        self.members(whole)
            .into_iter()
            .filter_map(|(key, raw)| members::string(raw).map(|value| (key, value)))
            .collect()
    }

    pub(super) fn value<'a>(&self, whole: &'a str, key: &str) -> Option<Cow<'a, str>> {
        members::string(pointer::member(self.0.of(whole), key)?)
    }

    fn members<'a>(&self, whole: &'a str) -> Vec<(Cow<'a, str>, &'a str)> {
        if self.0.len == 0 {
            return Vec::new();
        }
        serde_json::from_str::<Members<'a>>(self.0.of(whole)).map(|members| members.0).unwrap_or_default()
    }
}

impl Metadata {
    /// Reads the metadata of `json`, whose canonical top level is `top`.
    pub(super) fn read(json: &str, top: &Members<'_>) -> Result<Self, ObjectError> {
        let raw = top.get("metadata").ok_or(ObjectError::NoName)?;
        let members: Members<'_> =
            serde_json::from_str(raw).map_err(|_| ObjectError::field("metadata", "an object", raw))?;
        let name = Text::read(json, "metadata.name", members.get("name"))?;
        let namespace = Text::read(json, "metadata.namespace", members.get("namespace"))?;
        // Whether it must have one is for the caller to say.
        let name = name.of(json);
        let (generation, generation_at) = match members.get("generation") {
            None | Some("null") => (0, 0),
            Some(raw) => {
                let number = raw.parse();
                let number = number
                    .map_err(|_| ObjectError::field("metadata.generation", "a positive integer", raw))?;
                (number, Span::of_slice(json, raw).start)
            }
        };
        let owners = match members.get("ownerReferences") {
            None | Some("null") => Span::default(),
            Some(raw) => {
                serde_json::from_str::<Vec<OwnerReference>>(raw)
                    .map_err(|_| ObjectError::field("metadata.ownerReferences", "a list of owners", raw))?;
                Span::of_slice(json, raw)
            }
        };
        Ok(Self {
            key: ObjectKey::new(namespace.of(json), name),
            api_version: Text::read(json, "apiVersion", top.get("apiVersion"))?,
            kind: Text::read(json, "kind", top.get("kind"))?,
            uid: Text::read(json, "metadata.uid", members.get("uid"))?,
            resource_version: Text::read(json, "metadata.resourceVersion", members.get("resourceVersion"))?,
            deletion_timestamp: Text::read(
                json,
                "metadata.deletionTimestamp",
                members.get("deletionTimestamp"),
            )?,
            generation,
            generation_at,
            labels: Pairs::read(json, "metadata.labels", members.get("labels"))?,
            annotations: Pairs::read(json, "metadata.annotations", members.get("annotations"))?,
            owners,
            behind: Span::of_range(Span::of_slice(json, raw).end(), json.len() - 1),
            farthest: Farthest::default(),
        })
    }

    /// Where the value of one of its members is, for those of which that is known.
    pub(super) fn member(&self, name: &str) -> Option<Span> {
        let text = |text: &Text| match text {
            Text::Inside(inner) if inner.start > 0 => {
                Some(Span { start: inner.start - 1, len: inner.len + 2 })
            }
            _ => None,
        };
        let present = |place: Span| (place.len > 0).then_some(place);
        match name {
            "uid" => text(&self.uid),
            "resourceVersion" => text(&self.resource_version),
            "deletionTimestamp" => text(&self.deletion_timestamp),
            "labels" => present(self.labels.0),
            "annotations" => present(self.annotations.0),
            "ownerReferences" => present(self.owners),
            _ => None,
        }
    }

    pub(super) fn owner_references(&self, json: &str) -> Vec<OwnerReference> {
        if self.owners.len == 0 {
            return Vec::new();
        }
        serde_json::from_str(self.owners.of(json)).unwrap_or_default()
    }
}
