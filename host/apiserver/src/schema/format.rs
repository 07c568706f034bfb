//! The string formats that CRD validation checks (`format`). Other formats are ignored, as in Kubernetes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether `text` has the format; true for formats that are not checked.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => is_duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "byte" => is_base64(text),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "uri" => text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme().is_some() || text.starts_with('/')),
        "mac" => is_mac(text),
        "hexcolor" => is_hex_color(text),
        _ => true,
    }
}

/// A Go duration (`1h30m`, `-1.5s`) or a number of nanoseconds.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest.is_empty() {
        return false;
    }
    if rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if rest[..digits].parse::<f64>().is_err() {
            return false;
        }
        rest = rest[digits..].trim_start_matches(' ');
        let units = ["ns", "us", "µs", "ms", "s", "m", "h", "d", "w"];
        let Some(unit) = units.iter().filter(|unit| rest.starts_with(**unit)).max_by_key(|unit| unit.len())
        else {
            return false;
        };
        rest = &rest[unit.len()..];
    }
    true
}

fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let Ok(address) = address.parse::<IpAddr>() else { return false };
        bits.parse::<u8>().is_ok_and(|bits| bits <= if address.is_ipv4() { 32 } else { 128 })
    })
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let plain: String = text.chars().filter(|c| *c != '-').collect();
    plain.len() == 32
        && plain.bytes().all(|byte| byte.is_ascii_hexdigit())
        && version.is_none_or(|version| plain.as_bytes()[12] == version as u8)
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(is_label)
}

fn is_email(text: &str) -> bool {
    text.split_once('@')
        .is_some_and(|(local, domain)| !local.is_empty() && !local.contains(' ') && is_hostname(domain))
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<_> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn formats_accept_valid_and_reject_invalid_strings() {
        for (format, good, bad) in [
            ("date-time", "2026-01-02T03:04:05Z", "yesterday"),
            ("date", "2026-01-02", "2026-13-02"),
            ("duration", "1h30m", "1 fortnight"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "fd00::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("uuid", "8d9a2f1e-6b1c-4c3e-9f3f-0a1b2c3d4e5f", "8d9a"),
            ("uuid4", "8d9a2f1e-6b1c-4c3e-9f3f-0a1b2c3d4e5f", "8d9a2f1e-6b1c-1c3e-9f3f-0a1b2c3d4e5f"),
            ("byte", "aGVsbG8=", "aGVsbG8"),
            ("hostname", "a.example.com", "-a.example.com"),
            ("email", "a@example.com", "a.example.com"),
            ("uri", "https://example.com/x", "not a uri"),
            ("mac", "00:1b:44:11:3a:b7", "00:1b:44"),
        ] {
            assert!(matches(format, good), "{format} rejects {good}");
            assert!(!matches(format, bad), "{format} accepts {bad}");
        }
        assert!(matches("an-unknown-format", "anything"));
    }
}
