//! When the rights of a service account are reviewed, and what follows from the answer. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::permission::Missing;
use super::reviewer::Reviewed;

/// How soon a missing right is checked again.
pub(crate) const AGAIN: Duration = Duration::from_secs(2);
/// How long an answer remains valid while the server cannot be asked. kube-apiserver caches the answers of an
/// authorization webhook for as long.
const COUNTS: Duration = Duration::from_mins(5);

/// When to review, and what follows from the answer.
#[derive(Debug)]
pub(super) struct Course {
    every: Duration,
    /// When the server last answered.
    known: Instant,
}

/// What to do after a review.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The missing rights from now on; `None` leaves them unchanged.
    pub(super) missing: Option<Vec<Missing>>,
    pub(super) next: Duration,
}

impl Course {
    /// A schedule after a review that allowed everything.
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self { every, known: now }
    }

    /// Returns the next step. `jitter` is random, from 0 to 1, and spreads the reviews of many plugins.
    pub(super) fn step(&mut self, reviewed: Reviewed, now: Instant, jitter: f64) -> Step {
        let soon = AGAIN.min(self.every);
        match reviewed {
            Reviewed::Allowed => {
                self.known = now;
                Step { missing: Some(Vec::new()), next: self.period(jitter) }
            }
            Reviewed::Missing(missing) => {
                self.known = now;
                Step { missing: Some(missing), next: soon }
            }
            // An unreachable server does not invalidate its last answer, but only for a limited time.
            Reviewed::Unknown(_) if now.duration_since(self.known) < COUNTS => {
                Step { missing: None, next: soon }
            }
            Reviewed::Unknown(error) => {
                let minutes = COUNTS.as_secs() / 60;
                let text = format!("its rights could not be reviewed for {minutes} min: {error}");
                Step { missing: Some(vec![Missing { watch: None, text }]), next: soon }
            }
        }
    }

    /// The time to the next review while nothing is missing: 80 % to 120 % of the interval.
    pub(super) fn period(&self, jitter: f64) -> Duration {
        self.every.mul_f64(0.8 + 0.4 * jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ServerError;

    const EVERY: Duration = Duration::from_secs(30);

    fn away() -> Reviewed {
        Reviewed::Unknown(ServerError::Transport("refused".into()))
    }

    #[test]
    fn reviews_spread_around_their_period() {
        let now = Instant::now();
        let mut course = Course::new(EVERY, now);
        for (jitter, seconds) in [(0.0, 24), (0.5, 30), (1.0, 36)] {
            let step = course.step(Reviewed::Allowed, now, jitter);
            assert_eq!(step, Step { missing: Some(vec![]), next: Duration::from_secs(seconds) });
        }
    }

    #[test]
    fn what_is_missing_is_asked_for_again_soon() {
        let now = Instant::now();
        let missing = vec![Missing { watch: None, text: "gone".into() }];
        let step = Course::new(EVERY, now).step(Reviewed::Missing(missing.clone()), now, 0.0);
        assert_eq!(step, Step { missing: Some(missing.clone()), next: AGAIN });
        let often = Duration::from_millis(100);
        let step = Course::new(often, now).step(Reviewed::Missing(missing), now, 0.0);
        assert_eq!(step.next, often);
    }

    #[test]
    fn the_last_answer_counts_for_a_while_and_no_longer() {
        let start = Instant::now();
        let mut course = Course::new(EVERY, start);
        let almost = start + COUNTS - Duration::from_millis(1);
        assert_eq!(course.step(away(), almost, 0.0), Step { missing: None, next: AGAIN });
        let step = course.step(away(), start + COUNTS, 0.0);
        assert!(step.missing.is_some_and(|missing| missing[0].text.contains("refused")));
        // An answer restarts the time.
        course.step(Reviewed::Allowed, start + COUNTS, 0.0);
        assert_eq!(course.step(away(), start + COUNTS + EVERY, 0.0).missing, None);
    }
}
