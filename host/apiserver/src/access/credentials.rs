//! The credentials in a request's headers.

use http::{HeaderMap, header};
use k8s_openapi::ByteString;
use serde_json::Value;

/// Returns the token of a request: that of `Bearer`, or the password of `Basic` with any user name.
///
/// `Basic` is accepted because kubectl sends a kubeconfig's token only over HTTPS, but the user information of a URL
/// always.
pub(super) fn token(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = serde_json::from_value::<ByteString>(Value::from(rest)).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes.0).ok()).unwrap_or_default();
    // A malformed password is an invalid credential, not a missing one.
    Some(text.split_once(':').map_or_else(String::new, |(_, password)| password.to_owned()))
}

/// Compares two secrets in a time that does not depend on where they differ.
pub(super) fn are_equal(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |found, (one, other)| found | (one ^ other));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_of(value: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, http::HeaderValue::from_static(value));
        token(&headers)
    }

    #[test]
    fn secrets_are_equal_only_if_all_bytes_are() {
        assert!(are_equal("abc", "abc") && are_equal("", ""));
        for other in ["abd", "bbc", "ab", "abcd", ""] {
            assert!(!are_equal("abc", other), "{other}");
        }
    }

    #[test]
    fn bearer_tokens_and_passwords_are_read() {
        assert_eq!(token_of("Bearer a.b"), Some("a.b".into()));
        assert_eq!(token_of("basic YWRtaW46UzplYw=="), Some("S:ec".into()));
        assert_eq!(token_of("Basic ???"), Some(String::new()));
        assert_eq!(token_of("Digest x"), None);
        assert_eq!(token(&HeaderMap::new()), None);
    }
}
