//! Limits the lines and bytes that are logged about a plugin: two token buckets, with the time passed in.

use std::time::Duration;

use tokio::time::Instant;

/// The burst, in seconds' worth of the rate.
const BURST_SECONDS: f64 = 10.0;
/// The minimum interval between two reports of dropped lines.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The allowed rate per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) lines: u32,
    pub(super) bytes: u32,
}

/// A rate limiter for log lines. A line is admitted while neither bucket is empty. Its bytes are charged
/// after it was formatted, into debt if necessary; the debt is small, because `limits.logLineSize` bounds a
/// line.
pub(super) struct LineLimiter {
    rate: Rate,
    lines: f64,
    bytes: f64,
    refilled: Instant,
    dropped: u64,
    reported: Option<Instant>,
    empty_bucket: EmptyBucket,
}

/// The bucket that was empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmptyBucket {
    Lines,
    Bytes,
}

/// The lines that were dropped since the last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DroppedLines {
    pub(super) lines: u64,
    pub(super) empty_bucket: EmptyBucket,
    pub(super) rate: Rate,
}

impl LineLimiter {
    /// A limiter with full buckets.
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        let (lines, bytes) = capacity(rate);
        Self {
            rate,
            lines,
            bytes,
            refilled: now,
            dropped: 0,
            reported: None,
            empty_bucket: EmptyBucket::Lines,
        }
    }

    /// Changes the rate. Tokens that were used stay used, so that a reload does not allow a new burst.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        let (lines, bytes) = capacity(rate);
        self.rate = rate;
        (self.lines, self.bytes) = (self.lines.min(lines), self.bytes.min(bytes));
    }

    /// Whether a line may be written now. The caller must then [charge](Self::charge) its bytes.
    pub(super) fn try_admit(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.refilled = self.refilled.max(now);
        let (lines, bytes) = capacity(self.rate);
        self.lines = (self.lines + elapsed * f64::from(self.rate.lines)).min(lines);
        self.bytes = (self.bytes + elapsed * f64::from(self.rate.bytes)).min(bytes);
        let empty_bucket = match (self.lines >= 1.0, self.bytes > 0.0) {
            (true, true) => {
                self.lines -= 1.0;
                return true;
            }
            (false, _) => EmptyBucket::Lines,
            (true, false) => EmptyBucket::Bytes,
        };
        self.empty_bucket = empty_bucket;
        self.dropped += 1;
        false
    }

    /// Counts lines that were dropped without asking, because they follow a dropped line.
    pub(super) fn count_dropped(&mut self, lines: u64) {
        self.dropped = self.dropped.saturating_add(lines);
    }

    /// Charges the bytes of an admitted line.
    pub(super) fn charge(&mut self, bytes: usize) {
        self.bytes -= f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Returns the lines dropped since the last report, unless that was less than a second ago.
    pub(super) fn take_due_report(&mut self, now: Instant) -> Option<DroppedLines> {
        let is_due = self.reported.is_none_or(|last| now.saturating_duration_since(last) >= REPORT_EVERY);
        if self.dropped == 0 || !is_due {
            return None;
        }
        self.reported = Some(now);
        Some(DroppedLines {
            lines: std::mem::take(&mut self.dropped),
            empty_bucket: self.empty_bucket,
            rate: self.rate,
        })
    }
}

fn capacity(rate: Rate) -> (f64, f64) {
    (f64::from(rate.lines) * BURST_SECONDS, f64::from(rate.bytes) * BURST_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { lines: 2, bytes: 100 };

    #[test]
    fn a_burst_of_lines_passes_then_lines_are_dropped_until_the_bucket_refills() {
        let start = Instant::now();
        let mut limiter = LineLimiter::new(RATE, start);
        assert!((0..20).all(|_| limiter.try_admit(start)));
        assert!(!limiter.try_admit(start) && !limiter.try_admit(start));
        let later = start + Duration::from_millis(500);
        assert!(limiter.try_admit(later) && !limiter.try_admit(later));
        assert_eq!(
            limiter.take_due_report(later),
            Some(DroppedLines { lines: 3, empty_bucket: EmptyBucket::Lines, rate: RATE })
        );
    }

    #[test]
    fn few_long_lines_use_up_the_bytes() {
        let start = Instant::now();
        let mut limiter = LineLimiter::new(RATE, start);
        for _ in 0..2 {
            assert!(limiter.try_admit(start));
            limiter.charge(600);
        }
        assert!(!limiter.try_admit(start), "1,200 of 1,000 bytes were written");
        assert_eq!(limiter.take_due_report(start).expect("a loss").empty_bucket, EmptyBucket::Bytes);
        assert!(!limiter.try_admit(start + Duration::from_secs(1)), "it is still in debt");
        assert!(limiter.try_admit(start + Duration::from_secs(3)));
    }

    #[test]
    fn dropped_lines_are_reported_at_most_once_a_second() {
        let start = Instant::now();
        let mut limiter = LineLimiter::new(Rate { lines: 0, bytes: 1 }, start);
        assert_eq!(limiter.take_due_report(start), None);
        assert!(!limiter.try_admit(start));
        assert!(limiter.take_due_report(start).is_some());
        assert!(!limiter.try_admit(start));
        assert_eq!(limiter.take_due_report(start + REPORT_EVERY / 2), None);
        assert_eq!(
            limiter.take_due_report(start + REPORT_EVERY).map(|dropped_lines| dropped_lines.lines),
            Some(1)
        );
    }

    #[test]
    fn lines_that_were_dropped_without_asking_are_in_the_report() {
        let start = Instant::now();
        let mut limiter = LineLimiter::new(Rate { lines: 0, bytes: 1 }, start);
        assert!(!limiter.try_admit(start));
        limiter.count_dropped(41);
        assert_eq!(limiter.take_due_report(start).map(|dropped_lines| dropped_lines.lines), Some(42));
    }

    #[test]
    fn changing_the_rate_does_not_allow_a_new_burst() {
        let start = Instant::now();
        let mut limiter = LineLimiter::new(RATE, start);
        while limiter.try_admit(start) {}
        limiter.set_rate(Rate { lines: 1000, bytes: 1000 });
        assert!(!limiter.try_admit(start));
        limiter.set_rate(RATE);
        assert!(!limiter.try_admit(start));
    }
}
