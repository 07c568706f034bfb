//! An object's type and metadata as ranges of its own text, found once when the object is parsed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use serde::Deserialize;

use super::json::Span;
use super::json::members::{self, Members};
use super::parse::ObjectError;
use super::pointer;
use crate::ObjectKey;

/// An owner of an object, as in `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OwnerReference {
    /// The owner's `apiVersion`.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's UID.
    pub uid: String,
    /// Whether this owner is the managing controller.
    #[serde(default)]
    pub controller: bool,
}

impl OwnerReference {
    /// Returns the API group of the owner, "" for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// The value of a string field.
#[derive(Clone)]
pub(super) enum StringField {
    /// The range between the quotes. An absent field is an empty range.
    InText(Span),
    /// The decoded string, if the JSON has escapes.
    Owned(Box<str>),
}

/// A map of strings such as the labels, as the range of its raw text. It is decoded when it is read.
#[derive(Clone, Copy, Default)]
pub(super) struct StringMap(Span);

/// An object's type and metadata.
#[derive(Clone)]
pub(super) struct Metadata {
    pub(super) key: ObjectKey,
    pub(super) api_version: StringField,
    pub(super) kind: StringField,
    pub(super) uid: StringField,
    pub(super) resource_version: StringField,
    pub(super) deletion_timestamp: StringField,
    pub(super) generation: u64,
    /// The offset of the generation's number; 0 if it is absent.
    pub(super) generation_start: u32,
    pub(super) labels: StringMap,
    pub(super) annotations: StringMap,
    /// The raw text of `ownerReferences`; empty if absent.
    pub(super) owner_references: Span,
    /// All top-level members after the metadata, each with a comma before it.
    pub(super) after_metadata: Span,
    pub(super) members: MemberStarts,
    pub(super) hints: FieldHints,
}

/// Where the members after the metadata start, if they are known and few. Such an object was parsed in one pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemberStarts {
    /// The offsets of the commas before the members; 0 for none.
    offsets: [u32; MAX_MEMBER_STARTS],
    /// A bound of the nesting of all values; 0 if nothing is known.
    depth: u32,
}

/// The most members whose starts are kept. Most kinds have `spec` and `status`.
pub(super) const MAX_MEMBER_STARTS: usize = 3;
/// The deepest nesting with which starts are kept. Beyond, the next version is parsed in one pass, which finds the actual nesting.
const MAX_KEPT_DEPTH: u32 = 5_000;

impl MemberStarts {
    /// Returns the starts of no members in an object whose values nest at most `depth` deep.
    pub(super) fn within(depth: u32) -> Self {
        Self { offsets: [0; MAX_MEMBER_STARTS], depth: if depth <= MAX_KEPT_DEPTH { depth } else { 0 } }
    }

    /// Adds the next member. With too many members, no starts are known.
    pub(super) fn push(&mut self, start: usize) {
        if self.depth == 0 {
            return;
        }
        match (self.offsets.iter_mut().find(|offset| **offset == 0), u32::try_from(start)) {
            (Some(offset), Ok(start)) => *offset = start,
            _ => *self = Self::default(),
        }
    }

    /// Returns the starts and the bound of the nesting; `None` if they are not known.
    pub(super) fn known(&self) -> Option<(impl Iterator<Item = usize> + Clone, u32)> {
        let starts = self.offsets.into_iter().take_while(|start| *start != 0).map(|start| start as usize);
        (self.depth != 0).then_some((starts, self.depth))
    }
}

/// Offsets of fields that lookups have found after the metadata, so that the next lookup need not skip all the text before them. A lookup
/// that sees an outdated hint, or none, only takes longer.
#[derive(Default)]
pub(super) struct FieldHints {
    /// The offset of the last top-level value in the text that a lookup has gone to; 0 for none.
    top_level: AtomicU32,
    /// A member of a top-level object: the offset of that object (high half) and of the member's value (low half). Of all members that
    /// lookups have found, it is the one with the most text between those offsets. One atomic, so that both halves belong together.
    nested: AtomicU64,
}

impl Clone for FieldHints {
    fn clone(&self) -> Self {
        Self {
            top_level: AtomicU32::new(self.top_level.load(Ordering::Relaxed)),
            nested: AtomicU64::new(self.nested.load(Ordering::Relaxed)),
        }
    }
}

impl FieldHints {
    /// Returns the offset of the value of the top-level member `name`, if that is the hint.
    pub(super) fn find_top_level(&self, name: &str, json: &str) -> Option<usize> {
        let start = self.top_level.load(Ordering::Relaxed) as usize;
        is_value_of(json, start, name).then_some(start)
    }

