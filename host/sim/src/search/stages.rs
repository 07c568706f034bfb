//! The plans of each stage after the reference, in order.

use super::faults::FaultSelection;
use super::pairs::{Pairs, known_pairs};
use super::plans::{Candidate, deviation, plans};
use super::points::Points;
use super::random::RandomPlans;
use super::{FaultClass, Strategy};
use crate::plan::{Fault, Moment, Plan};

/// How many single plans come before the strategies take turns.
const HEAD_START: usize = 64;

/// A strategy with its plans.
struct Stage<'a> {
    strategy: Strategy,
    /// How many plans it has among those of all stages.
    weight: u32,
    plans: Box<dyn Iterator<Item = Plan> + 'a>,
}

/// Returns the plans of the selected strategies. After the first single plans, the strategies take turns: an error that needs two faults is not found
/// later only because the plugin has many points at which one fault can happen.
pub(super) fn plans_in_turn<'a>(
    seed: u64,
    strategies: &[Strategy],
    points: &'a Points,
    faults: &'a FaultSelection,
) -> impl Iterator<Item = (Strategy, Plan)> + use<'a> {
    let mut stages = stages(seed, strategies, points, faults);
    let has_singles = stages.first().is_some_and(|stage| stage.strategy == Strategy::Plans);
    let first: Vec<_> = match stages.first_mut() {
        Some(stage) if has_singles => stage.plans.by_ref().take(HEAD_START).collect(),
        _ => Vec::new(),
    };
    first.into_iter().map(|plan| (Strategy::Plans, plan)).chain(InTurn::of(stages))
}

fn stages<'a>(
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
        let (weight, plans): (u32, Box<dyn Iterator<Item = Plan>>) = match strategy {
            Strategy::Reference => continue,
            Strategy::Plans => (5, Box::new(singles().into_iter().map(with_seed))),
            Strategy::Pairs => {
                let pairs = Pairs::new(singles(), true, seed).filter(allowed);
                (3, Box::new(known_pairs(points, faults).into_iter().chain(pairs).map(with_seed)))
            }
            Strategy::Random => {
                let mut random = RandomPlans::new(seed, points, faults);
                (2, Box::new(std::iter::from_fn(move || Some(random.next_plan()))))
            }
            Strategy::Exhaustive => {
                let pairs = Pairs::new(singles(), false, seed).filter(allowed);
                (5, Box::new(singles().into_iter().chain(pairs).map(with_seed)))
            }
        };
        stages.push(Stage { strategy, weight, plans });
    }
    stages
}

/// The plans of several stages, evenly mixed by their weights. A stage without further plans drops out.
struct InTurn<'a>(Vec<(Stage<'a>, i64)>);

impl<'a> InTurn<'a> {
    fn of(stages: Vec<Stage<'a>>) -> Self {
        Self(stages.into_iter().map(|stage| (stage, 0)).collect())
    }
}

impl Iterator for InTurn<'_> {
    type Item = (Strategy, Plan);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.0.is_empty() {
            let total: i64 = self.0.iter().map(|(stage, _)| i64::from(stage.weight)).sum();
            for (stage, credit) in &mut self.0 {
                *credit += i64::from(stage.weight);
            }
            // Of equal ones, the first.
            let most = self.0.iter().map(|(_, credit)| *credit).max();
            let index = self.0.iter().position(|(_, credit)| Some(*credit) == most)?;
            let (stage, credit) = &mut self.0[index];
            *credit -= total;
            if let Some(plan) = stage.plans.next() {
                return Some((stage.strategy, plan));
            }
            self.0.remove(index);
        }
        None
    }
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
    let others = plans_in_turn(seed, strategies, points, faults).map(|(_, plan)| plan);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(strategy: Strategy, weight: u32, count: u64) -> Stage<'static> {
        Stage { strategy, weight, plans: Box::new((0..count).map(|seed| Plan::new(seed, Vec::new()))) }
    }

    #[test]
    fn strategies_take_turns_by_their_weights_until_their_plans_are_used_up() {
        let stages = vec![
            stage(Strategy::Plans, 5, 6),
            stage(Strategy::Pairs, 3, 100),
            stage(Strategy::Random, 2, 100),
        ];
        let mixed: Vec<_> = InTurn::of(stages).collect();
        let count = |strategy, plans: &[(Strategy, Plan)]| {
            plans.iter().filter(|(other, _)| *other == strategy).count()
        };
        assert_eq!(mixed.len(), 206);
        let of_ten = [Strategy::Plans, Strategy::Pairs, Strategy::Random].map(|of| count(of, &mixed[..10]));
        assert_eq!(of_ten, [5, 3, 2]);
        assert_eq!(count(Strategy::Plans, &mixed), 6);
        let seeds: Vec<_> =
            mixed.iter().filter(|(of, _)| *of == Strategy::Pairs).map(|(_, plan)| plan.seed).collect();
        assert_eq!(seeds, (0..100).collect::<Vec<_>>(), "in their own order");
    }
}
