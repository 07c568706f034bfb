//! Decides whether a request is sent again, and when. Pure; the caller waits.

use std::time::Duration;

/// The longest wait for another attempt. A registry that asks for more is left to the next poll.
const LONGEST: Duration = Duration::from_secs(30);

/// Returns how long to wait before another attempt; `None` if there is none. `attempt` counts from 1, and `retry_after` is the header in
/// seconds, if the response has it.
pub(crate) fn delay(status: u16, retry_after: Option<&str>, attempt: u32, attempts: u32) -> Option<Duration> {
    let is_temporary = matches!(status, 429 | 502 | 503 | 504);
    if !is_temporary || attempt >= attempts {
        return None;
    }
    // The header's other form, a date, would need the server's clock.
    let asked = retry_after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    let delay = asked.unwrap_or_else(|| Duration::from_secs(1 << (attempt - 1).min(4)));
    (delay <= LONGEST).then_some(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_failures_are_retried_and_not_for_ever() {
        let seconds = |status, after, attempt| delay(status, after, attempt, 4).map(|delay| delay.as_secs());
        assert_eq!(seconds(429, None, 1), Some(1));
        assert_eq!(seconds(503, None, 3), Some(4));
        assert_eq!(seconds(503, None, 4), None);
        assert_eq!(seconds(429, Some("7"), 1), Some(7));
        assert_eq!(seconds(429, Some("0"), 1), Some(0));
        assert_eq!(seconds(429, Some("86400"), 1), None);
        assert_eq!(seconds(429, Some("Wed, 21 Oct 2015 07:28:00 GMT"), 1), Some(1));
        for status in [200, 401, 404, 500] {
            assert_eq!(seconds(status, None, 1), None, "{status}");
        }
    }
}
