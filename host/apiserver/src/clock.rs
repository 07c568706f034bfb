//! Where timestamps come from, so that tests and simulations decide what time it is.

use jiff::Timestamp;

/// A source of wall-clock time.
pub trait Clock: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that starts at a given moment and moves with tokio's time: in a test with paused time it is virtual.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    epoch: Timestamp,
    start: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `epoch` now. Must be called within a tokio runtime.
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

/// The form of `metav1.Time`: RFC 3339 in UTC, whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_moves_with_virtual_time() {
        let clock = TokioClock::starting_at("2026-01-02T03:04:05Z".parse().expect("a timestamp"));
        tokio::time::advance(std::time::Duration::from_millis(61_500)).await;
        assert_eq!(seconds(clock.now()), "2026-01-02T03:05:06Z");
    }
}
