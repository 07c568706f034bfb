//! The members of an object, collected without an allocation.

use crate::object::json::Span;

pub(super) type TopMembers<'a> = MemberSpans<'a, 16>;
pub(super) type MetadataMembers<'a> = MemberSpans<'a, 24>;

/// The members of one object in document order: their names and the ranges of their values.
pub(super) struct MemberSpans<'a, const N: usize> {
    members: [(&'a str, Span); N],
    len: usize,
}

impl<'a, const N: usize> MemberSpans<'a, N> {
    pub(super) fn new() -> Self {
        Self { members: [("", Span::default()); N], len: 0 }
    }

    pub(super) fn all(&self) -> &[(&'a str, Span)] {
        &self.members[..self.len]
    }

    /// Adds a member. Gives up on a duplicate name, and if there are more than `N` members.
    pub(super) fn push(&mut self, name: &'a str, value: Span) -> Option<()> {
        if self.all().iter().any(|(known, _)| *known == name) {
            return None;
        }
        *self.members.get_mut(self.len)? = (name, value);
        self.len += 1;
        Some(())
    }

    pub(super) fn get(&self, name: &str) -> Option<Span> {
        self.all().iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}
