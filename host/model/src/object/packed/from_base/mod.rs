//! The text of an object as copies of another object's text, its base, with text of its own between them. Git stores objects in packs in
//! the same way.
//!
//! Objects of one owner are mostly made from one template, so most of their text is the same. A part of the text that lies within one
//! copy, or between two, is returned without writing the whole text. Most parts of the metadata do.

use std::ops::Range;

use crate::object::Object;
use crate::object::prefetch::prefetch_bytes;

/// The longest text of a base, in bytes.
const MAX_BASE_BYTES: usize = MAX_NUMBER as usize;
/// The largest number in a piece: 14 bits.
const MAX_NUMBER: u16 = (1 << 14) - 1;
/// The bytes that a piece takes.
const PIECE_BYTES: usize = 6;
/// A shorter copy would save less than describing it takes, with the time to make it.
pub(in crate::object) const MIN_COPY: usize = 24;
/// The most pieces. Reading a text takes a few nanoseconds for each.
const MAX_PIECES: usize = 64;
/// The fewest bytes that are saved. A text that saves fewer is stored as it is.
const MIN_SAVED: usize = 384;
/// How many more bytes a text may take than when it was last compared with the whole base, before it is compared again.
const MAX_GROWTH: usize = 512;
/// The most versions after which a text is compared again, because what has become equal to the base is not noticed otherwise.
const MAX_AGE: u8 = 32;

/// A part of a text: a copy of the base's, and text of its own after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    /// Where the copied part starts in the base's text.
    start: u16,
    len: u16,
    /// The length of the own text that follows.
    own: u16,
}

impl Piece {
    /// Returns the range of the copied part.
    fn copied(self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.start) + usize::from(self.len)
    }

    /// Returns the numbers in 7 bits of two bytes each, which are valid UTF-8.
    fn bytes(self) -> [u8; PIECE_BYTES] {
        let [start, len, own] = [self.start, self.len, self.own]
            .map(|number| (number & 0x7f | (number & 0x3f80) << 1).to_le_bytes());
        [start[0], start[1], len[0], len[1], own[0], own[1]]
    }

    fn read([a, b, c, d, e, f]: [u8; PIECE_BYTES]) -> Self {
        let number = |bytes| {
            let both = u16::from_le_bytes(bytes);
            both & 0x7f | both >> 1 & 0x3f80
        };
        Self { start: number([a, b]), len: number([c, d]), own: number([e, f]) }
    }
}

/// What takes the place of a part of a known text: the ranges in both texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::object) struct Replacement {
    pub(in crate::object) known: Range<usize>,
    pub(in crate::object) new: Range<usize>,
}

/// How a text is made from that of a base.
#[derive(Clone, Debug)]
pub(in crate::object) struct Recipe {
    pieces: Vec<Piece>,
    /// The length of all own parts.
    own: usize,
    /// The [`size`](Self::size) when the text was last compared with the whole base.
    compared: usize,
    /// The number of versions since then.
    age: u8,
}

/// The text of one object.
pub(super) struct FromBase {
    /// The pieces, then the own parts. One allocation for both, because each event makes a new one.
    own: Box<str>,
    layout: Layout,
}

/// Where a part of the text is.
enum Place {
    InBase(Range<usize>),
    Own(Range<usize>),
}

/// How the text of one object is made from the text of its own and from the base.
#[derive(Clone)]
pub(super) struct Layout {
    base: Object,
    /// The offsets of the UID and of the resource version in the text of its own; 0 if they have not been noted.
    uid_at: u16,
    version_at: u16,
    pieces: u8,
    /// The length of the whole text.
    len: u32,
    compared: u32,
    age: u8,
}

impl Recipe {
    /// Returns the recipe of a base's text with these replacements.
    pub(in crate::object) fn of_base(
        base: &Object,
        replacements: impl Iterator<Item = Replacement>,
    ) -> Option<Self> {
        let len = base.json().len();
        if len > MAX_BASE_BYTES {
            return None;
        }
        let whole = [Piece { start: 0, len: u16::try_from(len).ok()?, own: 0 }];
        let mut recipe = Self::replace(whole.into_iter(), replacements)?;
        recipe.compared = recipe.size();
        Some(recipe)
    }

    /// Returns the recipe of a text with these replacements.
    fn replace(
        known: impl ExactSizeIterator<Item = Piece>,
        replacements: impl Iterator<Item = Replacement>,
    ) -> Option<Self> {
        let pieces = Vec::with_capacity(known.len() + replacements.size_hint().0);
        let mut recipe = Self { pieces, own: 0, compared: 0, age: 0 };
        let mut rest = Rest { pieces: known, current: Piece::default() };
        let mut at = 0;
        for Replacement { known, new } in replacements {
            rest.take(known.start.checked_sub(at)?, |piece| recipe.push(piece))?;
            rest.take(known.len(), |_| Some(()))?;
            recipe.push(Piece { start: 0, len: 0, own: own_len(new.len())? })?;
            at = known.end;
        }
        rest.take(usize::MAX, |piece| recipe.push(piece))?;
        Some(recipe)
    }

