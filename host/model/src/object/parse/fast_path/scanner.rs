//! Validates an object and finds its members, in one pass.

use super::super::Transform;
use super::super::reference::{OwnerHash, References};
use super::super::tail::{self, Tail};
use super::members::{MemberSpans, MetadataMembers, TopMembers};
use super::plain_string;
use crate::object::Object;
use crate::object::json::Span;
use crate::object::json::scan::Cursor;
use crate::object::metadata::Metadata;

/// Validates one object and collects its members.
pub(super) struct Scanner<'a, 'f, 'c> {
    pub(super) metadata: MetadataMembers<'a>,
    pub(super) owners: OwnerHash,
    pub(super) transform: &'f Transform,
    pub(super) shares_text: bool,
    pub(super) references: &'f mut References<'c>,
}

/// The top-level members of an object, the range of those that were validated by comparison, and the object's length.
pub(super) type Scanned<'a> = (TopMembers<'a>, Option<(Span, Tail)>, usize);

impl<'a> Scanner<'a, '_, '_> {
    /// Returns the top-level members, the range of those after the metadata if they were validated by comparison (then they are not among
    /// the former), and the object's length.
    pub(super) fn object(&mut self, text: &'a str) -> Option<Scanned<'a>> {
        let mut cursor = Cursor::new(text);
        let mut top = TopMembers::new();
        let mut tail = None;
        cursor.members(|cursor, name| {
            let start = cursor.at();
            if name != "metadata" {
                cursor.value()?;
                return top.push(name, cursor.since(start));
            }
            self.metadata(cursor)?;
            top.push(name, cursor.since(start))?;
            let only_types =
                top.all().iter().all(|(name, _)| matches!(*name, "apiVersion" | "kind" | "metadata"));
            if only_types && self.transform.keeps_all_members() {
                tail = self.tail(cursor);
            }
            Some(())
        })?;
        Some((top, tail, cursor.at()))
    }

    fn metadata(&mut self, cursor: &mut Cursor<'a>) -> Option<()> {
        cursor.members(|cursor, name| {
            let start = cursor.at();
            match name {
                "labels" => {
                    self.same_as_stored(cursor, |known| known.labels.span())
                        .or_else(|| read_string_map(cursor))?;
                }
                "annotations" => {
                    self.same_as_stored(cursor, |known| known.annotations.span())
                        .or_else(|| read_string_map(cursor))?;
                }
                "ownerReferences" => {
                    self.same_as_stored(cursor, |known| known.owner_references)
                        .or_else(|| cursor.elements(read_owner))?;
                    self.owners = OwnerHash::of(cursor.since(start).of(cursor.text()));
                }
                "managedFields" if self.transform.drop_managed_fields => {
                    self.references.read_managed_fields(cursor, self.owners)?;
                }
                _ => cursor.value()?,
            }
            self.metadata.push(name, cursor.since(start))
        })
    }

    /// Reads a value that is the same in the stored version.
    fn same_as_stored(&mut self, cursor: &mut Cursor<'a>, span: impl Fn(&Metadata) -> Span) -> Option<()> {
        let known = self.stored(cursor)?;
        let value = span(known.metadata()).of(known.json());
        // Only such a value ends with its own last byte, whatever follows.
        let is_delimited = value.ends_with(['}', ']']);
        is_delimited.then(|| cursor.literal(value))?
    }

    /// Returns the stored version. Looks it up if that has not been done and the name has been read.
    fn stored(&mut self, cursor: &Cursor<'a>) -> Option<&Object> {
        if self.references.was_looked_up() {
            return self.references.stored();
        }
        let text = |name| self.metadata.get(name).and_then(|raw| plain_string(raw.of(cursor.text())));
        self.references.look_up(text("namespace").unwrap_or_default(), text("name")?)
    }

    /// Reads all members after the metadata by comparing them with a known object. No other member may follow: the names of the compared
    /// members are not collected, so a duplicate of one of them would not be noticed.
    fn tail(&mut self, cursor: &mut Cursor<'a>) -> Option<(Span, Tail)> {
        self.stored(cursor);
        let known = self.references.known(self.owners)?;
        let tail = tail::compare(known, cursor.rest(), self.shares_text)?;
        if cursor.rest().as_bytes().get(tail.len()) != Some(&b'}') {
            return None;
        }
        let start = cursor.at();
        cursor.skip_bytes(tail.len())?;
        Some((cursor.since(start), tail))
    }
}

/// Reads a map of strings without duplicate names.
pub(in crate::object::parse) fn read_string_map(cursor: &mut Cursor<'_>) -> Option<()> {
    let mut names = MemberSpans::<32>::new();
    cursor.members(|cursor, name| {
        names.push(name, Span::default())?;
        cursor.string()
    })
}

/// Reads an owner reference that has each member that [`OwnerReference`](crate::OwnerReference) needs, without duplicates.
fn read_owner(cursor: &mut Cursor<'_>) -> Option<()> {
    let mut members = MemberSpans::<12>::new();
    cursor.members(|cursor, name| {
        members.push(name, Span::default())?;
        match name {
            "apiVersion" | "kind" | "name" | "uid" => cursor.plain_string().map(|_| ()),
            "controller" => cursor.boolean(),
            _ => cursor.value(),
        }
    })?;
    ["apiVersion", "kind", "name", "uid"].iter().all(|name| members.get(name).is_some()).then_some(())
}
