//! The delays of retries.

use std::time::Duration;

use tokio::time::Instant;

/// The delay of retries: `base · 2ⁿ` for each key, at most `max`, and at least as long as the overall bucket requires.
///
/// The defaults are those of client-go's per-key limiter, without its overall bucket.
///
/// ```
/// use std::time::Duration;
/// use pilothouse_informer::{RateLimit, TokenBucket};
///
/// let limit = RateLimit::default().with_overall(TokenBucket::new(10, 100));
/// assert_eq!(limit.per_key(0), Duration::from_millis(5));
/// assert_eq!(limit.per_key(3), Duration::from_millis(40));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateLimit {
    /// The delay of a key's first retry. Default: 5 ms.
    pub base: Duration,
    /// The longest delay of a key. Default: 1000 s.
    pub max: Duration,
    /// A limit for the retries of all keys together; `None` (the default) for no such limit.
    pub overall: Option<TokenBucket>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { base: Duration::from_millis(5), max: Duration::from_secs(1000), overall: None }
    }
}

impl RateLimit {
    /// Sets [`base`](Self::base).
    #[must_use]
    pub fn with_base(mut self, delay: Duration) -> Self {
        self.base = delay;
        self
    }

    /// Sets [`max`](Self::max).
    #[must_use]
    pub fn with_max(mut self, delay: Duration) -> Self {
        self.max = delay;
        self
    }

    /// Sets [`overall`](Self::overall).
    #[must_use]
    pub fn with_overall(mut self, bucket: impl Into<Option<TokenBucket>>) -> Self {
        self.overall = bucket.into();
        self
    }

    /// Returns a key's delay after `failures` earlier retries.
    #[must_use]
    pub fn per_key(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures);
        factor.and_then(|factor| self.base.checked_mul(factor)).map_or(self.max, |wait| wait.min(self.max))
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
    fn retry_delays_double_from_5_ms_up_to_1000_s() {
        let limit = RateLimit::default();
        assert_eq!(limit.per_key(0), Duration::from_millis(5));
        assert_eq!(limit.per_key(1), Duration::from_millis(10));
        assert_eq!(limit.per_key(10), Duration::from_millis(5120));
        for failures in [18, 31, 32, 1000, u32::MAX] {
            assert_eq!(limit.per_key(failures), Duration::from_secs(1000), "after {failures} failures");
        }
    }

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
