//! Reading JSON text that is almost the same as text that was read before.
//!
//! Most versions of an object differ from the one before in a few numbers and strings. What is the same needs no grammar: the
//! known text is well formed, so where both texts have been the same so far, a parser of either would be in the same state. At
//! a difference, a whole scalar (a string, a number, `true`, `false` or `null`) of the new text may stand for a whole scalar
//! of the known one, which leaves the state as it is; the new one is read by the grammar. Any other difference (a member that
//! is new, a value that has become an object) is left to the parser.
//!
//! This is why it is safe to believe: nothing is taken for well formed that the parser would refuse. `tests/reader.rs` holds
//! it to that, with damage of every kind.

use std::ops::Range;

use wide::u8x16;

use super::scan::{self, is_white};

/// Whether a name may differ as a value may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// No: the names are known to be no repetition of others, and new ones would not be.
    Same,
    /// Yes: the text is not kept.
    Any,
}

/// How much of the start of `text` is well formed as `known` is, or `None` when that is not told by comparing.
///
/// `known` is a whole value, or some whole members of an object with a comma before each, and well formed; `text` starts at
/// the same place of the grammar.
pub(super) fn follow(known: &str, text: &str, names: Names) -> Option<usize> {
    follow_with(known, text, names, |_, _| Some(()))
}

/// As [`follow`]; `differs` is told where the scalars are that stand for each other, in both texts, and may refuse them.
pub(super) fn follow_with(
    known: &str,
    text: &str,
    names: Names,
    mut differs: impl FnMut(Range<usize>, Range<usize>) -> Option<()>,
) -> Option<usize> {
    let (known, text) = (known.as_bytes(), text.as_bytes());
    let mut at = Places { known: 0, text: 0 };
    loop {
        let start = at.known;
        let same = common_prefix(&known[at.known..], &text[at.text..]);
        at = at.plus(same);
        if at.known == known.len() {
            return Some(at.text);
        }
        let scalar = scalar_start(known, at.known)?;
        // A scalar that began before what has just been compared was stepped over already: what differs is behind it.
        if scalar < start {
            return None;
        }
        let from = Places { known: scalar, text: at.text - (at.known - scalar) };
        at = step_over_scalar(known, text, from, names)?;
        differs(from.known..at.known, from.text..at.text)?;
    }
}

/// The same place in both texts.
#[derive(Clone, Copy)]
struct Places {
    known: usize,
    text: usize,
}

impl Places {
    fn plus(self, len: usize) -> Self {
        Self { known: self.known + len, text: self.text + len }
    }
}

/// Where the scalar starts that the byte at `at` is part of or directly behind; `at` itself when there is none. `None` when
/// that is not sure without reading from the start.
fn scalar_start(known: &[u8], at: usize) -> Option<usize> {
    let before = &known[..at];
    if let Some(quote) = last_quote(before) {
        // Outside of strings, a quote that opens follows one of these, and one that closes is followed by one of those.
        let may_open = quote == 0
            || matches!(before[quote - 1], b'{' | b'[' | b',' | b':')
            || is_white(before[quote - 1]);
        let behind = known.get(quote + 1);
        let may_close =
            behind.is_none_or(|byte| matches!(byte, b'}' | b']' | b',' | b':') || is_white(*byte));
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

/// The last quote that begins or ends a string: one that no backslash escapes.
fn last_quote(text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    loop {
        let quote = memchr::memrchr(b'"', &text[..end])?;
        let slashes = text[..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if slashes % 2 == 0 {
            return Some(quote);
        }
        end = quote;
    }
}

/// Behind the scalars that start at these places; `None` when what starts there is no scalar, or may not differ.
fn step_over_scalar(known: &[u8], text: &[u8], from: Places, names: Names) -> Option<Places> {
    let known_end = known.len() - scan::scalar(&known[from.known..])?.len();
    let text_end = text.len() - scan::scalar(&text[from.text..])?.len();
    if known[known_end..].iter().find(|byte| !is_white(**byte)) == Some(&b':') {
        let is_name = names == Names::Any && text[from.text] == b'"';
        is_name.then_some(())?;
    }
    Some(Places { known: known_end, text: text_end })
}

/// How many bytes at the start are the same.
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    const LARGE: usize = 256;
    const SMALL: usize = 16;
    let (ones, others) = (one.as_chunks::<LARGE>().0, other.as_chunks::<LARGE>().0);
    let same = ones.iter().zip(others).take_while(|(one, other)| one == other).count() * LARGE;
    let mut len = same;
    let (one, other) = (&one[same..], &other[same..]);
    for (one, other) in one.as_chunks::<SMALL>().0.iter().zip(other.as_chunks::<SMALL>().0) {
        let differs = !u8x16::new(*one).simd_eq(u8x16::new(*other)).to_bitmask() & 0xffff;
        if differs != 0 {
            return len + differs.trailing_zeros() as usize;
        }
        len += SMALL;
    }
    let rest = len - same;
    len + one[rest..].iter().zip(&other[rest..]).take_while(|(one, other)| one == other).count()
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
    fn scalars_may_differ_and_all_else_may_not() {
        let known = r#","a":{"b":"x","c":[1,true,null,"\"y"],"d":-1.5e3},"e":"z""#;
        for (text, names, followed) in [
            (known, Names::Same, true),
            (r#","a":{"b":"","c":[1,true,null,"\"y"],"d":-1.5e3},"e":"z""#, Names::Same, true),
            (r#","a":{"b":"x","c":["one",0,{},"\"y"],"d":-1.5e3},"e":"z""#, Names::Same, false),
            (r#","a":{"b":null,"c":["one",0,false,12],"d":"number"},"e":"\u00e9\\""#, Names::Same, true),
            (r#","a":{"b":"x","c":[12,true,null,"\"y"],"d":-1.5e30},"e":"z""#, Names::Same, true),
            (r#","a":{"b":"x","c":[01,true,null,"\"y"],"d":-1.5e3},"e":"z""#, Names::Same, false),
            (r#","a":{"b":"x","c":[1,true,null,"\"y"],"d":-1.5e},"e":"z""#, Names::Same, false),
            (r#","a":{"b":"x","c":[1,true,nul,"\"y"],"d":-1.5e3},"e":"z""#, Names::Same, false),
            (r#","a":{"b":"\x","c":[1,true,null,"\"y"],"d":-1.5e3},"e":"z""#, Names::Same, false),
            (r#","a":{"b":"x","c":[1,true,null,"\"y"],"other":-1.5e3},"e":"z""#, Names::Same, false),
            (r#","a":{"b":"x","c":[1,true,null,"\"y"],"other":-1.5e3},"e":"z""#, Names::Any, true),
            (r#","a":{"b":"x","c":[1,true,null,"\"y"],12:-1.5e3},"e":"z""#, Names::Any, false),
            (r#","a":{"b":"x","c":[1,true,null,"\"y"]},"e":"z""#, Names::Any, false),
        ] {
            assert_eq!(follow(known, text, names), followed.then_some(text.len()), "{text}");
            let more = format!("{text}}} and more");
            assert_eq!(follow(known, &more, names), followed.then_some(text.len()), "{text}");
        }
    }

    #[test]
    fn a_quote_that_may_open_and_may_close_is_left_to_the_parser() {
        assert_eq!(follow(r#"[",",1]"#, r#"[",",2]"#, Names::Same), None);
        assert_eq!(follow(r#"[":",1]"#, r#"["x",1]"#, Names::Same), None);
        assert_eq!(follow(r#"["",1]"#, r#"["",2]"#, Names::Same), Some(6));
    }
}
