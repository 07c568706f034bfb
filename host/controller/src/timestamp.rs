//! Points in time as text, as the status, Events and log lines show them.

use std::fmt::Display;

use jiff::Timestamp;

/// Formats a time in RFC 3339, to the second.
pub(crate) fn rfc_3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time in RFC 3339, to the millisecond.
pub(crate) fn rfc_3339_milliseconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// Formats a time in RFC 3339, to the microsecond, which is the format of `metav1.MicroTime`. The text always has the same width.
pub(crate) fn rfc_3339_microseconds(time: Timestamp) -> impl Display {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_to_the_second_millisecond_and_microsecond() {
        let time = Timestamp::from_microsecond(1_500_000).expect("a time");
        assert_eq!(rfc_3339(time), "1970-01-01T00:00:01Z");
        assert_eq!(rfc_3339_milliseconds(time), "1970-01-01T00:00:01.500Z");
        assert_eq!(rfc_3339_microseconds(time).to_string(), "1970-01-01T00:00:01.500000Z");
    }
}
