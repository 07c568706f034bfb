//! Decides when a plugin's reference is looked at again. Pure: the outcome and randomness are passed in.

use std::time::Duration;

/// The wait after the first failure.
const FIRST: Duration = Duration::from_secs(2);
/// The longest wait after a failure.
const LONGEST: Duration = Duration::from_secs(300);

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reference was resolved, and the plugin is there.
    Current,
    /// It may work next time.
    TransientFailure,
    /// It fails until somebody changes something, perhaps in the registry.
    PermanentFailure,
}

/// The schedule of one plugin.
#[derive(Clone, Debug)]
pub struct Schedule {
    poll: Option<Duration>,
    failures: u32,
}

impl Schedule {
    /// Creates a schedule. `poll` is the interval for a tag; `None` for a digest, whose content never changes.
    #[must_use]
    pub fn new(poll: Option<Duration>) -> Self {
        Self { poll, failures: 0 }
    }

    /// Returns how long to wait until the next attempt; `None` if none is needed. `random` is in 0..1 and spreads the attempts of many
    /// plugins and hosts.
    pub fn after(&mut self, outcome: Outcome, random: f64) -> Option<Duration> {
        let wait = match outcome {
            Outcome::Current => {
                self.failures = 0;
                self.poll?
            }
            Outcome::TransientFailure => {
                let wait = FIRST * 2_u32.pow(self.failures.min(8));
                self.failures += 1;
                wait.min(LONGEST)
            }
            // A signature may be pushed after its artifact, so a digest is looked at again, too.
            Outcome::PermanentFailure => self.poll.unwrap_or(LONGEST).min(LONGEST),
        };
        Some(wait.mul_f64(0.8 + 0.4 * random.clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waits without jitter, in seconds.
    fn waits(schedule: &mut Schedule, outcome: Outcome, times: usize) -> Vec<Option<u64>> {
        (0..times).map(|_| schedule.after(outcome, 0.5).map(|wait| wait.as_secs())).collect()
    }

    #[test]
    fn a_tag_is_polled_and_a_digest_is_not() {
        let mut tag = Schedule::new(Some(Duration::from_secs(60)));
        assert_eq!(waits(&mut tag, Outcome::Current, 2), [Some(60), Some(60)]);
        assert_eq!(Schedule::new(None).after(Outcome::Current, 0.5), None);
        assert!(Schedule::new(None).after(Outcome::PermanentFailure, 0.5).is_some());
    }

    #[test]
    fn failures_wait_longer_and_a_success_resets_them() {
        let mut schedule = Schedule::new(Some(Duration::from_secs(60)));
        assert_eq!(waits(&mut schedule, Outcome::TransientFailure, 4), [Some(2), Some(4), Some(8), Some(16)]);
        assert_eq!(waits(&mut schedule, Outcome::TransientFailure, 20).last(), Some(&Some(300)));
        schedule.after(Outcome::Current, 0.5);
        assert_eq!(waits(&mut schedule, Outcome::TransientFailure, 1), [Some(2)]);
    }

    #[test]
    fn jitter_stays_within_a_fifth() {
        for random in [-1.0, 0.0, 0.3, 1.0, 7.0] {
            let wait = Schedule::new(Some(Duration::from_secs(100))).after(Outcome::Current, random);
            let seconds = wait.expect("a poll").as_secs_f64();
            assert!((80.0..=120.0).contains(&seconds), "{random}: {seconds}");
        }
    }
}