    /// Remembers the offset of a top-level value, whose member's name has neither quotes nor escapes.
    pub(super) fn note_top_level(&self, start: usize) {
        if let Ok(start) = u32::try_from(start)
            && start > self.top_level.load(Ordering::Relaxed)
        {
            self.top_level.store(start, Ordering::Relaxed);
        }
    }

    /// Returns the offset of the value of the member `name` of the top-level object `parent`, if that is the hint.
    pub(super) fn find_nested(&self, parent: &str, name: &str, json: &str) -> Option<usize> {
        let (start, member) = self.nested_offsets();
        (is_value_of(json, member, name) && is_value_of(json, start, parent)).then_some(member)
    }

    /// Remembers that the top-level object at `start` has the value of a member at `member`. Neither name has quotes or escapes.
    ///
    /// Of two members, the one that is farther from the start of its object saves more: `/status/phase`, which is mostly the first member
    /// of its object, must not replace `/spec/nodeName`, which comes after all containers.
    pub(super) fn note_nested(&self, start: usize, member: usize) {
        let (known_start, known_member) = self.nested_offsets();
        if member - start > known_member - known_start
            && let (Ok(start), Ok(member)) = (u32::try_from(start), u32::try_from(member))
        {
            self.nested.store(u64::from(start) << 32 | u64::from(member), Ordering::Relaxed);
        }
    }

    /// Returns all offsets: of the top-level value, of the top-level object with the nested member, and of that member's value. 0 for none.
    pub(super) fn offsets(&self) -> [usize; 3] {
        let (start, member) = self.nested_offsets();
        [self.top_level.load(Ordering::Relaxed) as usize, start, member]
    }

    /// Returns the hints for offsets as [`offsets`](Self::offsets) returns them. Offsets from another text must have been adjusted.
    pub(super) fn from_offsets([top_level, start, member]: [usize; 3]) -> Self {
        let (hints, none) = (Self::default(), [0, 0]);
        hints.note_top_level(top_level);
        if [start, member] != none {
            hints.note_nested(start, member);
        }
        hints
    }

    /// Returns the offset of the top-level object with the nested member, and of that member's value; 0 for none.
    pub(super) fn nested_offsets(&self) -> (usize, usize) {
        let both = self.nested.load(Ordering::Relaxed);
        ((both >> 32) as usize, (both & u64::from(u32::MAX)) as usize)
    }
}

/// Returns whether the value at offset `value` belongs to a member called `name`. The name in the text has neither quotes nor escapes, so it
/// can be compared backwards up to its opening quote.
fn is_value_of(json: &str, value: usize, name: &str) -> bool {
    let (json, name) = (json.as_bytes(), name.as_bytes());
    // Two quotes and the colon.
    let Some(start) = value.checked_sub(name.len() + 3) else { return false };
    match json.get(start..value) {
        Some([b'"', known @ .., b'"', b':']) => known == name && !name.contains(&b'"'),
        _ => false,
    }
}

impl StringField {
    fn read(whole: &str, path: &'static str, raw: Option<&str>) -> Result<Self, ObjectError> {
        let Some(raw) = raw.filter(|raw| *raw != "null") else { return Ok(Self::InText(Span::default())) };
        match members::string(raw) {
            Some(Cow::Borrowed(inner)) => Ok(Self::InText(Span::of_slice(whole, inner))),
            Some(Cow::Owned(text)) => Ok(Self::Owned(text.into_boxed_str())),
            None => Err(ObjectError::field(path, "a string", raw)),
        }
    }

    /// Returns the range in the object's text; empty if the string is not there as it is.
    pub(super) fn span(&self) -> Span {
        match self {
            Self::InText(span) => *span,
            Self::Owned(_) => Span::default(),
        }
    }

    /// Returns the string. `whole` is the object's text.
    pub(super) fn of<'a>(&'a self, whole: &'a str) -> &'a str {
        self.in_text(|span| Some(span.of(whole)))
    }

    /// Returns the string. `part` returns a part of the object's text; the string is empty if it returns `None`.
    pub(super) fn in_text<'a>(&'a self, part: impl FnOnce(Span) -> Option<&'a str>) -> &'a str {
        match self {
            Self::InText(span) => part(*span).unwrap_or_default(),
            Self::Owned(text) => text,
        }
    }
}

impl StringMap {
    /// Wraps the range of text that is known to be a map of strings.
    pub(super) fn at(span: Span) -> Self {
        Self(span)
    }

    /// Returns the range of the raw text; empty if the map is absent.
    pub(super) fn span(self) -> Span {
        self.0
    }

