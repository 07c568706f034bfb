//! How long a search goes on.

use std::time::Duration;

/// The budget of a search. Runs for shrinking count for a time, but not for a number of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// This many runs. The same runs are made on every machine.
    Runs(u64),
    /// This much time, by the clock that the search is given. How many runs that are depends on the machine.
    Time(Duration),
}

impl Budget {
    /// Whether the budget is used up.
    #[must_use]
    pub fn is_used_up(self, runs: u64, elapsed: Duration) -> bool {
        match self {
            Self::Runs(limit) => runs >= limit,
            Self::Time(limit) => elapsed >= limit,
        }
    }

    /// Returns how many more runs are allowed; a time allows any number until it is over.
    #[must_use]
    pub fn remaining_runs(self, runs: u64) -> u64 {
        match self {
            Self::Runs(limit) => limit.saturating_sub(runs),
            Self::Time(_) => u64::MAX,
        }
    }
}
