//! Validates JSON text by comparing it with similar text that is known to be well formed.
//!
//! Most versions of an object differ from the previous one in a few numbers and strings. Equal text needs no grammar: as long as both
//! texts are the same, a parser would be in the same state after either. At a difference, a whole scalar (a string, a number, `true`,
//! `false` or `null`) of the new text may replace a whole scalar of the known one, which leaves that state unchanged. The new scalar is
//! validated by the grammar. Other differences (a new member, a value that has become an object) end the comparison, or are left to
//! [`resync`] if the names of members need not be unique.
//!
//! The comparison must never accept text that the parser would refuse. `parse/tests/reader.rs` checks this with damaged text of every
//! kind.

use std::ops::Range;

use wide::u8x16;

use super::resync;
use super::scan::{self, is_whitespace};

/// The most differences. Text with more is parsed, which takes less time then.
const MAX_DIFFERENCES: usize = 256;

/// Which differences are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Whole scalars, but not the names of members. The known names are unique; a new name could repeat another one.
    Scalars,
    /// Any that leave the text well formed. The names of members may repeat, because nothing reads them, or because a parser accepts that.
    All,
}

/// A difference of two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// A scalar was replaced.
    Scalar,
    /// Members or elements were added, removed or renamed, or a value has another kind.
    Structure,
}

/// Returns the length of the prefix of `text` that corresponds to `known` and is well formed; `None` if comparing cannot decide.
///
/// `known` is a well-formed value, or some whole members of an object with a comma before each. `text` starts at the same point of the
/// grammar. For [`Allowed::All`], `known` must be a value. `on_difference` is called with the ranges of each pair of differing parts, in
/// `known` and in `text`, and ends the comparison by returning `None`.
pub(crate) fn validate_against_with(
    known: &str,
    text: &str,
    allowed: Allowed,
    mut on_difference: impl FnMut(Difference, Range<usize>, Range<usize>) -> Option<()>,
) -> Option<usize> {
    let (known, text) = (known.as_bytes(), text.as_bytes());
    let mut at = Offsets { known: 0, text: 0 };
    for _ in 0..MAX_DIFFERENCES {
        let start = at.known;
        let same = common_prefix(&known[at.known..], &text[at.text..]);
        at = at.plus(same);
        if at.known == known.len() {
            return Some(at.text);
        }
        let found = match replaced_string(known, text, start, at) {
            Some((from, ends)) => Found::Scalar(from, ends),
            None => difference(known, text, start, at, allowed)?,
        };
        let (difference, from, to) = match found {
            Found::Scalar(from, ends) => (Difference::Scalar, from, ends),
            Found::Names(from, ends) => {
                (Difference::Structure, from, resync::renamed_member(known, text, from, ends)?)
            }
            Found::Structure(from, to) => (Difference::Structure, from, to),
        };
        on_difference(difference, from.known..to.known, from.text..to.text)?;
        at = to;
    }
    None
}

/// As [`validate_against_with`], without a look at the differences.
#[cfg(test)]
pub(crate) fn validate_against(known: &str, text: &str, allowed: Allowed) -> Option<usize> {
    validate_against_with(known, text, allowed, |_, _, _| Some(()))
}

/// Corresponding offsets in both texts.
#[derive(Clone, Copy)]
pub(super) struct Offsets {
    pub(super) known: usize,
    pub(super) text: usize,
}

impl Offsets {
    fn plus(self, len: usize) -> Self {
        Self { known: self.known + len, text: self.text + len }
    }

    /// Returns the offsets of the byte at `known` in the known text, which is followed by the same text up to here.
    fn back_to(self, known: usize) -> Self {
        Self { known, text: self.text - (self.known - known) }
    }
}

/// What differs.
enum Found {
    /// Scalars, with their starts and ends.
    Scalar(Offsets, Offsets),
    /// The names of members, with their starts and ends.
    Names(Offsets, Offsets),
    /// Text from here to there.
    Structure(Offsets, Offsets),
}

/// The most bytes before and after a difference that [`replaced_string`] looks at.
const NEAR: usize = 2 * scan::BLOCK;

/// Returns the starts and ends of the strings that differ at `at`. The texts are equal between `start`, where the last difference ended, and
/// `at`.
///
/// Most differences are times, addresses and words, so this looks at the [`NEAR`] bytes before and after the difference only, all at once.
/// `None` decides nothing: [`difference`] finds these differences as well.
#[inline]
fn replaced_string(known: &[u8], text: &[u8], start: usize, at: Offsets) -> Option<(Offsets, Offsets)> {
    if at.known == start {
        return None;
    }
    let before = known[..at.known].last_chunk::<NEAR>()?;
    let [quotes, backslashes] = [b'"', b'\\'].map(|byte| positions(before, byte));
    let last = quotes.checked_ilog2()? as usize;
    // The quote is not escaped, and no escape is cut in two by the difference.
    let has_backslash = backslashes >> last.checked_sub(1)? != 0;
    let quote = at.known - NEAR + last;
    // A token or white space follows the end of a string. So this quote starts one.
    let may_close =
        ends_value(*known.get(quote + 1)?) || known[quote + 1] == b':' || is_whitespace(known[quote + 1]);
    if has_backslash || may_close || quote < start {
        return None;
    }
    let ends =
        Offsets { known: end_of_near_string(known, at.known)?, text: end_of_near_string(text, at.text)? };
    // A name ends with a colon, and white space is left to the other function.
    known.get(ends.known).is_some_and(|byte| ends_value(*byte)).then_some((at.back_to(quote), ends))
}

