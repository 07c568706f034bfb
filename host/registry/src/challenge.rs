//! The header `www-authenticate`: what a registry asks for, and where a token is fetched.

use crate::error::{Problem, RegistryError, excerpt};

/// The longest header that is parsed, in bytes.
const MAX_LENGTH: usize = 4096;
/// The most parameters of a challenge.
const MAX_PARAMETERS: usize = 16;

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token, which another server issues.
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

impl Challenge {
    /// Parses the headers, and prefers a token.
    pub(crate) fn parse<'a>(
        registry: &str,
        headers: impl Iterator<Item = &'a str>,
    ) -> Result<Self, RegistryError> {
        let invalid = |problem: String| {
            RegistryError::new(
                Problem::Protocol,
                format!("{registry} asks for credentials, but {problem}; check that it is a registry"),
            )
        };
        let mut basic = None;
        for header in headers.take(4) {
            if header.len() > MAX_LENGTH {
                return Err(invalid("its challenge is too long".to_owned()));
            }
            let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
            if scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Self::Basic);
            } else if scheme.eq_ignore_ascii_case("bearer") {
                return bearer(rest)
                    .ok_or_else(|| invalid(format!("its challenge {:?} is invalid", excerpt(header))));
            }
        }
        basic.ok_or_else(|| invalid("offers neither Basic nor Bearer".to_owned()))
    }
}

fn bearer(text: &str) -> Option<Challenge> {
    let (mut realm, mut service, mut scope) = (None, None, None);
    let mut rest = text;
    for _ in 0..MAX_PARAMETERS {
        rest = rest.trim_start_matches([' ', ',', '\t']);
        if rest.is_empty() {
            break;
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = value(after)?;
        rest = after;
        let slot = match name.trim().to_ascii_lowercase().as_str() {
            "realm" => &mut realm,
            "service" => &mut service,
            "scope" => &mut scope,
            _ => continue,
        };
        // The first value counts.
        slot.get_or_insert(value);
    }
    Some(Challenge::Bearer { realm: realm?, service, scope })
}

/// Splits a value from the text after it. A quoted one may contain commas and escaped characters.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return Some((value, &quoted[index + 1..])),
            '\\' => value.push(chars.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

/// Returns the query of a request for a token, appended to the one that the realm has.
pub(crate) fn token_query(existing: Option<&str>, service: Option<&str>, scope: &str) -> String {
    let mut query = existing.unwrap_or_default().to_owned();
    for (name, value) in [("service", service), ("scope", Some(scope))] {
        let Some(value) = value else { continue };
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(name);
        query.push('=');
        query.push_str(&encode(value));
    }
    query
}

/// Percent-encodes all but unreserved characters.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(headers: &[&str]) -> Result<Challenge, RegistryError> {
        Challenge::parse("r.example", headers.iter().copied())
    }

    #[test]
    fn a_token_is_preferred_and_its_parameters_are_found() {
        let header = r#"Bearer realm="https://auth.example/token?a=b",service="r.example", scope="repository:a/b:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.example/token?a=b".into(),
            service: Some("r.example".into()),
            scope: Some("repository:a/b:pull,push".into()),
        };
        assert_eq!(parse(&[header]), Ok(expected.clone()));
        assert_eq!(parse(&["Basic realm=\"x\"", header]), Ok(expected));
        assert_eq!(parse(&["basic realm=x"]), Ok(Challenge::Basic));
        let quoted = Challenge::Bearer { realm: "a\"b".into(), service: None, scope: None };
        assert_eq!(parse(&[r#"bearer REALM="a\"b", realm="second", error=x"#]), Ok(quoted));
    }

    #[test]
    fn a_damaged_challenge_is_an_error() {
        for header in [
            "",
            "Negotiate",
            "Bearer",
            "Bearer service=x",
            "Bearer realm=\"x",
            "Bearer realm",
            r#"Bearer realm="x\"#,
        ] {
            assert!(parse(&[header]).is_err(), "{header}");
        }
        assert!(parse(&[&format!("Bearer realm=\"{}\"", "x".repeat(5000))]).is_err());
        assert!(parse(&[]).is_err());
    }

    #[test]
    fn a_query_is_encoded() {
        let query = token_query(Some("a=b"), Some("r e&g"), "repository:a/b:pull");
        assert_eq!(query, "a=b&service=r%20e%26g&scope=repository%3Aa%2Fb%3Apull");
    }
}
