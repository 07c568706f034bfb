//! Moves deviations to a run in which actors take fewer steps.
//!
//! A deviation names its moment by a number: the fifth event of a watch. If steps are left out, the same event may be the second one. It is found
//! by what is the same in both runs: the step before it, the object, and how many such events of the object came since that step.

use std::collections::BTreeMap;

use crate::analysis::{Names, RandomPrefixes};
use crate::plan::{ActorStep, Deviation, Fault, Moment};
use crate::run::{Author, Event, EventKind, RequestEvent, Run};
use crate::search::points::host_of;

/// Returns the deviations with the numbers that their moments have in `target`. `source` and `target` are runs without faults; the numbers are those
/// of `source`. What does not happen in `target` keeps its number.
#[must_use]
pub fn moved(deviations: &[Deviation], source: &Run, target: &Run) -> Vec<Deviation> {
    let (source, target) = (Steps::of(source), Steps::of(target));
    let moved = |deviation: &Deviation| Deviation {
        at: moved_moment(&deviation.at, &source, &target),
        fault: moved_fault(deviation, &source, &target),
    };
    deviations.iter().map(moved).collect()
}

fn moved_moment(at: &Moment, source: &Steps<'_>, target: &Steps<'_>) -> Moment {
    match at {
        Moment::Request { verb, resource, occurrence } => {
            let is_such = |request: &RequestEvent| {
                request.is_by_plugin() && request.verb == *verb && request.resource_path() == *resource
            };
            let select = |event: &Event| request_of(event).filter(|request| is_such(request)).map(key_of);
            let occurrence = moved_number(*occurrence, &source.sites(select), &target.sites(select));
            Moment::Request { verb: verb.clone(), resource: resource.clone(), occurrence }
        }
        Moment::Http { method, host, occurrence } => {
            let select = |event: &Event| match &event.kind {
                EventKind::Http { method: by, url, status: Some(_), .. }
                    if by == method && host_of(url) == *host =>
                {
                    Some(url.clone())
                }
                _ => None,
            };
            let occurrence = moved_number(*occurrence, &source.sites(select), &target.sites(select));
            Moment::Http { method: method.clone(), host: host.clone(), occurrence }
        }
        Moment::Event { resource, occurrence } => {
            let select = |event: &Event| match &event.kind {
                EventKind::Delivered { resource: of, change, key, .. } if of == resource => {
                    (change != "LISTED").then(|| key.clone())
                }
                _ => None,
            };
            let occurrence = moved_number(*occurrence, &source.sites(select), &target.sites(select));
            Moment::Event { resource: resource.clone(), occurrence }
        }
        // Rests come as often as before, because a step that is left out has one, too.
        Moment::Rest { .. } | Moment::Step { .. } | Moment::Time(_) => at.clone(),
    }
}

/// Moves the ages of the first lists after a restart into the past.
fn moved_fault(deviation: &Deviation, source: &Steps<'_>, target: &Steps<'_>) -> Fault {
    let (Fault::Restart { past }, Moment::Rest { occurrence }) = (&deviation.fault, &deviation.at) else {
        return deviation.fault.clone();
    };
    let moved = |(resource, age): &(String, u32)| {
        let select = |event: &Event| {
            let request = request_of(event)?;
            (request.changed && request.resource == *resource).then(|| key_of(request))
        };
        let until_rest = |steps: &Steps<'_>| -> Vec<Site> {
            let rest = steps.rest(*occurrence);
            steps.sites(select).into_iter().filter(|site| site.index < rest).collect()
        };
        let (before, after) = (until_rest(source), until_rest(target));
        let count = |sites: &[Site]| u32::try_from(sites.len()).unwrap_or(u32::MAX);
        // The list contains the changes up to this one.
        let last = count(&before).saturating_sub(*age);
        let age = match last {
            0 => count(&after),
            last => count(&after).saturating_sub(moved_number(last, &before, &after)),
        };
        (resource.clone(), age.max(1))
    };
    Fault::Restart { past: past.iter().map(moved).collect() }
}

/// Returns which of the sites of `target` is the one with this number, from 1, in `source`; the same number if there is none.
fn moved_number(number: u32, source: &[Site], target: &[Site]) -> u32 {
    let index = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
    let Some(site) = source.get(index) else { return number };
    let position = target.iter().position(|other| other.identity == site.identity);
    position.and_then(|position| u32::try_from(position + 1).ok()).unwrap_or(number)
}

