//! Shrinks a plan that shows an error: fewer deviations first, then smaller numbers.

mod ddmin;
mod numbers;

use crate::plan::Deviation;

pub use ddmin::ddmin;

/// The number of plans that are tried for one finding.
pub const MAX_ATTEMPTS: usize = 300;

/// Returns the smallest list of deviations found with which the same error still happens. `fails` runs a candidate. The
/// result fails, if the given list does, and has no deviation that could be left out alone, unless `max_attempts` were used up.
pub fn shrink(
    deviations: Vec<Deviation>,
    max_attempts: usize,
    mut fails: impl FnMut(&[Deviation]) -> bool,
) -> Vec<Deviation> {
    let mut attempts = 0;
    let mut bounded = |candidate: &[Deviation]| {
        attempts += 1;
        attempts <= max_attempts && fails(candidate)
    };
    let fewer = ddmin(deviations, &mut bounded);
    numbers::reduce(fewer, &mut bounded)
}
