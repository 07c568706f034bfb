//! The server's source of time. Tests and simulations replace it to control timestamps.

use jiff::Timestamp;

/// A source of wall-clock time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place where the server reads the system clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that starts at a given time and advances with tokio's clock, so that it follows paused time in tests.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    epoch: Timestamp,
    start: tokio::time::Instant,
}

impl TokioClock {
    /// Creates a clock that reads `epoch` now.
    ///
    /// Call it within the tokio runtime whose time the clock is to follow.
    #[must_use]
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.epoch.checked_add(self.start.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// Formats `time` like `metav1.Time`: RFC 3339 in UTC with whole seconds.
pub(crate) fn rfc3339_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tokio_clock_advances_with_paused_time() {
        let clock = TokioClock::starting_at("2026-01-02T03:04:05Z".parse().expect("a timestamp"));
        tokio::time::advance(std::time::Duration::from_millis(61_500)).await;
        assert_eq!(rfc3339_seconds(clock.now()), "2026-01-02T03:05:06Z");
    }
}
