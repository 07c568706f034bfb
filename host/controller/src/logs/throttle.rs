//! Limits how often one message is logged.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Limits a repeated log message to one per minute.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<Option<Instant>>);

impl LogThrottle {
    const INTERVAL: Duration = Duration::from_mins(1);

    /// Returns whether the message may be logged now. If so, the next one has to wait.
    pub(crate) fn try_acquire(&self, now: Instant) -> bool {
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= Self::INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_throttled_message_is_due_once_a_minute() {
        let throttle = LogThrottle::default();
        assert!(throttle.try_acquire(Instant::now()));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(!throttle.try_acquire(Instant::now()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(throttle.try_acquire(Instant::now()));
    }
}
