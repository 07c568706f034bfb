//! JSON text without a tree: validating it ([`scan`]), skipping values of validated text ([`skip`]), validating it by comparison with
//! text that was validated before ([`validate_against`] and [`resync`]), and the members of an object as raw text ([`members`]).

pub(crate) mod members;
pub(crate) mod resync;
pub(crate) mod scan;
pub(crate) mod skip;
pub(crate) mod validate_against;

use std::ops::Range;

/// A range of bytes in an object's text. The default is the empty range at 0.
#[derive(Clone, Copy, Default)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// Returns the range of `part`, which must be a slice of `whole`.
    pub(crate) fn of_slice(whole: &str, part: &str) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        debug_assert!(start + part.len() <= whole.len(), "not a slice of the text");
        // `parse` refuses texts of 4 GiB and more.
        Self {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            len: u32::try_from(part.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the range from `start` to `end`.
    pub(crate) fn of_range(start: usize, end: usize) -> Self {
        // As above.
        Self {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            len: u32::try_from(end - start).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn len(self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) fn end(self) -> usize {
        (self.start + self.len) as usize
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start()..self.end()
    }

    /// Returns the range between the quotes of a string.
    pub(crate) fn without_quotes(self) -> Self {
        Self { start: self.start + 1, len: self.len - 2 }
    }

    /// Returns the range of a string from the range between its quotes.
    pub(crate) fn with_quotes(self) -> Self {
        Self { start: self.start - 1, len: self.len + 2 }
    }

    /// Returns this range after the text of `from`, which contains it, was copied to `to`.
    pub(crate) fn moved(self, from: Self, to: Self) -> Self {
        Self { start: self.start - from.start + to.start, len: self.len }
    }

    /// Returns the text of this range; `None` if `whole` is too short, or the range splits a character.
    pub(crate) fn get(self, whole: &str) -> Option<&str> {
        whole.get(self.start as usize..self.end())
    }

    /// Returns the text of this range.
    pub(crate) fn of(self, whole: &str) -> &str {
        &whole[self.start as usize..(self.start + self.len) as usize]
    }
}