/// Returns whether a value may end before this byte.
fn ends_value(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']')
}

/// Returns the end of the string that contains the byte at `at`, or ends with it; `None` if it is not near or has escapes after `at`.
#[inline(always)]
fn end_of_near_string(text: &[u8], at: usize) -> Option<usize> {
    let near = text.get(at..)?.first_chunk::<NEAR>()?;
    let [first, second] = near.as_chunks::<{ scan::BLOCK }>().0 else { return None };
    let special = scan::special_bytes(first) | scan::special_bytes(second) << scan::BLOCK;
    let len = special.trailing_zeros() as usize;
    (near.get(len) == Some(&b'"')).then_some(at + len + 1)
}

/// Returns a bit mask of the bytes that are `byte`. The lowest bit is the first byte.
#[inline]
fn positions(bytes: &[u8; NEAR], byte: u8) -> u32 {
    let (blocks, byte) = (bytes.as_chunks::<{ scan::BLOCK }>().0, u8x16::splat(byte));
    let mask = |block: [u8; scan::BLOCK]| u8x16::new(block).simd_eq(byte).to_bitmask() & 0xffff;
    mask(blocks[0]) | mask(blocks[1]) << scan::BLOCK
}

/// Returns the difference at `at`. The texts are equal between `start`, where the last difference ended, and `at`.
fn difference(known: &[u8], text: &[u8], start: usize, at: Offsets, allowed: Allowed) -> Option<Found> {
    let structure = |to: Option<Offsets>| Some(Found::Structure(at, to?));
    if allowed == Allowed::All && at.known == start && start > 0 {
        // Each difference ends after a value, or before a name that is the same in both texts.
        return structure(resync::after_value(known, text, at));
    }
    // The previous round has already skipped a scalar that began before `start`, so the difference is after it.
    let scalar = scalar_start(known, at.known).filter(|scalar| *scalar >= start)?;
    let from = at.back_to(scalar);
    if allowed == Allowed::Scalars {
        return Some(Found::Scalar(from, skip_scalars(known, text, from)?));
    }
    let (Some(known_rest), Some(text_rest)) =
        (scan::scalar(&known[from.known..]), scan::scalar(&text[from.text..]))
    else {
        let is_whole = from.known == 0;
        let at_token = from.known == at.known;
        return match (is_whole, at_token) {
            (true, true) => structure(resync::replaced_value(known, text, at)),
            (false, true) => structure(resync::after_token(known, text, at)),
            // Malformed.
            (_, false) => None,
        };
    };
    let ends = Offsets { known: known.len() - known_rest.len(), text: text.len() - text_rest.len() };
    match known_rest.first() {
        Some(b':') if text[from.text] == b'"' => Some(Found::Names(from, ends)),
        // A name that is no string, or white space, after which a name may end.
        Some(b':') => None,
        Some(byte) if is_whitespace(*byte) => None,
        _ => Some(Found::Scalar(from, ends)),
    }
}

/// Returns the start of the scalar that contains the byte at `at` or ends directly before it; `at` if there is none. `None` if that cannot
/// be decided without reading from the start.
fn scalar_start(known: &[u8], at: usize) -> Option<usize> {
    let before = &known[..at];
    if let Some(quote) = last_quote(before) {
        // These may precede an opening quote, and those below may follow a closing quote.
        let may_open = quote == 0
            || matches!(before[quote - 1], b'{' | b'[' | b',' | b':')
            || is_whitespace(before[quote - 1]);
        let next = known.get(quote + 1);
        let may_close =
            next.is_none_or(|byte| matches!(byte, b'}' | b']' | b',' | b':') || is_whitespace(*byte));
        match (may_open, may_close) {
            (true, false) => return Some(quote),
            (false, true) => {}
            // Both are possible, as in `","`.
            _ => return None,
        }
    }
    let of_scalar = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    Some(before.iter().rposition(|byte| !of_scalar(byte)).map_or(0, |at| at + 1))
}

/// Returns the position of the last quote that no backslash escapes.
fn last_quote(text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    loop {
        let quote = last_quote_byte(&text[..end])?;
        let backslashes = text[..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some(quote);
        }
        end = quote;
    }
}

/// Returns the position of the last quote, escaped or not. It is mostly near the end.
#[inline]
fn last_quote_byte(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    for _ in 0..2 {
        let Some((before, block)) = rest.split_last_chunk::<16>() else { break };
        let quotes = u8x16::new(*block).simd_eq(u8x16::splat(b'"')).to_bitmask() & 0xffff;
        if let Some(last) = quotes.checked_ilog2() {
            return Some(before.len() + last as usize);
        }
        rest = before;
    }
    memchr::memrchr(b'"', rest)
}

