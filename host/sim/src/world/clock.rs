//! Virtual time. It continues when a host crashes, although each host has a runtime with a clock of its own.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_apiserver::Clock;
use tokio::time::Instant;

/// The time of day at which every run starts, in seconds since 1970: 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600;

/// The clock of one run. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct VirtualClock(Arc<Mutex<Reading>>);

/// How much time had passed at a point of the current runtime's time.
#[derive(Clone, Copy, Debug)]
struct Reading {
    passed: Duration,
    /// `None` while no runtime exists: time stands still.
    at: Option<Instant>,
}

impl VirtualClock {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Reading { passed: Duration::ZERO, at: None })))
    }

    /// Follows the time of the current runtime from now on.
    pub(super) fn resume(&self) {
        self.0.lock().at = Some(Instant::now());
    }

    /// Stops, because the runtime ends.
    pub(super) fn pause(&self) {
        let mut reading = self.0.lock();
        *reading = Reading { passed: reading.passed(), at: None };
    }

    /// Returns the virtual milliseconds since the start.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.0.lock().passed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the point of the current runtime's time at which this many milliseconds have passed since the start.
    pub(super) fn instant(&self, ms: u64) -> Instant {
        let reading = *self.0.lock();
        let passed = reading.passed();
        let now = reading.at.map_or_else(Instant::now, |at| at + (passed - reading.passed));
        now + Duration::from_millis(ms).saturating_sub(passed)
    }

    /// Returns the virtual time of day.
    pub(super) fn time_of_day(&self) -> Timestamp {
        let start = Timestamp::from_second(START).unwrap_or(Timestamp::UNIX_EPOCH);
        start.checked_add(self.0.lock().passed()).unwrap_or(Timestamp::MAX)
    }
}

impl Reading {
    fn passed(self) -> Duration {
        self.passed + self.at.map_or(Duration::ZERO, |at| at.elapsed())
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.time_of_day()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().expect("a runtime")
    }

    #[test]
    fn time_continues_in_the_next_runtime() {
        let clock = VirtualClock::new();
        for expected in [1_500, 3_000] {
            runtime().block_on(async {
                clock.resume();
                tokio::time::sleep_until(clock.instant(expected)).await;
                assert_eq!(clock.now_ms(), expected);
                clock.pause();
            });
        }
        assert_eq!(clock.time_of_day().to_string(), "2026-01-01T00:00:03Z");
    }
}
