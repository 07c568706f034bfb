//! Skips values of text that is known to be well formed.
//!
//! An object's text was validated when it was parsed. A lookup of one field skips most of the text, so objects and arrays are skipped by
//! counting their brackets, a block of bytes at a time.

use wide::u8x16;

use super::scan;

/// Bytes that are examined at a time: one bit of a `u64` each.
const BLOCK: usize = 64;

/// Returns the text after the value that `text` starts with.
#[inline]
pub(crate) fn value(text: &[u8]) -> Option<&[u8]> {
    let (byte, rest) = text.split_first()?;
    match byte {
        b'"' => scan::rest_of_string(rest),
        b'{' | b'[' => rest_of_container(rest),
        _ => {
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']') || scan::is_whitespace(*byte);
            let end = text.iter().position(is_end).unwrap_or(text.len());
            Some(&text[end..])
        }
    }
}

/// Bit masks of the bytes of a block. The lowest bit is the first byte.
struct BlockMasks {
    quotes: u64,
    backslashes: u64,
    /// Brackets and braces; inside of strings also some other characters.
    brackets: u64,
}

/// Returns the text after the end of an object or array. `text` starts anywhere between two tokens inside of it.
pub(crate) fn rest_of_container(text: &[u8]) -> Option<&[u8]> {
    let mut depth = 1_u32;
    // All bits are set if the block begins inside of a string.
    let mut in_string = 0_u64;
    // 1 if the first byte of the block is escaped.
    let mut escape_carry = 0_u64;
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
        let masks = block_masks(block);
        // Most blocks have no backslash.
        let escaped = if masks.backslashes | escape_carry == 0 {
            0
        } else {
            escaped_bytes(masks.backslashes, &mut escape_carry)
        };
        // Set from each opening quote to the byte before the closing quote.
        let inside = prefix_xor(masks.quotes & !escaped) ^ in_string;
        in_string = if inside >> (BLOCK - 1) == 0 { 0 } else { u64::MAX };
        // A block has few brackets, so visiting each is less work than counting bits.
        let mut brackets = masks.brackets & !inside;
        while brackets != 0 {
            let bit = brackets & brackets.wrapping_neg();
            let position = bit.trailing_zeros() as usize;
            // An opening bracket differs from a closing one in this bit.
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
fn block_masks(block: &[u8; BLOCK]) -> BlockMasks {
    let mut masks = BlockMasks { quotes: 0, backslashes: 0, brackets: 0 };
    let parts = block.as_chunks::<16>().0;
    let bits = |position: usize, matches: u8x16| u64::from(matches.to_bitmask()) << (position * 16);
    let is_backslash = |part: &[u8; 16]| u8x16::new(*part).simd_eq(u8x16::splat(b'\\'));
    let mut any_backslash = u8x16::ZERO;
    for (position, part) in parts.iter().enumerate() {
        any_backslash |= is_backslash(part);
        let part = u8x16::new(*part);
        masks.quotes |= bits(position, part.simd_eq(u8x16::splat(b'"')));
        // `{`, `}`, `[` and `]` have these bits in common. Of other characters only `Y`, `y`, `_` and DEL match, which occur in no
        // number or literal.
        let common = part | u8x16::splat(0x26);
        masks.brackets |= bits(position, common.simd_eq(u8x16::splat(0x7f)));
    }
    // Most blocks have none.
    if any_backslash.to_bitmask() != 0 {
        for (position, part) in parts.iter().enumerate() {
            masks.backslashes |= bits(position, is_backslash(part));
        }
    }
    masks
}

/// Returns the bytes that follow an unescaped backslash. `carry` is 1 if the first byte of the block is escaped, and is set for the next
/// block.
#[inline]
fn escaped_bytes(backslashes: u64, carry: &mut u64) -> u64 {
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

/// Returns the prefix sums modulo 2: each bit that has an odd number of set bits up to and including itself.
#[inline]
fn prefix_xor(mut bits: u64) -> u64 {
    for distance in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << distance;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_container_is_found_at_any_offset() {
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
                    for after in ["", "}", r#","x":"}"}"#, &"]".repeat(200)] {
                        let whole = format!("{text}{after}");
                        let rest = value(whole.as_bytes()).map(<[u8]>::len);
                        assert_eq!(rest, Some(after.len()), "{whole}");
                    }
                    assert_eq!(value(&text.as_bytes()[..text.len() - 1]), None, "{text} without its end");
                }
            }
        }
    }

    #[test]
    fn a_scalar_ends_before_the_next_token() {
        for scalar in ["1", "-1.5e3", "true", "null", r#""a\"b""#, r#""""#] {
            for after in ["", ",2", "}", "]", " ,2", "\n}"] {
                let whole = format!("{scalar}{after}");
                assert_eq!(value(whole.as_bytes()), Some(after.as_bytes()), "{whole}");
            }
        }
    }
}
