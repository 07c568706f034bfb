//! How long a search goes on.

use std::time::Duration;

/// The budget of a search. Runs for shrinking count for a time, but not for a number of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// This many runs. The same runs are made on every machine. A run that does not come to rest counts as ten.
    Runs(u64),
    /// This much time, by the clock that the search is given. How many runs that are depends on the machine.
    Time(Duration),
    /// At most this many runs, and no longer than this time, so that a slow machine makes fewer runs.
    Both(u64, Duration),
}

impl Budget {
    /// Whether the budget is used up.
    #[must_use]
    pub fn is_used_up(self, runs: u64, elapsed: Duration) -> bool {
        match self {
            Self::Runs(limit) => runs >= limit,
            Self::Time(limit) => elapsed >= limit,
            Self::Both(most, limit) => runs >= most || elapsed >= limit,
        }
    }

    /// Whether the time is used up.
    #[must_use]
    pub fn is_time_up(self, elapsed: Duration) -> bool {
        match self {
            Self::Runs(_) => false,
            Self::Time(limit) | Self::Both(_, limit) => elapsed >= limit,
        }
    }

    /// Returns how many more runs are allowed; a time allows any number until it is over.
    #[must_use]
    pub fn remaining_runs(self, runs: u64) -> u64 {
        match self {
            Self::Runs(limit) | Self::Both(limit, _) => limit.saturating_sub(runs),
            Self::Time(_) => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_budget_of_both_ends_with_whichever_is_used_up_first() {
        let budget = Budget::Both(10, 5 * SECOND);
        assert!(!budget.is_used_up(9, 4 * SECOND));
        assert!(budget.is_used_up(10, SECOND));
        assert!(budget.is_used_up(1, 5 * SECOND));
        assert!(budget.is_time_up(5 * SECOND) && !budget.is_time_up(4 * SECOND));
        assert!(!Budget::Runs(0).is_time_up(5 * SECOND));
        assert_eq!(budget.remaining_runs(3), 7);
        assert_eq!(budget.remaining_runs(11), 0);
    }
}
