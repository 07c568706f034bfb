use std::time::Duration;

use tokio::time::Instant;

/// How long a retry waits (B43): per key `base · 2ⁿ` up to `max`, and at least as long as the overall bucket asks.
///
/// The defaults are client-go's per-key limiter, without the overall bucket.
///
/// ```
/// use std::time::Duration;
/// use pilothouse_informer::{RateLimit, TokenBucket};
///
/// let limit = RateLimit { overall: Some(TokenBucket::new(10, 100)), ..RateLimit::default() };
/// assert_eq!(limit.per_key(0), Duration::from_millis(5));
/// assert_eq!(limit.per_key(3), Duration::from_millis(40));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimit {
    /// The wait before the first retry of a key.
    pub base: Duration,
    /// The longest wait of a key.
    pub max: Duration,
    /// A limit for all keys together, where wanted.
    pub overall: Option<TokenBucket>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { base: Duration::from_millis(5), max: Duration::from_secs(1000), overall: None }
    }
}

impl RateLimit {
    /// The per-key wait after `failures` retries that were already asked for.
    #[must_use]
    pub fn per_key(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures);
        factor.and_then(|factor| self.base.checked_mul(factor)).map_or(self.max, |wait| wait.min(self.max))
    }
}

/// A token bucket that hands out times: each reservation takes a token, and says when it will be there.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// When the bucket would be full again if nothing more were taken; `None`: it is full.
    full_at: Option<Instant>,
}

impl TokenBucket {
    /// A bucket of `burst` tokens that gains `per_second` tokens each second. client-go uses 10 and 100.
    ///
    /// # Panics
    /// When a figure is zero: such a bucket would never let anything through.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        assert!(per_second > 0 && burst > 0, "a token bucket needs a rate and a burst above zero");
        Self { interval: Duration::from_secs(1) / per_second, burst, full_at: None }
    }

    /// Takes one token and returns how long to wait until it is there.
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
