//! Shrinks a plan that shows an error: fewer deviations first, then smaller numbers, then fewer steps of actors.

mod anchor;
mod ddmin;
mod evidence;
mod numbers;

use crate::plan::{ActorStep, Deviation};

pub use anchor::moved;
pub use ddmin::ddmin;
pub use evidence::Evidence;

/// The number of plans that are tried for one finding.
pub const MAX_ATTEMPTS: usize = 300;
/// The number of selections of steps that are tried for one finding. Each needs a reference of its own, and so three runs.
pub const MAX_STEP_ATTEMPTS: usize = 40;

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

/// Leaves out as many of the steps as possible: first all steps of one object, then, if `single`, others. `objects` are the steps of each object. `fails` runs a
/// plan without the given steps, and returns whether the error still happens; the last selection for which it does is the result.
pub fn leave_out(
    objects: Vec<Vec<ActorStep>>,
    single: bool,
    max_attempts: usize,
    mut fails: impl FnMut(&[ActorStep]) -> bool,
) {
    let mut attempts = 0;
    let mut is_needless = |left_out: &[ActorStep]| {
        attempts += 1;
        attempts <= max_attempts && fails(left_out)
    };
    if objects.iter().map(Vec::len).sum::<usize>() < 2 {
        return;
    }
    let (mut kept, mut left_out): (Vec<ActorStep>, Vec<ActorStep>) = (Vec::new(), Vec::new());
    let is_alone = objects.len() == 1;
    for steps in objects {
        let more = sorted(left_out.iter().chain(&steps));
        if !is_alone && is_needless(&more) {
            left_out = more;
        } else {
            kept.extend(steps);
        }
    }
    if !single {
        return;
    }
    let kept = sorted(&kept);
    ddmin(kept.clone(), &mut |some: &[ActorStep]| {
        let others = kept.iter().filter(|step| !some.contains(step));
        is_needless(&sorted(left_out.iter().chain(others)))
    });
}

fn sorted<'a>(steps: impl IntoIterator<Item = &'a ActorStep>) -> Vec<ActorStep> {
    let mut steps: Vec<_> = steps.into_iter().cloned().collect();
    steps.sort();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u32) -> ActorStep {
        ActorStep { actor: "user".to_owned(), step }
    }

    /// Returns what is left out of twelve steps if these are needed, and the number of attempts.
    fn left_out(
        objects: Vec<Vec<ActorStep>>,
        needed: &[u32],
        max_attempts: usize,
    ) -> (Vec<ActorStep>, usize) {
        let (mut smallest, mut attempts) = (Vec::new(), 0);
        leave_out(objects, true, max_attempts, |left_out| {
            attempts += 1;
            let still_fails = needed.iter().all(|needed| !left_out.contains(&step(*needed)));
            if still_fails {
                smallest = left_out.to_vec();
            }
            still_fails
        });
        (smallest, attempts)
    }

    #[test]
    fn the_steps_that_the_error_needs_are_kept() {
        let expected: Vec<_> = (1..=12).filter(|number| ![2, 9].contains(number)).map(step).collect();
        let of_one = vec![(1..=12).map(step).collect()];
        let (found, attempts) = left_out(of_one.clone(), &[2, 9], 100);
        assert_eq!(found, expected);
        let of_three = (1..=3).map(|first| (first..=12).step_by(3).map(step).collect()).collect();
        let (found, fewer_attempts) = left_out(of_three, &[2, 9], 100);
        assert_eq!(found, expected);
        assert!(fewer_attempts < attempts, "{fewer_attempts} and {attempts}");
        assert_eq!(left_out(of_one, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 5).1, 5);
    }

    #[test]
    fn only_all_steps_of_an_object_are_left_out_unless_single_ones_may_be() {
        let mut smallest = Vec::new();
        leave_out(vec![vec![step(1), step(2)], vec![step(3), step(4)]], false, 100, |left_out| {
            let still_fails = !left_out.contains(&step(1));
            if still_fails {
                smallest = left_out.to_vec();
            }
            still_fails
        });
        assert_eq!(smallest, [step(3), step(4)]);
    }

    #[test]
    fn a_single_step_is_not_left_out() {
        assert_eq!(left_out(vec![vec![step(1)]], &[], 100), (Vec::new(), 0));
    }
}
