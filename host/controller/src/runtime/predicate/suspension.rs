//! Suspends a predicate that exceeds its cost limit again and again: each such evaluation costs all of the limit and decides nothing. Pure.

use std::time::Duration;

use pilothouse_informer::ExponentialBackoff;
use tokio::time::Instant;

/// The evaluations in a row over the cost limit after which the predicate is suspended.
const MAX_EXCEEDED: u32 = 5;
/// The first suspension; it doubles with each further one in a row.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest suspension.
const MAX_DELAY: Duration = Duration::from_mins(5);

/// Whether a predicate is suspended. After the suspension, the next evaluation decides whether another one follows.
#[derive(Debug, Default)]
pub(crate) struct PredicateSuspension {
    /// Evaluations in a row that exceeded the limit.
    exceeded: u32,
    until: Option<Instant>,
}

impl PredicateSuspension {
    /// Whether the predicate must not be evaluated now.
    pub(crate) fn is_active(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Records an evaluation. Returns how long the predicate is suspended, if it is from now on.
    pub(crate) fn record(&mut self, has_exceeded: bool, now: Instant) -> Option<Duration> {
        if !has_exceeded {
            *self = Self::default();
            return None;
        }
        self.exceeded = self.exceeded.saturating_add(1);
        let level = self.exceeded.checked_sub(MAX_EXCEEDED)?;
        let delay = ExponentialBackoff::new(FIRST_DELAY, MAX_DELAY).delay(level);
        self.until = Some(now + delay);
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn suspensions_grow_until_an_evaluation_is_within_the_limit() {
        let (mut suspension, mut now) = (PredicateSuspension::default(), Instant::now());
        for _ in 1..MAX_EXCEEDED {
            assert_eq!(suspension.record(true, now), None);
        }
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let delay = Duration::from_secs(seconds);
            assert!(!suspension.is_active(now));
            assert_eq!(suspension.record(true, now), Some(delay));
            assert!(suspension.is_active(now + delay - Duration::from_millis(1)));
            now += delay;
        }
        assert_eq!(suspension.record(false, now), None);
        for _ in 1..MAX_EXCEEDED {
            assert_eq!(suspension.record(true, now), None, "the count starts again");
        }
    }
}