    /// Adds a piece. Gives up if there are too many.
    fn push(&mut self, Piece { mut start, mut len, mut own }: Piece) -> Option<()> {
        let last = self.pieces.last().copied();
        let continues = last.is_some_and(|last| last.own == 0 && last.start + last.len == start);
        if !continues && usize::from(len) < MIN_COPY {
            own = own_len(usize::from(own + len))?;
            (start, len) = (0, 0);
        }
        self.own += usize::from(own);
        let is_full = self.pieces.len() == MAX_PIECES;
        match self.pieces.last_mut() {
            _ if len == 0 && own == 0 => {}
            Some(last) if continues || len == 0 => {
                last.len += len;
                last.own = own_len(usize::from(last.own + own))?;
            }
            _ if is_full => return None,
            _ => self.pieces.push(Piece { start, len, own }),
        }
        Some(())
    }

    /// Returns the bytes that a text made by this recipe takes.
    fn size(&self) -> usize {
        self.own + self.pieces.len() * PIECE_BYTES
    }

    /// Returns whether comparing the text with the whole base again may be worth its time.
    pub(in crate::object) fn is_outdated(&self) -> bool {
        self.size() > self.compared + MAX_GROWTH || self.age >= MAX_AGE
    }

    /// Returns whether a text of this length becomes enough smaller.
    pub(in crate::object) fn is_smaller(&self, len: usize) -> bool {
        self.size() + MIN_SAVED <= len
    }
}

/// The rest of a text that is given in parts.
struct TextParts<'t> {
    current: &'t str,
    others: std::slice::Iter<'t, &'t str>,
}

impl<'t> TextParts<'t> {
    /// Takes the next `len` bytes, in parts. `None` if there are fewer, or if a character would be split.
    fn take(&mut self, mut len: usize, mut take: impl FnMut(&'t str)) -> Option<()> {
        loop {
            if let Some((part, rest)) = self.current.split_at_checked(len) {
                take(part);
                self.current = rest;
                return Some(());
            }
            len = len.checked_sub(self.current.len())?;
            take(self.current);
            self.current = self.others.next()?;
        }
    }
}

/// Returns the length of an own part; `None` if it is too long.
fn own_len(len: usize) -> Option<u16> {
    u16::try_from(len).ok().filter(|len| *len <= MAX_NUMBER)
}

/// What has not been taken from a sequence of pieces.
struct Rest<I> {
    pieces: I,
    /// The rest of the piece that was partly taken.
    current: Piece,
}

impl<I: Iterator<Item = Piece>> Rest<I> {
    /// Takes the next `len` bytes of the text, or all that is left.
    fn take(&mut self, mut len: usize, mut take: impl FnMut(Piece) -> Option<()>) -> Option<()> {
        while len > 0 {
            if self.current.len == 0 && self.current.own == 0 {
                let Some(next) = self.pieces.next() else { break };
                self.current = next;
            }
            let Piece { start, len: copied, own } = self.current;
            let copy = copied.min(u16::try_from(len).unwrap_or(u16::MAX));
            len -= usize::from(copy);
            let taken_own = if copy == copied { own.min(u16::try_from(len).unwrap_or(u16::MAX)) } else { 0 };
            len -= usize::from(taken_own);
            self.current =
                Piece { start: start.wrapping_add(copy), len: copied - copy, own: own - taken_own };
            take(Piece { start, len: copy, own: taken_own })?;
        }
        Some(())
    }
}

impl FromBase {
    /// Creates the text that is given in parts, which `recipe` makes from that of `base`.
    ///
    /// Returns `None` if a piece would split a character.
    pub(super) fn new(base: Object, recipe: &Recipe, text: &[&str]) -> Option<Self> {
        let base_text = base.json();
        let mut own = String::with_capacity(recipe.size());
        let mut pieces = [[0; PIECE_BYTES]; MAX_PIECES];
        let pieces = pieces.get_mut(..recipe.pieces.len())?;
        pieces.iter_mut().zip(&recipe.pieces).for_each(|(bytes, piece)| *bytes = piece.bytes());
        own.push_str(simdutf8::basic::from_utf8(pieces.as_flattened()).ok()?);
        let mut len = 0;
        let mut text = TextParts { current: "", others: text.iter() };
        for piece in &recipe.pieces {
            base_text.get(piece.copied())?;
            text.take(piece.len.into(), |_| {})?;
            text.take(piece.own.into(), |part| own.push_str(part))?;
            len += usize::from(piece.len) + usize::from(piece.own);
        }
        let layout = Layout {
            uid_at: 0,
            version_at: 0,
            pieces: u8::try_from(pieces.len()).ok()?,
            len: u32::try_from(len).ok()?,
            compared: u32::try_from(recipe.compared).ok()?,
            age: recipe.age,
            base,
        };
        Some(Self { own: own.into_boxed_str(), layout })
    }

