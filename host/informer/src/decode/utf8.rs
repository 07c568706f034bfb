//! Finds the valid UTF-8 in a chunk.

/// Returns the offset and the text of the UTF-8 part of a chunk. Characters that are split at either end of the chunk are left
/// out, and so is everything after an invalid byte.
pub(super) fn utf8_part(chunk: &[u8]) -> (usize, &str) {
    let start = chunk.iter().position(|byte| byte & 0xc0 != 0x80).unwrap_or(chunk.len());
    let text = match simdutf8::compat::from_utf8(&chunk[start..]) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&chunk[start..start + error.valid_up_to()]).unwrap_or_default(),
    };
    (start, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_characters_are_left_out() {
        let text = "é€x".as_bytes();
        assert_eq!(utf8_part(text), (0, "é€x"));
        assert_eq!(utf8_part(&text[1..]), (1, "€x"));
        assert_eq!(utf8_part(&text[..4]), (0, "é"));
        assert_eq!(utf8_part(&text[3..5]), (2, ""));
        assert_eq!(utf8_part(b"a\xffb"), (0, "a"));
        assert_eq!(utf8_part(b""), (0, ""));
    }
}
