//! Old first lists: in what they differ from the present, and which are tried first.
//!
//! What a plugin does about an old list depends on what the list hides. An object of the same name with another identity misleads most, then an
//! object that the list lacks, or still has, then one for which something else was wanted. That only metadata or a status is older comes last.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::plans::{Candidate, restart_into_the_past, round_robin};
use super::points::{Points, RestPoint};
use crate::run::RequestEvent;

/// How an old list differs from the present, the most misleading difference first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// An object was deleted, and another one of its name created.
    Identity,
    /// An object is missing in the list.
    Absence,
    /// An object of the list is gone.
    Presence,
    /// An object is being deleted, and in the list it is not.
    Deletion,
    /// An object has another specification, or other data.
    Specification,
    /// An object has other metadata, or another status.
    Rest,
}

/// What a write did to an object.
#[derive(Clone, Debug)]
struct Change {
    key: String,
    before: State,
    after: State,
}

/// An object at a time; `None` if there was none.
type State = Option<Arc<Value>>;

/// Returns how an object differs from what it is now; `None` if it does not exist at either time.
fn difference(then: &State, now: &State) -> Option<Difference> {
    let (then, now) = match (then, now) {
        (None, None) => return None,
        (None, Some(_)) => return Some(Difference::Absence),
        (Some(_), None) => return Some(Difference::Presence),
        (Some(then), Some(now)) => (then, now),
    };
    let is_deleted = |object: &Value| object["metadata"].get("deletionTimestamp").is_some();
    Some(if then["metadata"]["uid"] != now["metadata"]["uid"] {
        Difference::Identity
    } else if is_deleted(then) != is_deleted(now) {
        Difference::Deletion
    } else if wanted(then).eq(wanted(now)) {
        Difference::Rest
    } else {
        Difference::Specification
    })
}

/// Returns the members of an object beside its metadata and its status.
fn wanted(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let members = object.as_object().into_iter().flatten();
    members.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status"))
}

/// The changes of each resource.
#[derive(Clone, Debug, Default)]
pub struct History(BTreeMap<String, Vec<Change>>);

impl History {
    /// Adds a write that changed something.
    pub(super) fn add(&mut self, request: &RequestEvent) {
        self.0.entry(request.resource.clone()).or_default().push(Change {
            key: request.object_id().key(),
            before: request.before.clone(),
            after: request.after.clone(),
        });
    }

    /// Returns how a list differs that lacks the last `age` of the first `count` changes of a resource; `None` if it does not.
    fn difference(&self, resource: &str, count: u32, age: u32) -> Option<Difference> {
        let changes = self.0.get(resource)?;
        let end = usize::try_from(count).ok()?;
        let start = end.checked_sub(usize::try_from(age).ok()?)?;
        let mut objects: BTreeMap<&str, (&State, &State)> = BTreeMap::new();
        for change in changes.get(start..end)? {
            objects.entry(&change.key).or_insert((&change.before, &change.after)).1 = &change.after;
        }
        objects.values().filter_map(|(then, now)| difference(then, now)).min()
    }
}

/// Returns restarts at each rest with one resource's first list from the past, at most `max_age` changes old.
pub(super) fn one_old_list(points: &Points, max_age: u32) -> Vec<Candidate> {
    let mut ranked = Ranked::default();
    for rest in points.rests.iter().rev() {
        for resource in &points.watched {
            for age in ages(points, rest, resource, max_age) {
                let list = (resource, age.age);
                ranked.add(
                    (age.difference, age.difference),
                    age.position,
                    restart_into_the_past(rest, &[list]),
                );
            }
        }
    }
    ranked.mixed()
}

