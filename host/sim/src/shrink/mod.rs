//! Shrinks a plan that shows an error: fewer deviations first, then smaller numbers, then fewer steps of actors.

mod ddmin;
mod numbers;

use crate::plan::{ActorStep, Deviation};

pub use ddmin::ddmin;

/// The number of plans that are tried for one finding.
pub const MAX_ATTEMPTS: usize = 300;
/// The number of selections of steps that are tried for one finding. Each needs a reference of its own, and so three runs.
pub const MAX_STEP_ATTEMPTS: usize = 24;

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

/// Leaves out as many of the steps as possible. `fails` runs a plan without the given steps, and returns whether the error still happens; the
/// last selection for which it does is the result.
pub fn leave_out(steps: Vec<ActorStep>, max_attempts: usize, mut fails: impl FnMut(&[ActorStep]) -> bool) {
    if steps.len() < 2 {
        return;
    }
    let mut attempts = 0;
    let all = steps.clone();
    ddmin(steps, &mut |kept: &[ActorStep]| {
        attempts += 1;
        let left_out: Vec<_> = all.iter().filter(|step| !kept.contains(step)).cloned().collect();
        attempts <= max_attempts && fails(&left_out)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_that_the_error_needs_are_kept() {
        let step = |step: u32| ActorStep { actor: "user".to_owned(), step };
        let mut smallest = Vec::new();
        leave_out((1..=12).map(step).collect(), 100, |left_out| {
            let is_needed = [2, 9].iter().all(|needed| !left_out.contains(&step(*needed)));
            if is_needed {
                smallest = left_out.to_vec();
            }
            is_needed
        });
        let expected: Vec<_> = (1..=12).filter(|number| ![2, 9].contains(number)).map(step).collect();
        assert_eq!(smallest, expected);
        let mut attempts = 0;
        leave_out((1..=12).map(step).collect(), 5, |_| {
            attempts += 1;
            false
        });
        assert_eq!(attempts, 5);
    }
}
