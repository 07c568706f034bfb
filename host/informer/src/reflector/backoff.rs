//! Exponential backoff, and the other random delays of a reflector.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

/// The lower bound of the first wait.
const BASE: Duration = Duration::from_millis(800);
/// The upper bound of all waits (exclusive).
const MAX: Duration = Duration::from_secs(30);
/// The longest wait that a server can request. A mistaken or hostile `Retry-After` must not silence an informer.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// The upper bound of the random delay with which informers resume when the server is back.
const RESUME_JITTER: Duration = Duration::from_millis(750);
/// The lower bound of the idle time after which the first watch after a lost connection is verified.
const MIN_VERIFICATION_IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// After this long without a failure, the backoff starts from the beginning.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// Exponential backoff with jitter: the n-th wait is drawn from `[d, 2d)` with d = min(800 ms · 2ⁿ, 15 s), so every wait is below
/// 30 s. The bounds are those of client-go's reflector (800 ms to 30 s, reset after 2 min).
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    /// When the last wait ends.
    last_wait_end: Option<Instant>,
    rng: SmallRng,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Self { failures: 0, last_wait_end: None, rng: SmallRng::seed_from_u64(seed) }
    }

    /// Returns how long to wait after a failure at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Duration {
        if self.last_wait_end.is_some_and(|end| now.saturating_duration_since(end) >= RESET_AFTER) {
            self.failures = 0;
        }
        let floor = BASE.saturating_mul(1 << self.failures.min(10)).min(MAX / 2);
        self.failures = self.failures.saturating_add(1);
        let wait = self.rng.random_range(floor..floor * 2);
        self.last_wait_end = Some(now + wait);
        wait
    }

    /// Returns how long to wait if the server requests `requested` (`Retry-After`): that long, but at most one minute. `None`
    /// if it is below 800 ms (0, for example): then [`next`](Self::next) decides, whose waits grow.
    pub(super) fn bounded_retry_after(requested: Duration) -> Option<Duration> {
        (requested >= BASE).then(|| requested.min(MAX_RETRY_AFTER))
    }

    /// Draws the delay that spreads informers which resume together, from [0, 750) ms.
    pub(super) fn resume_jitter(&mut self) -> Duration {
        self.rng.random_range(Duration::ZERO..RESUME_JITTER)
    }

    /// Draws the idle time after which the first watch after a lost connection is verified, from [2, 6) s.
    pub(super) fn verification_idle_timeout(&mut self) -> Duration {
        self.rng.random_range(MIN_VERIFICATION_IDLE_TIMEOUT..MIN_VERIFICATION_IDLE_TIMEOUT * 3)
    }

    /// Draws the server-side timeout of a watch in seconds, from [5, 10) minutes as client-go does, so that watches that
    /// started together do not end together.
    pub(super) fn watch_timeout(&mut self) -> u32 {
        self.rng.random_range(300..600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_from_800_ms_to_below_30_s_with_jitter() {
        let now = Instant::now();
        let mut first = Vec::new();
        for seed in 0..100 {
            let mut backoff = Backoff::new(seed);
            let waits: Vec<_> = (0..12).map(|_| backoff.next(now)).collect();
            assert!((BASE..BASE * 2).contains(&waits[0]), "{waits:?}");
            assert!((BASE * 2..BASE * 4).contains(&waits[1]), "{waits:?}");
            assert!(waits.iter().all(|wait| *wait < MAX), "{waits:?}");
            assert!(waits[11] >= MAX / 2, "{waits:?}");
            first.push(waits[0]);
        }
        first.sort_unstable();
        first.dedup();
        assert!(first.len() > 50, "jitter");
    }

    #[test]
    fn two_minutes_without_failure_reset_the_backoff() {
        let mut now = Instant::now();
        let mut backoff = Backoff::new(1);
        for _ in 0..6 {
            now += backoff.next(now);
        }
        // The time without failures starts when the wait ends, which is here.
        assert!(backoff.next(now + Duration::from_secs(119)) >= MAX / 2);
        let healthy = now + Duration::from_secs(119 + 30 + 120);
        assert!(backoff.next(healthy) < BASE * 2);
    }

    #[test]
    fn watch_timeouts_are_drawn_from_five_to_ten_minutes() {
        let mut backoff = Backoff::new(3);
        let timeouts: Vec<_> = (0..1000).map(|_| backoff.watch_timeout()).collect();
        assert!(timeouts.iter().all(|timeout| (300..600).contains(timeout)));
        assert!(
            timeouts.iter().any(|timeout| *timeout < 330) && timeouts.iter().any(|timeout| *timeout > 570)
        );
    }
}
