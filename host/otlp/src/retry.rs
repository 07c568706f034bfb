//! When a request is sent again. Pure.

use std::time::Duration;

/// The number of times that a request is sent again.
const RETRIES: u32 = 3;
/// The delay before the first of them; it doubles.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay that a collector can ask for.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Whether a request with this status may succeed later.
pub(crate) fn is_transient(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

/// Returns the delay before a request is sent again that was sent `retries` times again already; `None` to give up.
pub(crate) fn delay(retries: u32, asked_for: Option<Duration>) -> Option<Duration> {
    let own = FIRST_DELAY * 2_u32.pow(retries.min(RETRIES));
    (retries < RETRIES).then(|| asked_for.map_or(own, |asked_for| asked_for.clamp(own, MAX_DELAY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_sent_again_three_times_with_growing_delays() {
        let seconds = |retries, asked_for: Option<u64>| {
            delay(retries, asked_for.map(Duration::from_secs)).map(|delay| delay.as_secs())
        };
        assert_eq!([0, 1, 2, 3].map(|retries| seconds(retries, None)), [Some(1), Some(2), Some(4), None]);
        assert_eq!(
            [seconds(0, Some(5)), seconds(0, Some(0)), seconds(2, Some(900))],
            [Some(5), Some(1), Some(30)]
        );
        assert_eq!(seconds(3, Some(5)), None);
    }

    #[test]
    fn only_overload_and_gateway_errors_are_transient() {
        let transient: Vec<_> = (200..600).filter(|status| is_transient(*status)).collect();
        assert_eq!(transient, [429, 502, 503, 504]);
    }
}
