//! When the permissions of a service account are reviewed, and what follows from the answer. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::access_state::Suspension;
use super::reviewer::ReviewOutcome;
use crate::lifecycle::WaitingFor;

/// How soon a missing permission is checked again.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// How long an answer remains valid while the server cannot be asked. kube-apiserver caches the answers of an
/// authorization webhook for as long.
const MAX_ANSWER_AGE: Duration = Duration::from_mins(5);

/// When to review, and what follows from the answer.
#[derive(Debug)]
pub(super) struct ReviewSchedule {
    interval: Duration,
    /// When the server last answered.
    last_answer: Instant,
}

/// What to do after a review.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The missing permissions from now on; `None` leaves them unchanged.
    pub(super) missing: Option<Vec<Suspension>>,
    pub(super) next: Duration,
}

impl ReviewSchedule {
    /// A schedule after a review that allowed everything.
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, last_answer: now }
    }

    /// Returns the next step. `jitter` is random, from 0 to 1, and spreads the reviews of many plugins.
    pub(super) fn step(&mut self, outcome: ReviewOutcome, now: Instant, jitter: f64) -> Step {
        let soon = RETRY_INTERVAL.min(self.interval);
        match outcome {
            ReviewOutcome::Allowed => {
                self.last_answer = now;
                Step { missing: Some(Vec::new()), next: self.period(jitter) }
            }
            ReviewOutcome::Missing(missing) => {
                self.last_answer = now;
                Step { missing: Some(missing), next: soon }
            }
            // An unreachable server does not invalidate its last answer, but only for a limited time.
            ReviewOutcome::Unknown(_) if now.duration_since(self.last_answer) < MAX_ANSWER_AGE => {
                Step { missing: None, next: soon }
            }
            ReviewOutcome::Unknown(error) => {
                let minutes = MAX_ANSWER_AGE.as_secs() / 60;
                let text = format!("its permissions could not be reviewed for {minutes} min: {error}");
                let suspension = Suspension { watch: None, reason: WaitingFor::AccessReview(text) };
                Step { missing: Some(vec![suspension]), next: soon }
            }
        }
    }

    /// The time to the next review while nothing is missing: 80 % to 120 % of the interval.
    pub(super) fn period(&self, jitter: f64) -> Duration {
        self.interval.mul_f64(0.8 + 0.4 * jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::RequestError;

    const INTERVAL: Duration = Duration::from_secs(30);

    fn away() -> ReviewOutcome {
        ReviewOutcome::Unknown(RequestError::Transport("refused".into()))
    }

    #[test]
    fn reviews_spread_around_their_period() {
        let now = Instant::now();
        let mut schedule = ReviewSchedule::new(INTERVAL, now);
        for (jitter, seconds) in [(0.0, 24), (0.5, 30), (1.0, 36)] {
            let step = schedule.step(ReviewOutcome::Allowed, now, jitter);
            assert_eq!(step, Step { missing: Some(vec![]), next: Duration::from_secs(seconds) });
        }
    }

    #[test]
    fn a_missing_permission_is_reviewed_again_soon() {
        let now = Instant::now();
        let missing = vec![Suspension { watch: None, reason: WaitingFor::AccountPermission("gone".into()) }];
        let step = ReviewSchedule::new(INTERVAL, now).step(ReviewOutcome::Missing(missing.clone()), now, 0.0);
        assert_eq!(step, Step { missing: Some(missing.clone()), next: RETRY_INTERVAL });
        let often = Duration::from_millis(100);
        let step = ReviewSchedule::new(often, now).step(ReviewOutcome::Missing(missing), now, 0.0);
        assert_eq!(step.next, often);
    }

    #[test]
    fn the_last_answer_expires_while_the_server_is_unreachable() {
        let start = Instant::now();
        let mut schedule = ReviewSchedule::new(INTERVAL, start);
        let almost = start + MAX_ANSWER_AGE - Duration::from_millis(1);
        assert_eq!(schedule.step(away(), almost, 0.0), Step { missing: None, next: RETRY_INTERVAL });
        let step = schedule.step(away(), start + MAX_ANSWER_AGE, 0.0);
        assert!(step.missing.is_some_and(|missing| missing[0].reason.to_string().contains("refused")));
        // An answer restarts the time.
        schedule.step(ReviewOutcome::Allowed, start + MAX_ANSWER_AGE, 0.0);
        assert_eq!(schedule.step(away(), start + MAX_ANSWER_AGE + INTERVAL, 0.0).missing, None);
    }
}