/// Returns restarts at the last `max_rests` rests with two resources' first lists from the past.
pub(super) fn two_old_lists(points: &Points, max_age: u32, max_rests: usize) -> Vec<Candidate> {
    let mut ranked = Ranked::default();
    for rest in points.rests.iter().rev().take(max_rests) {
        for (index, first) in points.watched.iter().enumerate() {
            for second in &points.watched[index + 1..] {
                for one in ages(points, rest, first, max_age) {
                    for other in ages(points, rest, second, max_age) {
                        let lists = [(first, one.age), (second, other.age)];
                        let (worse, better) =
                            (one.difference.min(other.difference), one.difference.max(other.difference));
                        let position = one.position + other.position;
                        ranked.add((worse, better), position, restart_into_the_past(rest, &lists));
                    }
                }
            }
        }
    }
    ranked.mixed()
}

/// An age of a list.
struct Age {
    age: u32,
    difference: Difference,
    /// How many smaller ages differ from the present in the same way.
    position: u32,
}

/// Returns the ages that a resource's list can have at a rest.
fn ages(points: &Points, rest: &RestPoint, resource: &str, max_age: u32) -> Vec<Age> {
    let count = rest.changes.get(resource).copied().unwrap_or_default();
    let mut positions: BTreeMap<Difference, u32> = BTreeMap::new();
    let mut found = Vec::new();
    for age in 1..=count.min(max_age) {
        let Some(difference) = points.history.difference(resource, count, age) else { continue };
        let position = positions.entry(difference).or_default();
        found.push(Age { age, difference, position: *position });
        *position += 1;
    }
    found
}

/// Plans by what their old lists hide.
#[derive(Default)]
struct Ranked(BTreeMap<(Difference, Difference), BTreeMap<u32, Vec<Candidate>>>);

impl Ranked {
    fn add(&mut self, differences: (Difference, Difference), position: u32, plan: Option<Candidate>) {
        let of_position = self.0.entry(differences).or_default().entry(position).or_default();
        of_position.extend(plan);
    }

    /// Returns the plans: in turn one for each form of difference, the smallest ages first.
    fn mixed(self) -> Vec<Candidate> {
        round_robin(self.0.into_values().map(|group| group.into_values().flatten().collect()).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{Fault, Moment};
    use crate::testing::RunBuilder;

    const FOOS: &str = "foos.example.com";

    /// A run in which x is created, changed, deleted and created again, and gets a status, with a rest after each.
    fn points() -> Points {
        let mut run = RunBuilder::new();
        run.rest();
        let content = |size: u32| Some(json!({"spec": {"size": size}}));
        let status = Some(json!({"spec": {"size": 1}, "status": {"ready": true}}));
        for (verb, after) in [
            ("create", content(1)),
            ("patch", content(2)),
            ("delete", None),
            ("create", content(1)),
            ("patch", status),
        ] {
            run.actor("user", verb, FOOS, "a/x", after);
            run.deliver(FOOS, "a/x", "MODIFIED");
            run.rest();
        }
        Points::of(&run.finish())
    }

    #[test]
    fn differences_follow_from_the_identities_of_the_objects() {
        let points = points();
        let difference = |count, age| points.history.difference(FOOS, count, age);
        assert_eq!(difference(1, 1), Some(Difference::Absence));
        assert_eq!(difference(2, 1), Some(Difference::Specification));
        assert_eq!(difference(3, 1), Some(Difference::Presence));
        assert_eq!(difference(3, 3), None, "x did not exist, and does not exist");
        assert_eq!(difference(4, 1), Some(Difference::Absence));
        assert_eq!(difference(4, 2), Some(Difference::Identity));
        assert_eq!(difference(4, 5), None, "there were not so many changes");
        assert_eq!(difference(5, 1), Some(Difference::Rest));
    }

    #[test]
    fn each_form_of_difference_comes_early() {
        let plans = one_old_list(&points(), 8);
        let first: Vec<_> = plans
            .iter()
            .take(5)
            .map(|plan| {
                let deviation = &plan.deviations[0];
                match (&deviation.at, &deviation.fault) {
                    (Moment::Rest { occurrence }, Fault::Restart { past }) => (*occurrence, past[0].1),
                    other => panic!("{other:?}"),
                }
            })
            .collect();
        assert_eq!(first, [(6, 3), (6, 2), (4, 1), (3, 1), (6, 1)]);
    }
}
