//! Ages and durations in kubectl's short form, after `k8s.io/apimachinery/pkg/util/duration`.

use jiff::Timestamp;

/// Returns how long ago `time` (RFC 3339) was, in kubectl's short form; `<unknown>` if `time` is empty.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    if time.is_empty() {
        return "<unknown>".into();
    }
    match time.parse::<Timestamp>() {
        Ok(time) => human_duration(now.as_second() - time.as_second()),
        Err(_) => "<invalid>".into(),
    }
}

/// Formats a duration with at most two units, like Go's `duration.HumanDuration`.
pub(super) fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let pair = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    // As in Kubernetes, a difference of one second between two clocks is not an error.
    if seconds < -1 {
        "<invalid>".into()
    } else if seconds < 0 {
        "0s".into()
    } else if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        pair(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        pair(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 24 * 8 {
        pair(days, "d", hours % 24, "h")
    } else if years < 2 {
        format!("{days}d")
    } else if years < 8 {
        pair(years, "y", days % 365, "d")
    } else {
        format!("{years}y")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_kubectls_short_form() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 300, "3h5m"),
            (10 * 3600, "10h"),
            (49 * 3600, "2d1h"),
            (9 * 86_400, "9d"),
            (800 * 86_400, "2y70d"),
            (4000 * 86_400, "10y"),
        ] {
            assert_eq!(human_duration(seconds), text, "{seconds} s");
        }
    }

    #[test]
    fn ages_of_missing_and_invalid_times_are_marked() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().expect("a time");
        assert_eq!(since("2026-01-01T00:00:00Z", now), "60m");
        assert_eq!(since("", now), "<unknown>");
        assert_eq!(since("soon", now), "<invalid>");
    }
}
