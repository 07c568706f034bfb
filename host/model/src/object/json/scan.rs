//! One pass over JSON text: whether it is well formed, and where its parts are.
//!
//! The grammar is that of RFC 8259, as `serde_json` skips values: escapes are checked for their form, not for what they
//! mean. A cursor only ever says "well formed so far" or gives up with `None`; the errors that people read come from
//! `serde_json`, which is asked again then.
//!
//! The functions below take what is left of the text and return what is left behind what they read. That keeps the
//! position in registers: this is the innermost loop of the whole host.

use wide::u8x16;

use super::metadata::Span;
use super::skip;

/// How deep values may nest here, which bounds the stack. What is deeper is left to `serde_json`.
const MAX_DEPTH: u32 = 64;

/// How many bytes are looked at at a time.
const BLOCK: usize = 16;

/// A place in a text, with what is left to read behind it.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, rest: text.as_bytes() }
    }

    /// All of the text.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// How many bytes have been read.
    pub(super) fn at(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    /// The byte at this place.
    pub(super) fn first(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// What was read since `start`.
    pub(super) fn since(&self, start: usize) -> Span {
        Span::of_range(start, self.at())
    }

    /// Reads an object. `value` is called before each value, with the member's name, and must read that value. Gives up
    /// at a name with escapes: such names are compared by what they mean, which takes a parser.
    pub(super) fn members(&mut self, value: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        if self.ends(b'}') { Some(()) } else { self.members_from_name(value) }
    }

    /// As [`members`](Self::members), of those that are left behind a member.
    pub(super) fn further_members(
        &mut self,
        value: impl FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        if self.goes_on(b'}')? { self.members_from_name(value) } else { Some(()) }
    }

    #[inline]
    fn members_from_name(&mut self, mut value: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        loop {
            let name = self.plain_string()?;
            self.take(b':')?;
            self.find_token()?;
            value(self, name)?;
            if !self.goes_on(b'}')? {
                return Some(());
            }
        }
    }

    /// Reads an array; `value` is called before each element, and must read it.
    pub(super) fn elements(&mut self, mut value: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(b'[')?;
        if self.ends(b']') {
            return Some(());
        }
        loop {
            self.find_token()?;
            value(self)?;
            if !self.goes_on(b']')? {
                return Some(());
            }
        }
    }

    /// Reads a string without escapes.
    pub(super) fn plain_string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let start = self.at();
        let rest = skip_plain(self.rest);
        let (b'"', rest) = rest.split_first()? else { return None };
        self.rest = rest;
        self.text.get(start..self.at() - 1)
    }

    /// Reads a string.
    pub(super) fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        self.rest = rest_of_string(self.rest)?;
        Some(())
    }

    /// Reads `true` or `false`.
    pub(super) fn boolean(&mut self) -> Option<()> {
        self.rest = self.rest.strip_prefix(b"true").or_else(|| self.rest.strip_prefix(b"false"))?;
        Some(())
    }

    /// Reads a value of any kind.
    pub(super) fn value(&mut self) -> Option<()> {
        self.rest = value(self.rest, MAX_DEPTH)?;
        Some(())
    }

    /// Goes past a value of text that is known to be well formed.
    pub(super) fn pass(&mut self) -> Option<()> {
        self.rest = skip::value(self.rest)?;
        Some(())
    }

    /// Goes past what is left of the object or array that the value at this place is in, in text that is known to be well formed.
    pub(super) fn leave(&mut self) -> Option<()> {
        self.rest = skip::rest_of_container(self.rest)?;
        Some(())
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at()..).unwrap_or_default()
    }

    /// Goes on by bytes that are known to be well formed.
    pub(super) fn skip(&mut self, len: usize) -> Option<()> {
        self.rest = self.rest.get(len..)?;
        Some(())
    }

    /// Reads the value if it has this very text.
    pub(super) fn same(&mut self, value: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(value.as_bytes())?;
        Some(())
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        self.rest = take(self.rest, wanted)?;
        Some(())
    }

    /// Goes on to the next token.
    fn find_token(&mut self) -> Option<()> {
        let (_, tail) = token(self.rest)?;
        let start = self.rest.len() - tail.len() - 1;
        self.rest = &self.rest[start..];
        Some(())
    }

    /// Takes the end of an empty object or array, if that is next.
    fn ends(&mut self, end: u8) -> bool {
        let rest = take(self.rest, end);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes a comma, or the end.
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        let (byte, rest) = token(self.rest)?;
        self.rest = rest;
        match byte {
            b',' => Some(true),
            byte if byte == end => Some(false),
            _ => None,
        }
    }
}

pub(super) fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

/// The next byte that is not white space. A control character is returned as it is: no value starts with one.
#[inline]
fn token(rest: &[u8]) -> Option<(u8, &[u8])> {
    let (&byte, tail) = rest.split_first()?;
    if byte > b' ' { Some((byte, tail)) } else { token_after_white(rest) }
}

#[cold]
fn token_after_white(rest: &[u8]) -> Option<(u8, &[u8])> {
    let start = rest.iter().position(|byte| !is_white(*byte))?;
    rest[start..].split_first().map(|(&byte, tail)| (byte, tail))
}

#[inline]
fn take(rest: &[u8], wanted: u8) -> Option<&[u8]> {
    match token(rest)? {
        (byte, tail) if byte == wanted => Some(tail),
        _ => None,
    }
}

/// What follows the string, number or literal that `text` starts with.
pub(super) fn scalar(text: &[u8]) -> Option<&[u8]> {
    match text.first()? {
        b'{' | b'[' => None,
        byte if is_white(*byte) => None,
        _ => value(text, 0),
    }
}

