//! The plans of each stage after the reference, in order.

use std::collections::VecDeque;

use super::faults::FaultSelection;
use super::pairs::{Pairs, known_pairs};
use super::plans::{Candidate, deviation, plans};
use super::points::Points;
use super::random::RandomPlans;
use super::{FaultClass, Strategy};
use crate::plan::{Fault, Moment, Plan};

/// A stage that yields its plans one by one.
pub(super) struct Stage<'a> {
    pub(super) strategy: Strategy,
    /// The largest part of the remaining budget that the stage may use, in percent.
    pub(super) share: u64,
    pub(super) plans: Box<dyn Iterator<Item = Plan> + 'a>,
}

/// Returns the stages of the selected strategies. Stages that may go on for long leave a part of the budget to those after
/// them.
pub(super) fn stages<'a>(
    seed: u64,
    strategies: &[Strategy],
    points: &'a Points,
    faults: &'a FaultSelection,
) -> Vec<Stage<'a>> {
    let singles = || plans(points, faults);
    let with_seed = move |candidate: Candidate| Plan::new(seed, candidate.deviations);
    let allowed = move |candidate: &Candidate| faults.allows(&candidate.deviations);
    let mut stages = Vec::new();
    for strategy in Strategy::ALL.into_iter().filter(|strategy| strategies.contains(strategy)) {
        let (share, plans): (u64, Box<dyn Iterator<Item = Plan>>) = match strategy {
            Strategy::Reference => continue,
            Strategy::Plans => (50, Box::new(singles().into_iter().map(with_seed))),
            Strategy::Pairs => {
                let pairs = Pairs::new(singles(), true, seed).filter(allowed);
                (60, Box::new(known_pairs(points, faults).into_iter().chain(pairs).map(with_seed)))
            }
            Strategy::Random => {
                let mut random = RandomPlans::new(seed, points, faults);
                let share = if strategies.contains(&Strategy::Exhaustive) { 50 } else { 100 };
                (share, Box::new(std::iter::from_fn(move || Some(random.next_plan()))))
            }
            Strategy::Exhaustive => {
                let pairs = Pairs::new(singles(), false, seed).filter(allowed);
                (100, Box::new(singles().into_iter().chain(pairs).map(with_seed)))
            }
        };
        stages.push(Stage { strategy, share, plans });
    }
    if let Some(last) = stages.last_mut() {
        last.share = 100;
    }
    stages
}

/// Returns the plans of all selected strategies in turn, the default schedule first: for the comparison of two plugins.
#[must_use]
pub fn all_plans<'a>(
    seed: u64,
    strategies: &[Strategy],
    points: &'a Points,
    faults: &'a FaultSelection,
) -> Box<dyn Iterator<Item = Plan> + 'a> {
    let first = Plan::new(seed, Vec::new());
    let mut stages = VecDeque::from(stages(seed, strategies, points, faults));
    let others = std::iter::from_fn(move || {
        while let Some(mut stage) = stages.pop_front() {
            if let Some(plan) = stage.plans.next() {
                stages.push_back(stage);
                return Some(plan);
            }
        }
        None
    });
    Box::new(std::iter::once(first).chain(others))
}

/// Returns the plans that show whether the plugin is at rest, and whether it does the same without the reasons of its reconciles. They have no
/// fault.
pub(super) fn probes(seed: u64, points: &Points) -> Vec<Plan> {
    /// The number of rests at which the keys are queued again.
    const MAX_RESTS: u32 = 16;
    let rests = u32::try_from(points.rests.len()).unwrap_or(u32::MAX).min(MAX_RESTS);
    // Each time, a further rest comes before the next step.
    let rest = |number: u32| Moment::Rest { occurrence: 2 * number + 1 };
    let again = (0..rests).map(|number| deviation(&rest(number), Fault::RequeueAll));
    let without_reasons = deviation(&Moment::Time(0), Fault::WithholdReasons);
    vec![Plan::new(seed, again.collect()), Plan::new(seed, vec![without_reasons])]
}

/// Returns the plans without faults in which the actors' steps come earlier: they show which ends other orders have.
pub(super) fn other_orders(seed: u64, points: &Points, faults: &FaultSelection) -> Vec<Plan> {
    /// The number of orders that are tried.
    const MAX_ORDERS: usize = 64;
    if points.actors.len() < 2 || !faults.has(FaultClass::Order) {
        return Vec::new();
    }
    let mut orders = plans(points, &FaultSelection::of([FaultClass::Order]));
    orders.retain(|candidate| faults.allows(&candidate.deviations));
    orders.truncate(MAX_ORDERS);
    orders.into_iter().map(|candidate| Plan::new(seed, candidate.deviations)).collect()
}
