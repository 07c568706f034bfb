//! The runs that two processes make to show that runs are repeatable: the default schedule, each class of faults, and some random plans.

use super::plans::plans;
use super::points::Points;
use super::random::RandomPlans;
use super::{FaultClass, FaultSelection};
use crate::WorldError;
use crate::call_log::CallLog;
use crate::finding::story::describe;
use crate::plan::Plan;
use crate::run::Run;

/// The number of plans with one fault, beside those that add a class.
const SINGLE_PLANS: usize = 18;
/// The number of random plans.
const RANDOM_PLANS: usize = 6;

/// The runs that were made.
#[derive(Debug, Default)]
pub struct RepeatedRuns {
    /// The calls of all runs.
    pub calls: CallLog,
    /// How many runs there are.
    pub runs: usize,
    /// How many deviations took effect.
    pub deviations: usize,
    /// How often something was drawn at random.
    pub draws: u64,
}

/// Makes the runs. `run` makes one of them, and adds its calls to the log, as [`World::run_with_calls`](crate::world::World::run_with_calls).
///
/// # Errors
/// If a world cannot be built.
pub fn repeated_runs(
    seed: u64,
    faults: &FaultSelection,
    mut run: impl FnMut(&Plan, &mut CallLog) -> Result<Run, WorldError>,
) -> Result<RepeatedRuns, WorldError> {
    let mut made = RepeatedRuns::default();
    // Without a line of its own, so that the log of one run has the hash of that run.
    let reference = run(&Plan::new(seed, Vec::new()), &mut made.calls)?;
    made.count(&reference);
    for plan in later_plans(seed, &Points::of(&reference), faults) {
        let faults: Vec<_> = plan.deviations.iter().map(describe).collect();
        made.calls.begin_run(format!(
            "run {} with seed {:#x}: {}",
            made.runs + 1,
            plan.seed,
            faults.join("; ")
        ));
        let run = run(&plan, &mut made.calls)?;
        made.count(&run);
    }
    Ok(made)
}

/// Returns the plans after the default schedule.
fn later_plans(seed: u64, points: &Points, faults: &FaultSelection) -> Vec<Plan> {
    let mut candidates = plans(points, faults).into_iter();
    let mut chosen: Vec<_> = candidates.by_ref().take(SINGLE_PLANS).collect();
    for candidate in candidates {
        let class = |deviations: &[crate::plan::Deviation]| -> Vec<Option<FaultClass>> {
            deviations.iter().map(|deviation| FaultClass::of(&deviation.fault)).collect()
        };
        let classes = class(&candidate.deviations);
        if chosen.iter().all(|other| class(&other.deviations) != classes) {
            chosen.push(candidate);
        }
    }
    let mut random = RandomPlans::new(seed, points, faults);
    let random = std::iter::repeat_with(|| random.next_plan()).take(RANDOM_PLANS);
    chosen.into_iter().map(|candidate| Plan::new(seed, candidate.deviations)).chain(random).collect()
}

impl RepeatedRuns {
    fn count(&mut self, run: &Run) {
        self.runs += 1;
        self.deviations += run.plan.deviations.len() - run.skipped.len();
        self.draws += run.draws;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::testing::RunBuilder;

    /// A world with an actor and a controller. In the process `is_other`, the run of a crash differs.
    fn run(plan: &Plan, is_other: bool, calls: &mut CallLog) -> Run {
        let mut run = RunBuilder::new();
        run.rest();
        run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
        run.deliver("foos.example.com", "a/foo", "ADDED");
        run.start("a/foo");
        run.write("create", "configmaps", "a/foo", Some(json!({})));
        run.write("update", "configmaps", "a/foo", Some(json!({"data": {"ready": "yes"}})));
        run.rest();
        let mut run = run.finish();
        run.plan = plan.clone();
        run.draws = 3;
        let crashes =
            plan.deviations.iter().any(|deviation| deviation.fault == crate::plan::Fault::CrashAfter);
        calls.push(if crashes && is_other { 8 } else { 7 }, format!("{:?}", plan.deviations));
        run
    }

    #[test]
    fn each_class_of_faults_is_repeated_and_a_difference_in_one_of_them_is_found() {
        let made = |is_other: bool| {
            let mut seen = BTreeSet::new();
            let made = repeated_runs(5, &FaultSelection::default(), |plan, calls| {
                seen.extend(plan.deviations.iter().filter_map(|deviation| FaultClass::of(&deviation.fault)));
                Ok(run(plan, is_other, calls))
            });
            (made.expect("runs"), seen)
        };
        let ((one, seen), (other, _)) = (made(false), made(true));
        assert_eq!(seen, FaultClass::ALL.into_iter().collect());
        assert!(one.runs > SINGLE_PLANS && one.deviations > SINGLE_PLANS, "{one:?}");
        assert_eq!(one.draws, 3 * one.runs as u64);
        assert_eq!(one.calls.difference(&made(false).0.calls), None);
        let divergence = one.calls.difference(&other.calls).expect("a difference");
        assert!(divergence.expected.contains("CrashAfter"), "{divergence:?}");
    }

    #[test]
    fn a_world_that_cannot_be_built_ends_the_check() {
        let failed = repeated_runs(5, &FaultSelection::default(), |_, _| Err(WorldError("no".to_owned())));
        assert_eq!(failed.expect_err("no world").0, "no");
    }
}
