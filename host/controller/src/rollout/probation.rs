//! A version in probation: since when it has worked, and compared with what. Pure: the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;

use super::decision::{Counts, Decision, Observation, decide};
use super::known_version::KnownVersion;

/// The state of the running version at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// The plugin's counters, which all its versions share.
    pub(crate) counts: Counts,
    pub(crate) errors_in_a_row: u64,
    pub(crate) is_backing_off: bool,
    /// Whether the version is paused or suspended.
    pub(crate) is_blocked: bool,
}

/// A version in probation.
#[derive(Clone, Debug)]
pub(super) struct Probation {
    /// The version's SHA-256.
    pub(super) digest: String,
    /// The last version that has proved itself, which runs again if this one does not.
    pub(super) previous: KnownVersion,
    /// The reconciles of that version.
    pub(super) old: Counts,
    pub(super) period: Duration,
    /// How often the host has ended without a shutdown meanwhile.
    pub(super) abrupt_ends: u32,
    /// The plugin's counters when the version was installed.
    start: Counts,
    worked: Duration,
    /// When `worked` was last brought up to date.
    checked: Instant,
}

impl Probation {
    /// Starts the probation of a version that was just installed.
    pub(super) fn begin(
        digest: String,
        (previous, old): (KnownVersion, Counts),
        period: Duration,
        start: Counts,
        now: Instant,
    ) -> Self {
        Self { digest, previous, old, period, abrupt_ends: 0, start, worked: Duration::ZERO, checked: now }
    }

    /// Continues after a change of the sidecar, or after a restart of the host.
    pub(super) fn resume(&mut self, period: Duration, now: Instant) {
        self.period = period;
        self.checked = now;
    }

    /// Decides about the version. To be called often: the state now is taken as that since the last call.
    pub(super) fn check(&mut self, sample: &Sample, now: Instant) -> Decision {
        if !sample.is_blocked {
            self.worked += now.saturating_duration_since(self.checked);
        }
        self.checked = now;
        decide(&Observation {
            worked: self.worked,
            period: self.period,
            is_blocked: sample.is_blocked,
            is_backing_off: sample.is_backing_off,
            errors_in_a_row: sample.errors_in_a_row,
            abrupt_ends: self.abrupt_ends,
            new: self.counts(sample.counts),
            old: self.old,
        })
    }

    /// Returns the reconciles of the version, from the plugin's counters.
    pub(super) fn counts(&self, counters: Counts) -> Counts {
        counters.since(self.start)
    }

    /// Returns for how long the version still has to work.
    pub(super) fn remaining(&self) -> Duration {
        self.period.saturating_sub(self.worked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn begun(now: Instant) -> Probation {
        let previous = KnownVersion::for_test("old");
        let start = Counts { reconciles: 1000, errors: 500 };
        Probation::begin("new".to_owned(), (previous, Counts::default()), 10 * SECOND, start, now)
    }

    #[test]
    fn the_time_in_which_a_version_may_not_work_does_not_count() {
        let start = Instant::now();
        let mut probation = begun(start);
        let working = Sample { counts: Counts { reconciles: 1000, errors: 500 }, ..Sample::default() };
        let paused = Sample { is_blocked: true, ..working };
        assert_eq!(probation.check(&working, start + 4 * SECOND), Decision::Wait);
        assert_eq!(probation.check(&paused, start + 3600 * SECOND), Decision::Wait);
        assert_eq!(probation.remaining(), 6 * SECOND);
        assert_eq!(probation.check(&working, start + 3605 * SECOND), Decision::Wait);
        assert_eq!(probation.check(&working, start + 3606 * SECOND), Decision::Pass);
    }

    #[test]
    fn only_the_reconciles_of_the_version_itself_count() {
        let start = Instant::now();
        let mut probation = begun(start);
        let sample =
            |reconciles, errors| Sample { counts: Counts { reconciles, errors }, ..Sample::default() };
        assert_eq!(probation.check(&sample(1100, 500), start), Decision::Wait);
        let Decision::RollBack(cause) = probation.check(&sample(1200, 550), start) else {
            panic!("a quarter of its reconciles failed")
        };
        assert!(cause.to_string().starts_with("50 of 200 reconciles failed"), "{cause}");
    }
}
