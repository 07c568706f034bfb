//! Percent-encoding of the parts of a URL.

use std::borrow::Cow;

/// Percent-encodes the value of a query parameter: all bytes but the unreserved characters of RFC 3986.
#[must_use]
pub fn query_value(text: &str) -> Cow<'_, str> {
    encode(text, is_unreserved)
}

/// Percent-encodes the text as one segment of a URL path. A colon stays, because names such as `system:node` have it.
#[must_use]
pub fn path_segment(text: &str) -> Cow<'_, str> {
    encode(text, |byte| is_unreserved(byte) || byte == b':')
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

fn encode(text: &str, is_plain: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if text.bytes().all(&is_plain) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_bytes_are_encoded_and_a_path_keeps_colons() {
        assert_eq!(path_segment("system:a.b-c_d~1"), "system:a.b-c_d~1");
        assert_eq!(path_segment("a?b#c d/e"), "a%3Fb%23c%20d%2Fe");
        assert_eq!(path_segment("ä"), "%C3%A4");
        assert_eq!(query_value("app=web,tier!=db:1"), "app%3Dweb%2Ctier%21%3Ddb%3A1");
    }
}