    pub(super) fn base(&self) -> &Object {
        &self.layout.base
    }

    /// Returns the text of its own, without which [`Layout::text`] cannot make the text.
    pub(super) fn own(&self) -> &str {
        &self.own
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns a part of the text. `None` if neither the base nor the text of its own contains it as a whole.
    pub(super) fn part(&self, range: Range<usize>) -> Option<&str> {
        match self.place(range)? {
            Place::InBase(range) => self.layout.base.json().get(range),
            Place::Own(range) => self.own.get(range),
        }
    }

    /// Notes where the UID and the resource version are stored, given their ranges in the text. `None` if one of them is in several
    /// pieces.
    pub(super) fn note_identity(&mut self, uid: Range<usize>, version: Range<usize>) -> Option<()> {
        let own_start = |place: &Place| match place {
            Place::InBase(_) => 0,
            Place::Own(range) => u16::try_from(range.start).unwrap_or(0),
        };
        let (uid, version) = (self.place(uid)?, self.place(version)?);
        (self.layout.uid_at, self.layout.version_at) = (own_start(&uid), own_start(&version));
        Some(())
    }

    /// Returns the UID, which is at this range of the text. Each event reads it, so this is faster than [`part`](Self::part).
    pub(super) fn uid(&self, range: Range<usize>) -> Option<&str> {
        self.noted_part(self.layout.uid_at, range)
    }

    /// As [`uid`](Self::uid), for the resource version.
    pub(super) fn resource_version(&self, range: Range<usize>) -> Option<&str> {
        self.noted_part(self.layout.version_at, range)
    }

    fn noted_part(&self, own_start: u16, range: Range<usize>) -> Option<&str> {
        match usize::from(own_start) {
            0 => self.part(range),
            start => self.own.get(start..start + range.len()),
        }
    }

    /// Returns where a part of the text is; `None` if it is not in one place.
    fn place(&self, range: Range<usize>) -> Option<Place> {
        if range.is_empty() {
            return Some(Place::Own(0..0));
        }
        let (mut at, mut own_at) = (0, self.layout.own_at());
        for Piece { start, len, own } in self.layout.pieces(&self.own) {
            let copied_end = at + usize::from(len);
            let end = copied_end + usize::from(own);
            if range.start < copied_end {
                let start = usize::from(start) + range.start - at;
                return (range.end <= copied_end).then(|| Place::InBase(start..start + range.len()));
            }
            if range.start < end {
                let start = own_at + range.start - copied_end;
                return (range.end <= end).then(|| Place::Own(start..start + range.len()));
            }
            (at, own_at) = (end, own_at + usize::from(own));
        }
        None
    }

    /// Returns the recipe of this text with these replacements.
    pub(super) fn replace(&self, replacements: impl Iterator<Item = Replacement>) -> Option<Recipe> {
        let mut recipe = Recipe::replace(self.layout.pieces(&self.own), replacements)?;
        recipe.compared = self.layout.compared as usize;
        recipe.age = self.layout.age.saturating_add(1);
        Some(recipe)
    }

    /// Writes the whole text.
    pub(super) fn text(&self) -> Option<String> {
        self.layout.text(&self.own)
    }

    /// Prefetches what [`text`](Self::text) needs.
    pub(super) fn prefetch(&self) {
        prefetch_bytes(self.own.as_bytes());
        self.layout.base.prefetch_text();
    }
}

impl Layout {
    /// Returns the length of the whole text.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns where the own parts start, after the pieces.
    fn own_at(&self) -> usize {
        usize::from(self.pieces) * PIECE_BYTES
    }

    fn pieces(&self, own: &str) -> impl ExactSizeIterator<Item = Piece> {
        let (pieces, _) = own.as_bytes().get(..self.own_at()).unwrap_or_default().as_chunks();
        pieces.iter().map(|piece| Piece::read(*piece))
    }

    /// Writes the whole text from the text of its own; `None` if `own` is not that text.
    pub(super) fn text(&self, own: &str) -> Option<String> {
        let base = self.base.json();
        let mut text = String::with_capacity(self.len());
        let mut rest = own.get(self.own_at()..)?;
        for piece in self.pieces(own) {
            text.push_str(base.get(piece.copied())?);
            let (part, others) = rest.split_at_checked(piece.own.into())?;
            text.push_str(part);
            rest = others;
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests;
