//! The text of an object as copies of another object's text, its base, with text of its own between them. Git stores objects in packs in
//! the same way.
//!
//! Objects of one owner are mostly made from one template, so most of their members after the metadata are the same. The text up to the end
//! of the metadata is always the object's own, so reading the metadata needs no copying.

use std::ops::Range;

use crate::object::Object;
use crate::object::prefetch::prefetch_bytes;

/// The longest members of a base, in bytes.
const MAX_BASE_BYTES: usize = MAX_NUMBER as usize;
/// The largest number in a piece: 14 bits.
const MAX_NUMBER: u16 = (1 << 14) - 1;
/// The bytes that a piece takes.
const PIECE_BYTES: usize = 6;
/// A shorter copy would save less than describing it takes, with the time to make it.
const MIN_COPY: usize = 24;
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
    /// Where the copied part starts, from the end of the base's metadata.
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
            .map(|number| [(number >> 7).to_le_bytes()[0], (number & 0x7f).to_le_bytes()[0]]);
        [start[0], start[1], len[0], len[1], own[0], own[1]]
    }

    fn read(bytes: [u8; PIECE_BYTES]) -> Self {
        let [start, len, own] = [0, 2, 4].map(|at| u16::from(bytes[at]) << 7 | u16::from(bytes[at + 1]));
        Self { start, len, own }
    }
}

/// What takes the place of a part of a known text: both ranges, each from the end of the metadata.
#[derive(Clone, Debug)]
pub(in crate::object) struct Replacement {
    pub(in crate::object) known: Range<usize>,
    pub(in crate::object) new: Range<usize>,
}

/// How the members after the metadata of a text are made from those of a base.
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
    /// The text up to the end of the metadata, then the own parts of the members after it, then the pieces. One allocation for all, because
    /// each event makes a new one.
    own: Box<str>,
    layout: Layout,
}

/// How the text of one object is made from the text of its own and from the base.
#[derive(Clone)]
pub(super) struct Layout {
    base: Object,
    head_len: u32,
    /// Where the pieces start.
    pieces_at: u32,
    /// The length of the whole text.
    len: u32,
    compared: u32,
    age: u8,
}

impl Recipe {
    /// Returns the recipe of the members of a base with these replacements.
    pub(in crate::object) fn of_base(base: &Object, replacements: &[Replacement]) -> Option<Self> {
        let len = base.text_after_metadata().len();
        if len > MAX_BASE_BYTES {
            return None;
        }
        let whole = [Piece { start: 0, len: u16::try_from(len).ok()?, own: 0 }];
        let mut recipe = Self::replace(whole.into_iter(), replacements)?;
        recipe.compared = recipe.size();
        Some(recipe)
    }

