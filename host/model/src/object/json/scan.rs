//! Validates JSON text in one pass and finds the positions of its values.
//!
//! The grammar is that of RFC 8259, as `serde_json` applies it when it skips values: the form of an escape is checked, not its meaning. A
//! [`Cursor`] gives up with `None` on malformed text. The caller then runs `serde_json`, which words the error.
//!
//! The functions below take the remaining text and return what remains after the token that they read. That keeps the position in
//! registers: this is the innermost loop of the host.

use wide::u8x16;

use super::{Span, skip};

/// The deepest nesting that is scanned, which bounds the recursion. Deeper values are left to `serde_json`.
pub(crate) const MAX_DEPTH: u32 = 64;

/// Bytes that are examined at a time.
pub(super) const BLOCK: usize = 16;

/// A position in a text.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, rest: text.as_bytes() }
    }

    /// Returns the whole text, including what has been read.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the number of bytes that have been read.
    pub(crate) fn at(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    /// Returns the next byte.
    pub(crate) fn first(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Returns the range from `start` to the current position.
    pub(crate) fn since(&self, start: usize) -> Span {
        Span::of_range(start, self.at())
    }

    /// Reads an object. `value` is called with the name of each member and must read its value.
    ///
    /// Gives up at a name with escapes, because comparing such a name with another takes a parser.
    pub(crate) fn members(&mut self, value: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        if self.take_if_next(b'}') { Some(()) } else { self.members_from_name(value) }
    }

    /// Like [`members`](Self::members), from the end of a member: reads the members that follow and the end of the object.
    pub(crate) fn remaining_members(
        &mut self,
        value: impl FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        if self.comma_or_end(b'}')? { self.members_from_name(value) } else { Some(()) }
    }

    #[inline]
    fn members_from_name(&mut self, mut value: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        loop {
            let name = self.plain_string()?;
            self.take(b':')?;
            self.skip_to_token()?;
            value(self, name)?;
            if !self.comma_or_end(b'}')? {
                return Some(());
            }
        }
    }

    /// Like [`members`](Self::members), for names that may have escapes: `value` is called with the JSON text of each name.
    pub(crate) fn members_with_escapes(
        &mut self,
        mut value: impl FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        self.take(b'{')?;
        if self.take_if_next(b'}') {
            return Some(());
        }
        loop {
            self.skip_to_token()?;
            let start = self.at();
            self.string()?;
            let name = self.text.get(start..self.at())?;
            self.take(b':')?;
            self.skip_to_token()?;
            value(self, name)?;
            if !self.comma_or_end(b'}')? {
                return Some(());
            }
        }
    }

    /// Reads an array. `value` is called at each element and must read it.
    pub(crate) fn elements(&mut self, mut value: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(b'[')?;
        if self.take_if_next(b']') {
            return Some(());
        }
        loop {
            self.skip_to_token()?;
            value(self)?;
            if !self.comma_or_end(b']')? {
                return Some(());
            }
        }
    }

    /// Reads a string without escapes and returns its content.
    pub(crate) fn plain_string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let start = self.at();
        let rest = skip_plain(self.rest);
        let (b'"', rest) = rest.split_first()? else { return None };
        self.rest = rest;
        self.text.get(start..self.at() - 1)
    }

    /// Reads a string.
    pub(crate) fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        self.rest = rest_of_string(self.rest)?;
        Some(())
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&mut self) -> Option<()> {
        self.rest = self.rest.strip_prefix(b"true").or_else(|| self.rest.strip_prefix(b"false"))?;
        Some(())
    }

    /// Reads and validates a value of any type.
    pub(crate) fn value(&mut self) -> Option<()> {
        self.rest = value(self.rest, MAX_DEPTH)?;
        Some(())
    }

    /// Skips a value that is known to be well formed.
    pub(crate) fn skip_value(&mut self) -> Option<()> {
        self.rest = skip::value(self.rest)?;
        Some(())
    }

    /// Skips the rest of the object or array that contains the value at this position. The text must be known to be well formed.
    pub(crate) fn skip_rest_of_container(&mut self) -> Option<()> {
        self.rest = skip::rest_of_container(self.rest)?;
        Some(())
    }

    /// Returns the text that has not been read.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.at()..).unwrap_or_default()
    }

    /// Skips `len` bytes that are known to be well formed.
    pub(crate) fn skip_bytes(&mut self, len: usize) -> Option<()> {
        self.rest = self.rest.get(len..)?;
        Some(())
    }

    /// Reads `expected`; `None` if other text is next.
    pub(crate) fn literal(&mut self, expected: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected.as_bytes())?;
        Some(())
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        self.rest = take(self.rest, expected)?;
        Some(())
    }

    /// Skips white space up to the next token.
    fn skip_to_token(&mut self) -> Option<()> {
        let (_, tail) = token(self.rest)?;
        let start = self.rest.len() - tail.len() - 1;
        self.rest = &self.rest[start..];
        Some(())
    }

    /// Takes the token if it is next, and returns whether it was.
    fn take_if_next(&mut self, expected: u8) -> bool {
        let rest = take(self.rest, expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes a comma or the end of an object or array, and returns whether it was a comma.
    fn comma_or_end(&mut self, end: u8) -> Option<bool> {
        let (byte, rest) = token(self.rest)?;
        self.rest = rest;
        match byte {
            b',' => Some(true),
            byte if byte == end => Some(false),
            _ => None,
        }
    }
}

pub(crate) fn is_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

/// Returns the next byte that is not white space, and the text after it. A control character is returned like a token: no value starts
/// with one.
#[inline]
fn token(rest: &[u8]) -> Option<(u8, &[u8])> {
    let (&byte, tail) = rest.split_first()?;
    if byte > b' ' { Some((byte, tail)) } else { token_after_whitespace(rest) }
}

#[cold]
fn token_after_whitespace(rest: &[u8]) -> Option<(u8, &[u8])> {
    let start = rest.iter().position(|byte| !is_whitespace(*byte))?;
    rest[start..].split_first().map(|(&byte, tail)| (byte, tail))
}

#[inline]
fn take(rest: &[u8], expected: u8) -> Option<&[u8]> {
    match token(rest)? {
        (byte, tail) if byte == expected => Some(tail),
        _ => None,
    }
}

/// Returns the text after the string, number or literal that `text` starts with; `None` if it starts with something else.
pub(crate) fn scalar(text: &[u8]) -> Option<&[u8]> {
    match text.first()? {
        b'{' | b'[' => None,
        byte if is_whitespace(*byte) => None,
        _ => value(text, 0),
    }
}

/// Returns the text after the value that `text` starts with, if it nests at most `depth` deep.
pub(crate) fn value_within(text: &[u8], depth: u32) -> Option<&[u8]> {
    value(text, depth)
}

/// Returns the text after the members of an object and its closing bracket. There is at least one member.
pub(crate) fn members_and_end(text: &[u8], depth: u32) -> Option<&[u8]> {
    members(take(text, b'"')?, depth)
}

/// Returns the text after the elements of an array and its closing bracket. There is at least one element.
pub(crate) fn elements_and_end(text: &[u8], depth: u32) -> Option<&[u8]> {
    elements(text, depth)
}

/// Reads a value of any type whose objects and arrays nest at most `depth` deep.
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

/// Reads the rest of an object whose opening bracket has been read.
fn object(rest: &[u8], depth: u32) -> Option<&[u8]> {
    let depth = depth.checked_sub(1)?;
    match token(rest)? {
        (b'}', tail) => Some(tail),
        (b'"', tail) => members(tail, depth),
        _ => None,
    }
}

/// Reads the rest of an object from its first name on, whose opening quote has been read.
#[inline]
fn members(mut rest: &[u8], depth: u32) -> Option<&[u8]> {
    loop {
        rest = rest_of_string(rest)?;
        // The most frequent pairs of tokens are read at once.
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

/// Reads the rest of an array whose opening bracket has been read.
fn array(rest: &[u8], depth: u32) -> Option<&[u8]> {
    let depth = depth.checked_sub(1)?;
    if let (b']', tail) = token(rest)? {
        return Some(tail);
    }
    elements(rest, depth)
}

/// Reads the rest of an array from its first element on.
#[inline]
fn elements(mut rest: &[u8], depth: u32) -> Option<&[u8]> {
    loop {
        rest = match token(value(rest, depth)?)? {
            (b',', tail) => tail,
            (b']', tail) => return Some(tail),
            _ => return None,
        };
    }
}

/// Reads the rest of a string whose opening quote has been read. Most strings end within two blocks: a time has 20 bytes.
#[inline]
pub(crate) fn rest_of_string(rest: &[u8]) -> Option<&[u8]> {
    if let Some((blocks, tail)) = rest.split_first_chunk::<{ 2 * BLOCK }>() {
        let [first, second] = blocks.as_chunks().0 else { return None };
        let special = special_bytes(first) | special_bytes(second) << BLOCK;
        if special == 0 {
            return rest_of_long_string(tail);
        }
        if let Some((b'"', tail)) = rest[special.trailing_zeros() as usize..].split_first() {
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

/// Skips to the next quote, backslash or control character, or to the end. Most of an object's text is strings, so a block of bytes is
/// examined at a time.
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

/// Returns a bit mask of the bytes that are a quote, a backslash or a control character. The lowest bit is the first byte.
#[inline]
pub(super) fn special_bytes(block: &[u8; BLOCK]) -> u32 {
    let block = u8x16::new(*block);
    let is_control = block.min(u8x16::splat(0x1f)).simd_eq(block);
    let is_quote = block.simd_eq(u8x16::splat(b'"'));
    let is_backslash = block.simd_eq(u8x16::splat(b'\\'));
    (is_control | is_quote | is_backslash).to_bitmask()
}

/// Reads the rest of a number whose first byte, `first`, has been read.
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

/// Reads at least one digit.
fn digits(rest: &[u8]) -> Option<&[u8]> {
    let tail = skip_digits(rest);
    (tail.len() < rest.len()).then_some(tail)
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
    fn special_bytes_are_found_at_any_offset() {
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