/// Something that happened.
struct Site {
    /// The index of the event.
    index: usize,
    /// What is the same in both runs.
    identity: (Option<ActorStep>, String, u32),
}

/// A run, with the names that differ between runs.
struct Steps<'r> {
    run: &'r Run,
    names: Names,
}

impl<'r> Steps<'r> {
    fn of(run: &'r Run) -> Self {
        Self { run, names: Names::of(run, &RandomPrefixes::default()) }
    }

    /// Returns the events that `select` returns a key for.
    fn sites(&self, select: impl Fn(&Event) -> Option<String>) -> Vec<Site> {
        let mut step = None;
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let mut sites = Vec::new();
        for (index, event) in self.run.events.iter().enumerate() {
            if let Some(RequestEvent { author: Author::Actor(actor), step: Some(number), .. }) =
                request_of(event)
            {
                step = Some(ActorStep { actor: actor.clone(), step: *number });
                counts.clear();
            }
            let Some(key) = select(event) else { continue };
            let key = self.names.replace(&key);
            let count = counts.entry(key.clone()).or_default();
            *count += 1;
            sites.push(Site { index, identity: (step.clone(), key, *count) });
        }
        sites
    }

    /// Returns the index of the event of a rest.
    fn rest(&self, number: u32) -> usize {
        let is_rest =
            |event: &Event| matches!(event.kind, EventKind::Rest { occurrence } if occurrence == number);
        self.run.events.iter().position(is_rest).unwrap_or(self.run.events.len())
    }
}

fn request_of(event: &Event) -> Option<&RequestEvent> {
    match &event.kind {
        EventKind::Request(request) => Some(request),
        _ => None,
    }
}

fn key_of(request: &RequestEvent) -> String {
    request.object_id().key()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::RunBuilder;

    const FOOS: &str = "foos.example.com";

    /// A run of a user who creates, changes and deletes two objects, without the steps that are left out; a plugin writes a ConfigMap for each
    /// change.
    fn run(left_out: &[u32]) -> Run {
        let steps =
            [("create", "a/x"), ("create", "a/y"), ("update", "a/x"), ("update", "a/y"), ("delete", "a/x")];
        let mut run = RunBuilder::new();
        for (number, (verb, key)) in (1..).zip(steps) {
            run.rest();
            if left_out.contains(&number) {
                continue;
            }
            run.step("user", number);
            let after = (verb != "delete").then(|| json!({"step": number}));
            run.actor("user", verb, FOOS, key, after);
            run.deliver_uid(FOOS, key, "MODIFIED", "");
            run.start(key);
            run.write("update", "configmaps", key, Some(json!({"step": number})));
            run.end(crate::run::ReconcileResult::Ok);
        }
        run.rest();
        run.finish()
    }

    fn moved_with(left_out: &[u32], deviation: Deviation) -> Deviation {
        moved(&[deviation], &run(&[]), &run(left_out)).remove(0)
    }

    #[test]
    fn moments_are_found_by_the_step_before_them() {
        let request = |occurrence| Moment::Request {
            verb: "update".to_owned(),
            resource: "configmaps".to_owned(),
            occurrence,
        };
        let event = |occurrence| Moment::Event { resource: FOOS.to_owned(), occurrence };
        for at in [request as fn(u32) -> Moment, event] {
            let at_fifth = Deviation { at: at(5), fault: Fault::CrashAfter };
            assert_eq!(moved_with(&[], at_fifth.clone()).at, at(5));
            assert_eq!(moved_with(&[2, 4], at_fifth.clone()).at, at(3));
            assert_eq!(moved_with(&[5], at_fifth.clone()).at, at(5), "it does not happen any more");
        }
        let rest = Deviation { at: Moment::Rest { occurrence: 4 }, fault: Fault::Reload };
        assert_eq!(moved_with(&[1, 2], rest.clone()), rest);
    }

    #[test]
    fn old_lists_show_the_same_past() {
        let restart = |age| Deviation {
            at: Moment::Rest { occurrence: 6 },
            fault: Fault::Restart { past: vec![(FOOS.to_owned(), age)] },
        };
        // The list contains the creation of x and y, and the change of x.
        assert_eq!(moved_with(&[], restart(2)), restart(2));
        assert_eq!(moved_with(&[2, 4], restart(2)), restart(1));
        // The list is empty.
        assert_eq!(moved_with(&[2, 4], restart(5)), restart(3));
        assert_eq!(moved_with(&[2, 4], restart(9)), restart(3));
    }
}