/// A value of any kind that holds at most `depth` values in one another.
#[inline]
fn value(rest: &[u8], depth: u32) -> Option<&[u8]> {
    let (byte, tail) = token(rest)?;
    match byte {
        b'"' => rest_of_string(tail),
        b'{' => object(tail, depth),
        b'[' => array(tail, depth),
        b'-' | b'0'..=b'9' => number(byte, tail),
        b't' => tail.strip_prefix(b"rue"),
        b'f' => tail.strip_prefix(b"alse"),
        b'n' => tail.strip_prefix(b"ull"),
        _ => None,
    }
}

/// The rest of an object whose bracket has been read.
fn object(rest: &[u8], depth: u32) -> Option<&[u8]> {
    let depth = depth.checked_sub(1)?;
    let mut rest = match token(rest)? {
        (b'}', tail) => return Some(tail),
        (b'"', tail) => tail,
        _ => return None,
    };
    loop {
        rest = rest_of_string(rest)?;
        // Two tokens at a time where they are what they most often are.
        rest = match rest.strip_prefix(b":\"") {
            Some(tail) => rest_of_string(tail)?,
            None => value(take(rest, b':')?, depth)?,
        };
        rest = match rest.strip_prefix(b",\"") {
            Some(tail) => tail,
            None => match token(rest)? {
                (b'}', tail) => return Some(tail),
                (b',', tail) => take(tail, b'"')?,
                _ => return None,
            },
        };
    }
}

/// The rest of an array whose bracket has been read.
fn array(rest: &[u8], depth: u32) -> Option<&[u8]> {
    let depth = depth.checked_sub(1)?;
    if let (b']', tail) = token(rest)? {
        return Some(tail);
    }
    let mut rest = rest;
    loop {
        rest = match token(value(rest, depth)?)? {
            (b',', tail) => tail,
            (b']', tail) => return Some(tail),
            _ => return None,
        };
    }
}

/// The rest of a string whose opening quote has been read. Most strings end within a block.
#[inline]
pub(super) fn rest_of_string(rest: &[u8]) -> Option<&[u8]> {
    if let Some((block, _)) = rest.split_first_chunk::<BLOCK>() {
        let special = special_bytes(block);
        if special != 0
            && let Some((b'"', tail)) = rest[special.trailing_zeros() as usize..].split_first()
        {
            return Some(tail);
        }
    }
    rest_of_long_string(rest)
}

fn rest_of_long_string(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        match skip_plain(rest).split_first()? {
            (b'"', tail) => return Some(tail),
            (b'\\', tail) => rest = escape(tail)?,
            // A control character.
            _ => return None,
        }
    }
}

fn escape(rest: &[u8]) -> Option<&[u8]> {
    match rest.split_first()? {
        (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', tail) => Some(tail),
        (b'u', tail) => {
            let (digits, tail) = tail.split_first_chunk::<4>()?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(tail)
        }
        _ => None,
    }
}

/// Goes on to the next quote, backslash or control character, or to the end. Most of an object is strings, so many bytes
/// are looked at at a time.
#[inline]
fn skip_plain(mut rest: &[u8]) -> &[u8] {
    while let Some((block, tail)) = rest.split_first_chunk::<BLOCK>() {
        let special = special_bytes(block);
        if special != 0 {
            return &rest[special.trailing_zeros() as usize..];
        }
        rest = tail;
    }
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    let end = rest.iter().position(|byte| !is_plain(byte));
    end.map_or(&[], |end| &rest[end..])
}

/// A bit, the first byte's lowest, for each byte that is a quote, a backslash or a control character.
#[inline]
fn special_bytes(block: &[u8; BLOCK]) -> u32 {
    let block = u8x16::new(*block);
    let is_control = block.min(u8x16::splat(0x1f)).simd_eq(block);
    let is_quote = block.simd_eq(u8x16::splat(b'"'));
    let is_backslash = block.simd_eq(u8x16::splat(b'\\'));
    (is_control | is_quote | is_backslash).to_bitmask()
}

/// The rest of a number that starts with `first`.
fn number(first: u8, rest: &[u8]) -> Option<&[u8]> {
    let (first, rest) = match first {
        b'-' => rest.split_first().map(|(&first, rest)| (first, rest))?,
        _ => (first, rest),
    };
    let mut rest = match first {
        // No digit may follow a leading zero.
        b'0' if rest.first().is_some_and(u8::is_ascii_digit) => return None,
        b'0' => rest,
        b'1'..=b'9' => skip_digits(rest),
        _ => return None,
    };
    if let Some((b'.', tail)) = rest.split_first() {
        rest = digits(tail)?;
    }
    if let Some((b'e' | b'E', tail)) = rest.split_first() {
        let unsigned = match tail.split_first() {
            Some((b'+' | b'-', tail)) => tail,
            _ => tail,
        };
        rest = digits(unsigned)?;
    }
    Some(rest)
}

/// At least one digit.
fn digits(rest: &[u8]) -> Option<&[u8]> {
    let behind = skip_digits(rest);
    (behind.len() < rest.len()).then_some(behind)
}

fn skip_digits(mut rest: &[u8]) -> &[u8] {
    while let Some((b'0'..=b'9', tail)) = rest.split_first() {
        rest = tail;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_bytes_are_found_wherever_they_are() {
        for byte in 0..=u8::MAX {
            let is_special = byte < 0x20 || byte == b'"' || byte == b'\\';
            for before in [b'a', 0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xff] {
                for at in 0..16 {
                    let mut block = [before; 16];
                    block[at] = byte;
                    assert_eq!(special_bytes(&block), u32::from(is_special) << at, "{byte:#x} at {at}");
                }
            }
        }
    }
}