/// Returns the ends of the scalars that start at `from`; `None` if one of them is no scalar, or is the name of a member.
fn skip_scalars(known: &[u8], text: &[u8], from: Offsets) -> Option<Offsets> {
    let known_end = known.len() - scan::scalar(&known[from.known..])?.len();
    let text_end = text.len() - scan::scalar(&text[from.text..])?.len();
    let is_name = known[known_end..].iter().find(|byte| !is_whitespace(**byte)) == Some(&b':');
    (!is_name).then_some(Offsets { known: known_end, text: text_end })
}

/// Returns the length of the common prefix.
pub(crate) fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let len = one.len().min(other.len());
    let (one_blocks, one_rest) = one[..len].as_chunks::<64>();
    let (other_blocks, other_rest) = other[..len].as_chunks::<64>();
    let mut at = 0;
    for (one_block, other_block) in one_blocks.iter().zip(other_blocks) {
        let differs = differing_bytes(one_block, other_block);
        if differs != 0 {
            return at + differs.trailing_zeros() as usize;
        }
        at += 64;
    }
    at + short_common_prefix(one_rest, other_rest)
}

/// Returns a bit mask of the bytes that differ. The lowest bit is the first byte.
#[inline]
fn differing_bytes(one: &[u8; 64], other: &[u8; 64]) -> u64 {
    let (ones, others) = (one.as_chunks::<16>().0, other.as_chunks::<16>().0);
    let same = |part: usize| u8x16::new(ones[part]).simd_eq(u8x16::new(others[part]));
    let parts = [same(0), same(1), same(2), same(3)];
    if (parts[0] & parts[1] & parts[2] & parts[3]).to_bitmask() & 0xffff == 0xffff {
        return 0;
    }
    let bits = |part: usize| u64::from(parts[part].to_bitmask() & 0xffff) << (part * 16);
    !(bits(0) | bits(1) | bits(2) | bits(3))
}

/// As [`common_prefix`], for texts of the same length of less than 64 bytes.
fn short_common_prefix(one: &[u8], other: &[u8]) -> usize {
    let mut at = 0;
    while let (Some(one_block), Some(other_block)) =
        (one[at..].first_chunk::<16>(), other[at..].first_chunk::<16>())
    {
        let same = u8x16::new(*one_block).simd_eq(u8x16::new(*other_block)).to_bitmask();
        let differs = !same & 0xffff;
        if differs != 0 {
            return at + differs.trailing_zeros() as usize;
        }
        at += 16;
    }
    at + one[at..].iter().zip(&other[at..]).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_prefix_ends_where_the_first_byte_differs() {
        let one: Vec<u8> = (0..=255).cycle().take(700).collect();
        for len in 0..700 {
            assert_eq!(common_prefix(&one, &one[..len]), len);
            let mut other = one.clone();
            other[len] ^= 1;
            assert_eq!(common_prefix(&one, &other), len);
            assert_eq!(common_prefix(&one[..len], &other), len);
        }
    }

    #[test]
    fn only_scalars_may_differ() {
        let known = r#","a":{"b":"x","c":[1,true,null,"\"y"],"d":-1.5e3},"e":"z""#;
        for (text, accepted) in [
            (known, true),
            (r#","a":{"b":"","c":[1,true,null,"\"y"],"d":-1.5e3},"e":"z""#, true),
            (r#","a":{"b":"x","c":["one",0,{},"\"y"],"d":-1.5e3},"e":"z""#, false),
            (r#","a":{"b":null,"c":["one",0,false,12],"d":"number"},"e":"\u00e9\\""#, true),
            (r#","a":{"b":"x","c":[12,true,null,"\"y"],"d":-1.5e30},"e":"z""#, true),
            (r#","a":{"b":"x","c":[01,true,null,"\"y"],"d":-1.5e3},"e":"z""#, false),
            (r#","a":{"b":"x","c":[1,true,null,"\"y"],"d":-1.5e},"e":"z""#, false),
            (r#","a":{"b":"x","c":[1,true,nul,"\"y"],"d":-1.5e3},"e":"z""#, false),
            (r#","a":{"b":"\x","c":[1,true,null,"\"y"],"d":-1.5e3},"e":"z""#, false),
            (r#","a":{"b":"x","c":[1,true,null,"\"y"],"other":-1.5e3},"e":"z""#, false),
        ] {
            let length = accepted.then_some(text.len());
            assert_eq!(validate_against(known, text, Allowed::Scalars), length, "{text}");
            let more = format!("{text}}} and more");
            assert_eq!(validate_against(known, &more, Allowed::Scalars), length, "{text}");
        }
    }

    #[test]
    fn an_ambiguous_quote_is_left_to_the_parser() {
        assert_eq!(validate_against(r#"[",",1]"#, r#"[",",2]"#, Allowed::Scalars), None);
        assert_eq!(validate_against(r#"[":",1]"#, r#"["x",1]"#, Allowed::Scalars), None);
        assert_eq!(validate_against(r#"["",1]"#, r#"["",2]"#, Allowed::Scalars), Some(6));
    }
}
