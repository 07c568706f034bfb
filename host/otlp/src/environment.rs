//! The environment variables that the specification of OpenTelemetry defines. Pure.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::settings::SettingsError;

/// The number of entries in a list that are accepted.
const MAX_ENTRIES: usize = 64;
/// Limit in bytes for an entry of a list.
const MAX_ENTRY: usize = 4096;

/// Reads variables. An empty variable is like one that is not set.
#[derive(Clone, Copy)]
pub(crate) struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

impl<'a> Environment<'a> {
    pub(crate) fn new(read: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(read)
    }

    pub(crate) fn get(self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Returns the variable of the exporter that is about traces, or else the one about all signals, with its name.
    pub(crate) fn exporter(self, suffix: &str) -> Option<(String, String)> {
        ["OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"].into_iter().find_map(|prefix| {
            let name = format!("{prefix}{suffix}");
            let value = self.get(&name)?;
            Some((name, value))
        })
    }
}

/// Parses a list `key=value,key=value` with percent-encoded values.
pub(crate) fn parse_list(name: &str, list: &str) -> Result<Vec<(String, String)>, SettingsError> {
    let wrong =
        |problem: &str| SettingsError::new(name, problem, "write key=value pairs, separated by commas");
    let entries: Vec<_> = list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    if entries.len() > MAX_ENTRIES {
        return Err(wrong("it has too many entries"));
    }
    let parse = |entry: &str| {
        // The entry is not repeated: it may be a secret.
        let (key, value) = entry.split_once('=').ok_or_else(|| wrong("an entry has no `=`"))?;
        let (key, value) = (key.trim(), percent_decoded(value.trim()));
        match key.is_empty() || entry.len() > MAX_ENTRY {
            true => Err(wrong("an entry has no key, or is too long")),
            false => Ok((key.to_owned(), value)),
        }
    };
    entries.into_iter().map(parse).collect()
}

/// Parses a list of headers, whose values are not shown in debug output.
pub(crate) fn parse_headers(name: &str, list: &str) -> Result<HeaderMap, SettingsError> {
    let mut headers = HeaderMap::new();
    for (key, value) in parse_list(name, list)? {
        let wrong = |problem: &str| {
            SettingsError::new(name, problem, "write header=value pairs, separated by commas")
        };
        let key = HeaderName::try_from(&key).map_err(|_| wrong("it has an invalid header name"))?;
        let mut value = HeaderValue::try_from(&value).map_err(|_| wrong("it has an invalid header value"))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Decodes `%20` and the like. What is no such sequence stays.
fn percent_decoded(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|digits| {
            let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
            digits.map(|digit| u8::try_from(digit?).ok()).collect::<Option<Vec<u8>>>()
        });
        match hex {
            Some(digits) => {
                decoded.push(digits[0] * 16 + digits[1]);
                rest = &after[2..];
            }
            None => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_percent_decoded() {
        let parsed = parse_list("X", "a=1, b = x%20y%3Dz ,,c=%zz%4").expect("a list");
        let pairs: Vec<_> = parsed.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", "x y=z"), ("c", "%zz%4")]);
        assert_eq!(percent_decoded("%C3%A4%ff"), "ä\u{fffd}");
    }

    #[test]
    fn a_wrong_list_is_refused_without_its_values() {
        for list in ["secret", "=secret", "a b=secret", "a=secret%0a"] {
            let error = parse_headers("OTEL_EXPORTER_OTLP_HEADERS", list).expect_err(list).to_string();
            assert!(error.starts_with("OTEL_EXPORTER_OTLP_HEADERS: "), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let many: String = (0..65).map(|number| format!("k{number}=v,")).collect();
        assert!(parse_list("X", &many).is_err());
    }

    #[test]
    fn header_values_are_not_shown() {
        let headers = parse_headers("X", "authorization=Bearer%20secret").expect("headers");
        assert_eq!(headers["authorization"], "Bearer secret");
        assert!(!format!("{headers:?}").contains("secret"));
    }
}