    fn read(whole: &str, path: &'static str, raw: Option<&str>) -> Result<Self, ObjectError> {
        let Some(raw) = raw.filter(|raw| *raw != "null") else {
            return Ok(Self::default());
        };
        let is_string_map = serde_json::from_str::<Members<'_>>(raw)
            .is_ok_and(|members| members.0.iter().all(|(_, value)| value.starts_with('"')));
        if is_string_map {
            Ok(Self(Span::of_slice(whole, raw)))
        } else {
            Err(ObjectError::field(path, "a map of strings", raw))
        }
    }

    /// Returns all pairs in document order. `raw` is the text of the map.
    pub(super) fn pairs(raw: &str) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        if raw.is_empty() {
            return Vec::new();
        }
        let members = serde_json::from_str::<Members<'_>>(raw).map(|members| members.0).unwrap_or_default();
        members.into_iter().filter_map(|(key, raw)| members::string(raw).map(|value| (key, value))).collect()
    }

    /// Returns the value of `key`. `raw` is the text of the map.
    pub(super) fn value<'a>(raw: &'a str, key: &str) -> Option<Cow<'a, str>> {
        members::string(pointer::member(raw, key)?)
    }
}

impl Metadata {
    /// Reads the metadata of `json`, whose top-level members are `top`. The name may be empty: the caller decides whether that is an error.
    pub(super) fn read(json: &str, top: &Members<'_>) -> Result<Self, ObjectError> {
        let raw = top.get("metadata").ok_or(ObjectError::NoName)?;
        let members: Members<'_> =
            serde_json::from_str(raw).map_err(|_| ObjectError::field("metadata", "an object", raw))?;
        let name = StringField::read(json, "metadata.name", members.get("name"))?;
        let namespace = StringField::read(json, "metadata.namespace", members.get("namespace"))?;
        let name = name.of(json);
        let (generation, generation_start) = match members.get("generation") {
            None | Some("null") => (0, 0),
            Some(raw) => {
                let number = raw.parse();
                let number = number
                    .map_err(|_| ObjectError::field("metadata.generation", "a positive integer", raw))?;
                (number, u32::try_from(Span::of_slice(json, raw).start()).unwrap_or_default())
            }
        };
        let owner_references = match members.get("ownerReferences") {
            None | Some("null") => Span::default(),
            Some(raw) => {
                serde_json::from_str::<Vec<OwnerReference>>(raw)
                    .map_err(|_| ObjectError::field("metadata.ownerReferences", "a list of owners", raw))?;
                Span::of_slice(json, raw)
            }
        };
        Ok(Self {
            key: ObjectKey::new(namespace.of(json), name),
            api_version: StringField::read(json, "apiVersion", top.get("apiVersion"))?,
            kind: StringField::read(json, "kind", top.get("kind"))?,
            uid: StringField::read(json, "metadata.uid", members.get("uid"))?,
            resource_version: StringField::read(
                json,
                "metadata.resourceVersion",
                members.get("resourceVersion"),
            )?,
            deletion_timestamp: StringField::read(
                json,
                "metadata.deletionTimestamp",
                members.get("deletionTimestamp"),
            )?,
            generation,
            generation_start,
            labels: StringMap::read(json, "metadata.labels", members.get("labels"))?,
            annotations: StringMap::read(json, "metadata.annotations", members.get("annotations"))?,
            owner_references,
            after_metadata: Span::of_range(Span::of_slice(json, raw).end(), json.len() - 1),
            members: MemberStarts::default(),
            hints: FieldHints::default(),
        })
    }

    /// Returns the range of the value of the member `name`; `None` if the member is absent or its range is not kept.
    pub(super) fn member_span(&self, name: &str) -> Option<Span> {
        let string = |field: &StringField| match field {
            StringField::InText(inner) if inner.start() > 0 => Some(inner.with_quotes()),
            _ => None,
        };
        let present = |span: Span| (!span.is_empty()).then_some(span);
        match name {
            "uid" => string(&self.uid),
            "resourceVersion" => string(&self.resource_version),
            "deletionTimestamp" => string(&self.deletion_timestamp),
            "labels" => present(self.labels.0),
            "annotations" => present(self.annotations.0),
            "ownerReferences" => present(self.owner_references),
            _ => None,
        }
    }
}

impl OwnerReference {
    /// Reads the text of `metadata.ownerReferences`; empty if absent.
    pub(super) fn all(raw: &str) -> Vec<Self> {
        if raw.is_empty() { Vec::new() } else { serde_json::from_str(raw).unwrap_or_default() }
    }
}
