//! Plans with one idea each, derived from the reference run: every fault at every point at which it can matter.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::faults::FaultSelection;
use super::past::one_old_list;
use super::points::{EventPoint, Points, RequestPoint, RestPoint};
use crate::plan::{Deviation, Fault, Moment};

/// How many changes a first list may lack.
const MAX_AGE: u32 = 8;

/// Deviations, and the resources that they concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The deviations.
    pub deviations: Vec<Deviation>,
    /// The resources.
    pub touches: BTreeSet<String>,
}

impl Candidate {
    pub(super) fn new(resource: &str, deviations: Vec<Deviation>) -> Self {
        Self { deviations, touches: [resource.to_owned()].into() }
    }
}

pub(super) fn deviation(at: &Moment, fault: Fault) -> Deviation {
    Deviation { at: at.clone(), fault }
}

/// Returns the plans, mixed so that a small budget has some of each form.
#[must_use]
pub fn plans(points: &Points, faults: &FaultSelection) -> Vec<Candidate> {
    let groups = vec![
        fresh_starts(points),
        crashes(points),
        lost_answers(points),
        one_old_list(points, MAX_AGE),
        refusals(points, faults),
        delayed_events(points, faults, Fault::HoldWatch),
        delayed_events(points, faults, Fault::DropWatch),
        early_steps(points),
        late_controllers(points, faults),
    ];
    let mut plans = round_robin(groups);
    plans.retain(|candidate| faults.allows(&candidate.deviations));
    plans
}

/// Takes one item of each group in turn.
pub(super) fn round_robin<T>(groups: Vec<Vec<T>>) -> Vec<T> {
    let mut groups: Vec<_> = groups.into_iter().map(Vec::into_iter).collect();
    let mut mixed = Vec::new();
    loop {
        let length = mixed.len();
        mixed.extend(groups.iter_mut().filter_map(Iterator::next));
        if mixed.len() == length {
            return mixed;
        }
    }
}

/// A restart or reload at each rest: for *idempotence* and *fresh = kept*. The last rest comes first.
fn fresh_starts(points: &Points) -> Vec<Candidate> {
    let mut plans = Vec::new();
    for rest in points.rests.iter().rev() {
        let at = Moment::Rest { occurrence: rest.occurrence };
        for fault in [Fault::Restart { past: Vec::new() }, Fault::Reload] {
            plans.push(Candidate::new("", vec![deviation(&at, fault)]));
        }
    }
    plans
}

/// Returns the requests of each kind in turn, and those of a kind from both of its ends. The last one comes first: what goes wrong there shows at the
/// end of the run, because nothing comes after it that would repair it.
pub(super) fn from_both_ends(points: &Points, accept: impl Fn(&RequestPoint) -> bool) -> Vec<&RequestPoint> {
    let mut kinds: BTreeMap<(&str, &str), Vec<&RequestPoint>> = BTreeMap::new();
    for point in points.requests.iter().filter(|point| accept(point)) {
        let Moment::Request { verb, resource, .. } = &point.moment else { continue };
        kinds.entry((verb, resource)).or_default().push(point);
    }
    round_robin(kinds.into_values().map(alternating).collect())
}

/// Returns the items from both ends in turn, the last one first.
fn alternating<T>(items: Vec<T>) -> Vec<T> {
    let mut items = VecDeque::from(items);
    let mut found = Vec::with_capacity(items.len());
    while let Some(last) = items.pop_back() {
        found.push(last);
        found.extend(items.pop_front());
    }
    found
}

/// A crash after and before each write.
fn crashes(points: &Points) -> Vec<Candidate> {
    let of = |fault: Fault| at_each_write(points, &fault);
    round_robin(vec![of(Fault::CrashAfter), of(Fault::CrashBefore)])
}

fn lost_answers(points: &Points) -> Vec<Candidate> {
    at_each_write(points, &Fault::LoseAnswer)
}

/// Returns a plan with the fault for each write to the server, and for each HTTP request that changes something.
fn at_each_write(points: &Points, fault: &Fault) -> Vec<Candidate> {
    let requests = from_both_ends(points, |point| point.is_write)
        .into_iter()
        .map(|point| Candidate::new(&point.resource, vec![deviation(&point.moment, fault.clone())]))
        .collect();
    let http = alternating(points.http.iter().filter(|point| point.is_write).collect())
        .into_iter()
        .map(|point| Candidate::new(&point.host, vec![deviation(&point.moment, fault.clone())]))
        .collect();
    round_robin(vec![requests, http])
}