    /// Returns the recipe of the members of a text with these replacements.
    fn replace(known: impl ExactSizeIterator<Item = Piece>, replacements: &[Replacement]) -> Option<Self> {
        let pieces = Vec::with_capacity(known.len() + replacements.len());
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

    /// Returns the bytes that members made by this recipe take.
    fn size(&self) -> usize {
        self.own + self.pieces.len() * PIECE_BYTES
    }

    /// Returns whether comparing the text with the whole base again may be worth its time.
    pub(in crate::object) fn is_outdated(&self) -> bool {
        self.size() > self.compared + MAX_GROWTH || self.age >= MAX_AGE
    }

    /// Returns whether a text with members of this length becomes enough smaller.
    pub(in crate::object) fn is_smaller(&self, len: usize) -> bool {
        self.size() + MIN_SAVED <= len
    }

    /// Returns the own parts of the members `tail`.
    pub(in crate::object) fn own_parts<'a>(&self, tail: &'a str) -> impl Iterator<Item = Option<&'a str>> {
        let mut at = 0;
        self.pieces.iter().map(move |piece| {
            let start = at + usize::from(piece.len);
            at = start + usize::from(piece.own);
            tail.get(start..at)
        })
    }

    /// Returns the length of all own parts and of the pieces.
    pub(in crate::object) fn len(&self) -> usize {
        self.size()
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
    /// Creates the text of a head, the members that `recipe` makes, and a closing bracket: `len` bytes. `own` is the head, of `head_len`
    /// bytes, with the recipe's own parts after it.
    ///
    /// Returns `None` if a copy would split a character of the base.
    pub(super) fn new(
        base: Object,
        mut own: String,
        head_len: usize,
        len: usize,
        recipe: &Recipe,
    ) -> Option<Self> {
        let members = base.text_after_metadata();
        let is_whole = |piece: &Piece| members.get(piece.copied()).is_some();
        recipe.pieces.iter().all(is_whole).then_some(())?;
        let pieces_at = u32::try_from(own.len()).ok()?;
        let mut pieces = [[0; PIECE_BYTES]; MAX_PIECES];
        let pieces = pieces.get_mut(..recipe.pieces.len())?;
        pieces.iter_mut().zip(&recipe.pieces).for_each(|(bytes, piece)| *bytes = piece.bytes());
        own.push_str(simdutf8::basic::from_utf8(pieces.as_flattened()).ok()?);
        let layout = Layout {
            head_len: u32::try_from(head_len).ok()?,
            pieces_at,
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

    /// Returns the text up to the end of the metadata.
    pub(super) fn head(&self) -> &str {
        &self.own[..self.layout.head_len as usize]
    }

    /// Returns the recipe of this text with these replacements.
    pub(super) fn replace(&self, replacements: &[Replacement]) -> Option<Recipe> {
        let mut recipe = Recipe::replace(self.layout.pieces(&self.own), replacements)?;
        recipe.compared = self.layout.compared as usize;
        recipe.age = self.layout.age.saturating_add(1);
        Some(recipe)
    }

    /// Writes the whole text.
    pub(super) fn text(&self) -> Option<String> {
        // The pieces are at the end: without this, three reads would wait for memory one after another.
        prefetch_bytes(self.own.as_bytes());
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

    fn pieces(&self, own: &str) -> impl ExactSizeIterator<Item = Piece> {
        let (pieces, _) = own.as_bytes().get(self.pieces_at as usize..).unwrap_or_default().as_chunks();
        pieces.iter().map(|piece| Piece::read(*piece))
    }

    /// Writes the whole text from the text of its own; `None` if `own` is not that text.
    pub(super) fn text(&self, own: &str) -> Option<String> {
        let base = self.base.text_after_metadata();
        let mut text = String::with_capacity(self.len());
        let mut own_at = self.head_len as usize;
        text.push_str(own.get(..own_at)?);
        for piece in self.pieces(own) {
            text.push_str(base.get(piece.copied())?);
            let own_end = own_at + usize::from(piece.own);
            text.push_str(own.get(own_at..own_end)?);
            own_at = own_end;
        }
        text.push('}');
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base(letters: usize) -> Object {
        let letters: String = ('a'..='z').cycle().take(letters).collect();
        Object::from_json(format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"base"}},"spec":"{letters}"}}"#
        ))
        .expect("an object")
    }

    /// Returns the members with these replacements, and the replacements with their ranges.
    fn edit(known: &str, edits: &[(usize, usize, String)]) -> (String, Vec<Replacement>) {
        let (mut new, mut replacements, mut at) = (String::new(), Vec::new(), 0);
        for (skipped, removed, inserted) in edits {
            let start = (at + skipped).min(known.len());
            let end = (start + removed).min(known.len());
            new.push_str(&known[at..start]);
            replacements.push(Replacement { known: start..end, new: new.len()..new.len() + inserted.len() });
            new.push_str(inserted);
            at = end;
        }
        new.push_str(&known[at..]);
        (new, replacements)
    }

    fn from_base(base: &Object, head: &str, tail: &str, recipe: &Recipe) -> FromBase {
        let mut own = head.to_owned();
        recipe.own_parts(tail).for_each(|part| own.push_str(part.expect("a part")));
        assert_eq!(own.len(), head.len() + recipe.own);
        FromBase::new(base.clone(), own, head.len(), head.len() + tail.len() + 1, recipe)
            .expect("whole characters")
    }

    fn edits() -> impl Strategy<Value = Vec<(usize, usize, String)>> {
        prop::collection::vec((0..200_usize, 0..60_usize, "[0-9]{0,40}"), 0..8)
    }

    proptest! {
        /// After any sequence of edits, the text is what the edits make of it.
        #[test]
        fn edited_texts_are_those_of_their_edits(letters in 100..2_000_usize, versions in prop::collection::vec(edits(), 1..6)) {
            let base = base(letters);
            let mut tail = base.text_after_metadata().to_owned();
            let mut stored: Option<FromBase> = None;
            for (version, edits) in versions.iter().enumerate() {
                let (new, replacements) = edit(&tail, edits);
                let recipe = match &stored {
                    None => Recipe::of_base(&base, &replacements),
                    Some(stored) => stored.replace(&replacements),
                };
                let recipe = recipe.expect("few pieces");
                prop_assert!(recipe.pieces.iter().all(|piece| piece.len == 0 || usize::from(piece.len) >= MIN_COPY));
                let head = format!("{{{version}");
                let text = from_base(&base, &head, &new, &recipe);
                prop_assert_eq!(text.text(), Some(format!("{head}{new}}}")));
                prop_assert_eq!(text.head(), &head);
                prop_assert_eq!(text.layout().len(), head.len() + new.len() + 1);
                stored = Some(text);
                tail = new;
            }
        }
    }

    #[test]
    fn a_copy_that_was_cut_short_becomes_own_text() {
        let base = base(300);
        let tail = base.text_after_metadata();
        let (new, replacements) = edit(tail, &[(100, 1, "1".into()), (MIN_COPY - 1, 1, "2".into())]);
        let recipe = Recipe::of_base(&base, &replacements).expect("few pieces");
        assert_eq!(recipe.pieces.len(), 2, "{recipe:?}");
        assert_eq!(recipe.own, MIN_COPY + 1);
        assert_eq!(from_base(&base, "{", &new, &recipe).text(), Some(format!("{{{new}}}")));
    }

    #[test]
    fn there_are_not_more_pieces_than_the_limit() {
        let base = base(10_000);
        let edits = |count| edit(base.text_after_metadata(), &vec![(50, 1, "1".to_owned()); count]).1;
        assert!(Recipe::of_base(&base, &edits(MAX_PIECES - 1)).is_some());
        assert!(Recipe::of_base(&base, &edits(MAX_PIECES)).is_none());
    }

    #[test]
    fn a_base_beyond_the_limit_has_no_recipe() {
        assert!(Recipe::of_base(&base(MAX_BASE_BYTES - 20), &[]).is_some());
        assert!(Recipe::of_base(&base(MAX_BASE_BYTES + 1), &[]).is_none());
    }
}
