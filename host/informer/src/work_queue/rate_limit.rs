//! The delays of retries.

use std::time::Duration;

use tokio::time::Instant;

use super::ExponentialBackoff;

/// The delay of retries: that of the key's backoff, and at least as long as the overall bucket requires.
///
/// The defaults are those of client-go's per-key limiter, without its overall bucket.
///
/// ```
/// use std::time::Duration;
/// use pilothouse_informer::{RateLimit, TokenBucket};
///
/// let limit = RateLimit::default().with_overall(TokenBucket::new(10, 100));
/// assert_eq!(limit.backoff.delay(3), Duration::from_millis(40));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RateLimit {
    /// The delays of one key.
    pub backoff: ExponentialBackoff,
    /// A limit for the retries of all keys together; `None` (the default) for no such limit.
    pub overall: Option<TokenBucket>,
}

impl RateLimit {
    /// Sets [`backoff`](Self::backoff).
    #[must_use]
    pub fn with_backoff(mut self, backoff: ExponentialBackoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets [`overall`](Self::overall).
    #[must_use]
    pub fn with_overall(mut self, bucket: impl Into<Option<TokenBucket>>) -> Self {
        self.overall = bucket.into();
        self
    }
}

/// A token bucket with reservations: each reservation takes a token and returns when that token will be available.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// When the bucket will be full again if no more tokens are taken; `None` if it is full.
    full_at: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket of `burst` tokens that gains `per_second` tokens per second. client-go uses 10 per second and a burst
    /// of 100.
    ///
    /// # Panics
    /// Panics if either value is zero, because such a bucket would never let anything through.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        assert!(per_second > 0 && burst > 0, "a token bucket needs a rate and a burst above zero");
        Self { interval: Duration::from_secs(1) / per_second, burst, full_at: None }
    }

    /// Takes one token and returns how long to wait until it is available.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + self.interval;
        self.full_at = Some(full_at);
        (full_at - now).saturating_sub(self.interval * self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_bucket_allows_a_burst_then_its_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(10, 100);
        for _ in 0..100 {
            assert_eq!(bucket.reserve(start), Duration::ZERO);
        }
        assert_eq!(bucket.reserve(start), Duration::from_millis(100));
        assert_eq!(bucket.reserve(start), Duration::from_millis(200));
        let later = start + Duration::from_millis(300);
        assert_eq!(bucket.reserve(later), Duration::ZERO);
        assert_eq!(bucket.reserve(later), Duration::from_millis(100));
        let refilled = start + Duration::from_secs(60);
        for _ in 0..100 {
            assert_eq!(bucket.reserve(refilled), Duration::ZERO);
        }
        assert_eq!(bucket.reserve(refilled), Duration::from_millis(100));
    }
}
