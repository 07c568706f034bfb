//! How long a plugin waits before it is tried again. Pure: the caller passes the randomness.

use std::time::Duration;

use pilothouse_informer::ExponentialBackoff;

/// The first delay, before jitter.
const BASE_DELAY: Duration = Duration::from_secs(1);
/// The longest delay, before jitter.
const MAX_DELAY: Duration = Duration::from_secs(300);

/// Returns the delay after `failures` earlier ones: 1 s · 2ⁿ up to 5 min, with 20 % of jitter in both
/// directions by `jitter`, from 0 to 1. The jitter keeps plugins that failed together from being retried
/// together.
pub(crate) fn delay(failures: u32, jitter: f64) -> Duration {
    let delay = ExponentialBackoff::new(BASE_DELAY, MAX_DELAY).delay(failures);
    delay.mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_from_one_second_to_five_minutes() {
        let delays: Vec<_> = (0..12).map(|failures| delay(failures, 0.5).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(delay(u32::MAX, 0.5), MAX_DELAY);
    }

    #[test]
    fn jitter_changes_a_delay_by_at_most_20_percent() {
        assert_eq!(delay(0, 0.0), Duration::from_millis(800));
        assert_eq!(delay(0, 1.0), Duration::from_millis(1200));
        assert_eq!(delay(0, 7.0), delay(0, 1.0));
    }
}
