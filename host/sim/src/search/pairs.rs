//! Plans with two ideas: first those combinations that are known to matter, then pairs of single plans that concern the
//! same resource.

use super::faults::FaultSelection;
use super::past::two_old_lists;
use super::plans::{Candidate, deviation, from_both_ends, round_robin};
use super::points::Points;
use super::random_source::RandomSource;
use crate::plan::Fault;

/// How many changes each of two first lists may lack.
const MAX_AGE: u32 = 6;
/// The number of rests, from the last, at which two old lists are combined.
const MAX_RESTS: usize = 4;

/// Returns the combinations that are known to matter, mixed.
#[must_use]
pub fn known_pairs(points: &Points, faults: &FaultSelection) -> Vec<Candidate> {
    let mut pairs = round_robin(vec![
        write_and_late_watch(points, faults, &Fault::LoseAnswer),
        merged_steps(points, faults),
        restart_before_own_event(points),
        two_old_lists(points, MAX_AGE, MAX_RESTS),
        write_and_late_watch(points, faults, &Fault::CrashAfter),
    ]);
    pairs.retain(|candidate| faults.allows(&candidate.deviations));
    pairs
}

/// A fault of a write, and the watch that would show the write's effect is late.
fn write_and_late_watch(points: &Points, faults: &FaultSelection, fault: &Fault) -> Vec<Candidate> {
    let mut plans = Vec::new();
    for delay in faults.delays(Fault::HoldWatch) {
        for point in from_both_ends(points, |point| point.is_write) {
            if let Some(event) = points.event_after(&point.resource, point.index) {
                let late = deviation(&event.moment(), Fault::HoldWatch(delay));
                let deviations = vec![deviation(&point.moment, fault.clone()), late];
                plans.push(Candidate::new(&point.resource, deviations));
            }
        }
    }
    plans
}

/// A watch ends or is late, and the actor takes one to three further steps meanwhile: the plugin sees them as one.
fn merged_steps(points: &Points, faults: &FaultSelection) -> Vec<Candidate> {
    let shortest = |form: fn(u64) -> Fault| faults.delays(form).first().map(|delay| form(*delay));
    let late: Vec<_> =
        [shortest(Fault::DropWatch), shortest(Fault::HoldWatch)].into_iter().flatten().collect();
    let mut groups = Vec::new();
    for actor in &points.actors {
        for steps in 1..=3 {
            let mut group = Vec::new();
            for (event, fault) in
                points.events.iter().flat_map(|event| late.iter().map(move |fault| (event, fault)))
            {
                let mut deviations = vec![deviation(&event.moment(), fault.clone())];
                for _ in 0..steps {
                    deviations.push(deviation(&event.moment(), Fault::TakeStep { actor: actor.clone() }));
                }
                group.push(Candidate::new(&event.resource, deviations));
            }
            groups.push(group);
        }
    }
    round_robin(groups)
}

/// The host restarts instead of delivering an event, and its first list lacks that change, too.
fn restart_before_own_event(points: &Points) -> Vec<Candidate> {
    let mut plans = Vec::new();
    for age in 1..=2 {
        for event in &points.events {
            let past = vec![(event.resource.clone(), age)];
            let restart = deviation(&event.moment(), Fault::Restart { past });
            plans.push(Candidate::new(&event.resource, vec![restart]));
        }
    }
    plans
}

/// All pairs of single plans, in an order that a seed fixes.
#[derive(Debug)]
pub struct Pairs {
    singles: Vec<Candidate>,
    needs_overlap: bool,
    distance: usize,
    index: usize,
}

impl Pairs {
    /// Returns the pairs. With `needs_overlap`, both must concern a common resource.
    #[must_use]
    pub fn new(mut singles: Vec<Candidate>, needs_overlap: bool, seed: u64) -> Self {
        RandomSource::new(seed).shuffle(&mut singles);
        Self { singles, needs_overlap, distance: 1, index: 0 }
    }
}

impl Iterator for Pairs {
    type Item = Candidate;

    fn next(&mut self) -> Option<Candidate> {
        while self.distance < self.singles.len() {
            let (left, right) = (self.index, self.index + self.distance);
            if right >= self.singles.len() {
                self.distance += 1;
                self.index = 0;
                continue;
            }
            self.index += 1;
            let (left, right) = (&self.singles[left], &self.singles[right]);
            let overlaps = left.touches.intersection(&right.touches).any(|resource| !resource.is_empty());
            if left.deviations != right.deviations && (overlaps || !self.needs_overlap) {
                let deviations = [left, right].into_iter().flat_map(|plan| plan.deviations.clone()).collect();
                let touches = left.touches.union(&right.touches).cloned().collect();
                return Some(Candidate { deviations, touches });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Moment;

    fn candidate(resource: &str, time: u64) -> Candidate {
        Candidate::new(resource, vec![deviation(&Moment::Time(time), Fault::CrashAfter)])
    }

    #[test]
    fn every_pair_comes_once() {
        let singles: Vec<_> = (0..5).map(|time| candidate("pods", time)).collect();
        let pairs: Vec<_> = Pairs::new(singles, true, 7).collect();
        assert_eq!(pairs.len(), 10);
        assert!(pairs.iter().all(|pair| pair.deviations.len() == 2));
    }

    #[test]
    fn pairs_of_different_resources_are_left_out_unless_all_are_wanted() {
        let singles = vec![candidate("pods", 1), candidate("nodes", 2), candidate("pods", 3)];
        assert_eq!(Pairs::new(singles.clone(), true, 7).count(), 1);
        assert_eq!(Pairs::new(singles, false, 7).count(), 3);
    }
}
