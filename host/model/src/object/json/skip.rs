//! Going past values of text that is known to be well formed: only their ends are looked for.
//!
//! An object's text was validated when it was read. What a reader skips on the way to a field is most of the text, so objects and arrays
//! are gone past by their brackets alone, a block of bytes at a time.

use wide::u8x16;

use super::scan;

/// How many bytes are looked at at a time: a bit of a word each.
const BLOCK: usize = 64;

/// What is behind the value that `text` starts with.
#[inline]
pub(super) fn value(text: &[u8]) -> Option<&[u8]> {
    let (byte, rest) = text.split_first()?;
    match byte {
        b'"' => scan::rest_of_string(rest),
        b'{' | b'[' => rest_of_container(rest),
        _ => {
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']') || scan::is_white(*byte);
            let end = text.iter().position(is_end).unwrap_or(text.len());
            Some(&text[end..])
        }
    }
}

/// The bytes of a block that matter, a bit each, the first byte's lowest.
struct Marks {
    quotes: u64,
    backslashes: u64,
    /// Outside of strings, these are brackets and braces.
    brackets: u64,
}

/// What is behind the object or array whose bracket has been read, or some of its members or elements.
pub(super) fn rest_of_container(text: &[u8]) -> Option<&[u8]> {
    let mut depth = 1_u32;
    // Whether the block begins inside of a string: all bits or none. And whether its first byte is escaped.
    let (mut string, mut escape) = (0_u64, 0_u64);
    let mut at = 0;
    let mut last = [b' '; BLOCK];
    loop {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let block = match rest.split_first_chunk() {
            Some((block, _)) => block,
            None => {
                last[..rest.len()].copy_from_slice(rest);
                &last
            }
        };
        let marks = marks(block);
        // Most blocks have no backslash.
        let escaped =
            if marks.backslashes | escape == 0 { 0 } else { escaped(marks.backslashes, &mut escape) };
        // From each opening quote to before the one that closes.
        let inside = up_to_next(marks.quotes & !escaped) ^ string;
        string = if inside >> (BLOCK - 1) == 0 { 0 } else { u64::MAX };
        // Few of a block's bytes are brackets: one after the other is less work than counting them.
        let mut brackets = marks.brackets & !inside;
        while brackets != 0 {
            let bit = brackets & brackets.wrapping_neg();
            let position = bit.trailing_zeros() as usize;
            // What opens differs in this bit from what closes.
            if block[position % BLOCK] & 0x04 == 0 {
                depth += 1;
            } else {
                depth -= 1;
                if depth == 0 {
                    return text.get(at + position + 1..);
                }
            }
            brackets ^= bit;
        }
        at += BLOCK;
    }
}

#[inline]
fn marks(block: &[u8; BLOCK]) -> Marks {
    let mut marks = Marks { quotes: 0, backslashes: 0, brackets: 0 };
    let parts = block.as_chunks::<16>().0;
    let bits = |position: usize, found: u8x16| u64::from(found.to_bitmask()) << (position * 16);
    let is_backslash = |part: &[u8; 16]| u8x16::new(*part).simd_eq(u8x16::splat(b'\\'));
    let mut any = u8x16::ZERO;
    for (position, part) in parts.iter().enumerate() {
        any |= is_backslash(part);
        let part = u8x16::new(*part);
        marks.quotes |= bits(position, part.simd_eq(u8x16::splat(b'"')));
        // What the four have in common; of others only `Y`, `y`, `_` and DEL do, which no number or literal has.
        let common = part | u8x16::splat(0x26);
        marks.brackets |= bits(position, common.simd_eq(u8x16::splat(0x7f)));
    }
    // Most blocks have none.
    if any.to_bitmask() != 0 {
        for (position, part) in parts.iter().enumerate() {
            marks.backslashes |= bits(position, is_backslash(part));
        }
    }
    marks
}

/// The bytes that a backslash stands before which is none itself; `carry` says that of the next block's first.
#[inline]
fn escaped(backslashes: u64, carry: &mut u64) -> u64 {
    let mut escaped = *carry;
    *carry = 0;
    let mut left = backslashes & !escaped;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        if bit == 1 << (BLOCK - 1) {
            *carry = 1;
            break;
        }
        escaped |= bit << 1;
        left &= !(bit | bit << 1);
    }
    escaped
}

/// Each bit is set that has an odd number of set ones up to it.
#[inline]
fn up_to_next(mut bits: u64) -> u64 {
    for distance in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << distance;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_container_is_found_wherever_it_is() {
        for inner in [
            "",
            "1",
            r#""""#,
            r#""}""#,
            r#""\"}""#,
            r#""\\""#,
            r#""\\\"]","\\""#,
            "\"_yY\u{7f}\",true,false,null,-1E+5",
            "{},[[]]",
            r#"{"a":[{"}":"{"}]}"#,
        ] {
            for before in 0..130 {
                for (open, close) in [('{', '}'), ('[', ']')] {
                    let padding = " ".repeat(before);
                    let text = format!("{open}{padding}{inner}{close}");
                    for behind in ["", "}", r#","x":"}"}"#, &"]".repeat(200)] {
                        let whole = format!("{text}{behind}");
                        let rest = value(whole.as_bytes()).map(<[u8]>::len);
                        assert_eq!(rest, Some(behind.len()), "{whole}");
                    }
                    assert_eq!(value(&text.as_bytes()[..text.len() - 1]), None, "{text} without its end");
                }
            }
        }
    }

    #[test]
    fn scalars_end_where_their_text_does() {
        for scalar in ["1", "-1.5e3", "true", "null", r#""a\"b""#, r#""""#] {
            for behind in ["", ",2", "}", "]", " ,2", "\n}"] {
                let whole = format!("{scalar}{behind}");
                assert_eq!(value(whole.as_bytes()), Some(behind.as_bytes()), "{whole}");
            }
        }
    }
}
