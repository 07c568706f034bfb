//! How many log lines the instances of a plugin may write.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many seconds' worth of lines may come at once.
const BURST_SECONDS: u32 = 10;
/// How often it is said that lines are being dropped, at most.
const SAID_EVERY: Duration = Duration::from_secs(1);

/// A token bucket over log lines. Time is passed in.
pub(crate) struct LogGate {
    per_second: u32,
    capacity: f64,
    tokens: f64,
    refilled: Instant,
    dropped: u64,
    said: Option<Instant>,
}

/// One gate for all instances of a pool: a plugin gets no more lines by having more workers, or by trapping and being made anew.
pub(crate) type SharedLogGate = Arc<Mutex<LogGate>>;

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passes; so many lines were dropped since it was last said.
    Pass { dropped_before: u64 },
    /// It is dropped.
    Drop,
}

impl LogGate {
    pub(crate) fn shared(lines_per_second: u32) -> SharedLogGate {
        Arc::new(Mutex::new(Self::new(lines_per_second, Instant::now())))
    }

    pub(crate) fn new(lines_per_second: u32, now: Instant) -> Self {
        let capacity = f64::from(lines_per_second.saturating_mul(BURST_SECONDS));
        Self {
            per_second: lines_per_second,
            capacity,
            tokens: capacity,
            refilled: now,
            dropped: 0,
            said: None,
        }
    }

    pub(crate) fn per_second(&self) -> u32 {
        self.per_second
    }

    pub(crate) fn judge(&mut self, now: Instant) -> Verdict {
        let elapsed = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.refilled = now;
        self.tokens = (self.tokens + elapsed * f64::from(self.per_second)).min(self.capacity);
        if self.tokens < 1.0 {
            self.dropped += 1;
            return Verdict::Drop;
        }
        self.tokens -= 1.0;
        Verdict::Pass { dropped_before: self.take_dropped(now) }
    }

    /// Whether there may be something to [`account`](Self::account) for.
    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped > 0
    }

    /// How many lines were dropped since it was last said, if there are any and it was not said a moment ago: a flood that ends with its
    /// call is told of there, because perhaps no line follows it.
    pub(crate) fn account(&mut self, now: Instant) -> Option<u64> {
        let is_due = self.said.is_none_or(|said| now.saturating_duration_since(said) >= SAID_EVERY);
        (self.dropped > 0 && is_due).then(|| self.take_dropped(now))
    }

    fn take_dropped(&mut self, now: Instant) -> u64 {
        if self.dropped > 0 {
            self.said = Some(now);
        }
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_lines_are_dropped_and_counted_until_tokens_return() {
        let start = Instant::now();
        let mut gate = LogGate::new(2, start);
        for _ in 0..20 {
            assert_eq!(gate.judge(start), Verdict::Pass { dropped_before: 0 });
        }
        assert_eq!(gate.judge(start), Verdict::Drop);
        assert_eq!(gate.judge(start), Verdict::Drop);
        let later = start + Duration::from_millis(500);
        assert_eq!(gate.judge(later), Verdict::Pass { dropped_before: 2 });
        assert_eq!(gate.judge(later), Verdict::Drop);
    }

    #[test]
    fn a_loss_is_told_once_a_second_at_most() {
        let start = Instant::now();
        let mut gate = LogGate::new(0, start);
        assert_eq!(gate.account(start), None);
        assert_eq!(gate.judge(start), Verdict::Drop);
        assert_eq!(gate.account(start), Some(1));
        assert_eq!(gate.judge(start), Verdict::Drop);
        assert_eq!(gate.account(start + SAID_EVERY / 2), None);
        assert_eq!(gate.account(start + SAID_EVERY), Some(1));
    }
}
