//! The clock of the traffic.

/// Seconds between the earliest creation of a Pod and the first event.
pub(super) const FIRST: u32 = 25 * 86_400;

/// Returns a time in the format of Kubernetes. `seconds` is counted from the first day of December 2025; it may be up to ten weeks.
pub(super) fn text(seconds: u32) -> String {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = match day {
        0..31 => (2025, 12, day + 1),
        31..62 => (2026, 1, day - 30),
        _ => (2026, 2, (day - 62) % 28 + 1),
    };
    format!("{year}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn seconds_are_shown_as_a_date_and_a_time() {
        assert_eq!(text(0), "2025-12-01T00:00:00Z");
        assert_eq!(text(31 * 86_400 - 1), "2025-12-31T23:59:59Z");
        assert_eq!(text(62 * 86_400 + 3_661), "2026-02-01T01:01:01Z");
    }
}