/// Errors and conflicts of writes, and errors of reads.
fn refusals(points: &Points, faults: &FaultSelection) -> Vec<Candidate> {
    let of = |fault: Fault, accept: fn(bool, bool) -> bool| -> Vec<Candidate> {
        from_both_ends(points, |point| accept(point.is_write, point.has_object))
            .into_iter()
            .map(|point| Candidate::new(&point.resource, vec![deviation(&point.moment, fault.clone())]))
            .collect()
    };
    let statuses = faults.statuses();
    let refused = |accept: fn(bool, bool) -> bool| {
        round_robin(statuses.iter().map(|status| of(Fault::Refuse(*status), accept)).collect())
    };
    let late = faults
        .delays(Fault::DelayRequest)
        .into_iter()
        .map(|delay| of(Fault::DelayRequest(delay), |is_write, _| is_write));
    round_robin(vec![
        refused(|is_write, _| !is_write),
        of(Fault::Interfere, |is_write, has_object| is_write && has_object),
        refused(|is_write, _| is_write),
        round_robin(late.collect()),
    ])
}

/// Returns the plan of a restart with old first lists.
pub(super) fn restart_into_the_past(rest: &RestPoint, ages: &[(&String, u32)]) -> Option<Candidate> {
    let has_changes =
        |(resource, age): &(&String, u32)| rest.changes.get(*resource).is_some_and(|count| age <= count);
    if !ages.iter().all(has_changes) {
        return None;
    }
    let past = ages.iter().map(|(resource, age)| ((*resource).clone(), *age)).collect();
    let at = Moment::Rest { occurrence: rest.occurrence };
    let touches = ages.iter().map(|(resource, _)| (*resource).clone()).collect();
    Some(Candidate { deviations: vec![deviation(&at, Fault::Restart { past })], touches })
}

/// Each event of a watch late, or replaced by a later list.
fn delayed_events(points: &Points, faults: &FaultSelection, fault: fn(u64) -> Fault) -> Vec<Candidate> {
    let mut resources: BTreeMap<&str, Vec<&EventPoint>> = BTreeMap::new();
    for event in &points.events {
        resources.entry(&event.resource).or_default().push(event);
    }
    let events = round_robin(resources.into_values().map(alternating).collect());
    let of = |delay: u64| {
        events
            .iter()
            .map(|event| Candidate::new(&event.resource, vec![deviation(&event.moment(), fault(delay))]))
            .collect()
    };
    round_robin(faults.delays(fault).into_iter().map(of).collect())
}

/// Each actor's next step taken at each write, each event and each HTTP request. A service may answer differently once others have acted.
fn early_steps(points: &Points) -> Vec<Candidate> {
    let mut groups = Vec::new();
    for actor in &points.actors {
        let step = || Fault::TakeStep { actor: actor.clone() };
        let writes = points
            .requests
            .iter()
            .filter(|point| point.is_write)
            .map(|point| Candidate::new(&point.resource, vec![deviation(&point.moment, step())]))
            .collect();
        let events = points
            .events
            .iter()
            .map(|event| Candidate::new(&event.resource, vec![deviation(&event.moment(), step())]))
            .collect();
        let http = points
            .http
            .iter()
            .map(|point| Candidate::new(&point.host, vec![deviation(&point.moment, step())]))
            .collect();
        groups.extend([writes, events, http]);
    }
    round_robin(groups)
}

/// The built-in controllers stopped from each rest on.
fn late_controllers(points: &Points, faults: &FaultSelection) -> Vec<Candidate> {
    let of = |delay: u64| {
        let at = |occurrence| Moment::Rest { occurrence };
        let plan = |at: Moment| Candidate::new("", vec![deviation(&at, Fault::HoldControllers(delay))]);
        points.rests.iter().rev().map(|rest| plan(at(rest.occurrence))).collect()
    };
    round_robin(faults.delays(Fault::HoldControllers).into_iter().map(of).collect())
}
