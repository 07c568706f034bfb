//! Searches for plans under which a plugin does something wrong.
//!
//! The order of work: *reference* runs the default schedule twice with different seeds, and again with what tests *idempotence*; *plans* derives a plan for each
//! fault at each point of the reference; *pairs* combines those that concern the same resource; *random* draws plans from seeds;
//! *exhaustive* tries all pairs. Everything follows from the master seed.

pub mod batches;
mod budget;
pub mod driver;
pub mod executor;
pub mod faults;
pub mod pairs;
pub mod past;
pub mod plans;
pub mod points;
pub mod random;
pub mod random_source;
pub mod repetition;
mod stages;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use budget::Budget;
pub use driver::{SearchOptions, SearchOutcome, SearchProgress, search};
pub use executor::Executor;
pub(crate) use faults::MAX_REQUEST_DELAY;
pub use faults::{FaultClass, FaultSelection};
pub use stages::all_plans;

/// A way to choose plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// The default schedule.
    Reference,
    /// One idea per plan.
    Plans,
    /// Two ideas per plan.
    Pairs,
    /// Random plans.
    Random,
    /// All single plans and all their pairs.
    Exhaustive,
}

impl Strategy {
    /// All strategies, in the order in which they are used.
    pub const ALL: [Self; 5] = [Self::Reference, Self::Plans, Self::Pairs, Self::Random, Self::Exhaustive];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Plans => "plans",
            Self::Pairs => "pairs",
            Self::Random => "random",
            Self::Exhaustive => "exhaustive",
        }
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or_else(|| {
            format!("{name:?} is no strategy; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

#[cfg(test)]
mod tests;
