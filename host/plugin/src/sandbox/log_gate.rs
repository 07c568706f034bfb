//! How many log lines an instance may write.

use tokio::time::Instant;

/// How many seconds' worth of lines may come at once.
const BURST_SECONDS: u32 = 10;

/// A token bucket over log lines. Time is passed in.
pub(crate) struct LogGate {
    per_second: f64,
    capacity: f64,
    tokens: f64,
    refilled: Instant,
    dropped: u64,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passes; so many lines were dropped since the last one that did.
    Pass { dropped_before: u64 },
    /// It is dropped.
    Drop,
}

impl LogGate {
    pub(crate) fn new(lines_per_second: u32, now: Instant) -> Self {
        let capacity = f64::from(lines_per_second.saturating_mul(BURST_SECONDS));
        Self {
            per_second: f64::from(lines_per_second),
            capacity,
            tokens: capacity,
            refilled: now,
            dropped: 0,
        }
    }

    pub(crate) fn judge(&mut self, now: Instant) -> Verdict {
        let elapsed = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.refilled = now;
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.capacity);
        if self.tokens < 1.0 {
            self.dropped += 1;
            return Verdict::Drop;
        }
        self.tokens -= 1.0;
        Verdict::Pass { dropped_before: std::mem::take(&mut self.dropped) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
