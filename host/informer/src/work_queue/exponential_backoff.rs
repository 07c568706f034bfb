//! Delays that double.

use std::time::Duration;

/// A delay that doubles with each failure: `base · 2ⁿ`, at most `max`.
///
/// The defaults are those of client-go's `ItemExponentialFailureRateLimiter` in a controller.
///
/// ```
/// use std::time::Duration;
/// use pilothouse_informer::ExponentialBackoff;
///
/// let backoff = ExponentialBackoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// assert_eq!(backoff.delay(0), Duration::from_secs(1));
/// assert_eq!(backoff.delay(3), Duration::from_secs(8));
/// assert_eq!(backoff.delay(100), Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExponentialBackoff {
    /// The delay before the first retry. Default: 5 ms.
    pub base: Duration,
    /// The longest delay. Default: 1000 s.
    pub max: Duration,
}

impl Default for ExponentialBackoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl ExponentialBackoff {
    /// Creates a backoff from the delay before the first retry and the longest delay.
    #[must_use]
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }

    /// Returns the delay after `failures` earlier retries.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures);
        factor.and_then(|factor| self.base.checked_mul(factor)).map_or(self.max, |delay| delay.min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_from_5_ms_up_to_1000_s() {
        let backoff = ExponentialBackoff::default();
        assert_eq!(backoff.delay(0), Duration::from_millis(5));
        assert_eq!(backoff.delay(1), Duration::from_millis(10));
        assert_eq!(backoff.delay(10), Duration::from_millis(5120));
        for failures in [18, 31, 32, 1000, u32::MAX] {
            assert_eq!(backoff.delay(failures), Duration::from_secs(1000), "after {failures} failures");
        }
    }
}
