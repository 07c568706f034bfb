//! *fresh = kept*: an instance that has just started writes the same as one that has run all the time.

use std::collections::BTreeMap;

use super::timers::late_timer_writes;
use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::{ObjectId, RunView};
use crate::plan::{Fault, Moment};
use crate::run::{Author, EventKind, RequestEvent};

pub(super) const DESCRIPTION: Description = Description {
    name: "fresh = kept",
    reports: "after a restart or reload at rest, the plugin answers the following steps by other writes than the instance that was kept",
    premise: "Memory is a cache: a controller that has lost it does the same. Judged only if a restart or reload at rest is the only fault, and the actors did \
              the same as in the reference; so did the stand-ins, unless the seed is that of the reference, so that they wait as long. How often an object is written does not count, only whether. Writes before the next step belong to *idempotence*. \
              Not judged: plugins that write when a timer of 30 s or more is due, because the restart delays the steps by one rest.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct FreshEqualsKept;

impl Oracle for FreshEqualsKept {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let [(_, deviation)] = run.deviations.as_slice() else { return Judgement::without_subject() };
        let is_fresh_start = match &deviation.fault {
            Fault::Restart { past } => past.is_empty(),
            Fault::Reload => true,
            _ => false,
        };
        let Moment::Rest { occurrence } = deviation.at else { return Judgement::without_subject() };
        if !is_fresh_start {
            return Judgement::without_subject();
        }
        let Some(reference) = reference.filter(|reference| reference.has_actor_writes_of(run)) else {
            return Judgement::without_subject();
        };
        if late_timer_writes(run).len() + reference.late_timer_writes() > 0 {
            return Judgement::without_subject();
        }
        let kept = RunView::new(reference.run(), reference.random());
        // With another seed, stand-ins wait for another time of their range, and may do something else.
        if run.run.plan.seed != kept.run.plan.seed && run.objects_of_actors() != kept.objects_of_actors() {
            return Judgement::without_subject();
        }
        let (Some(fresh_writes), Some(kept_writes)) =
            (writes_after_rest(run, occurrence), writes_after_rest(&kept, occurrence))
        else {
            return Judgement::without_subject();
        };
        let mut violations = Vec::new();
        for ((verb, id), index) in fresh_writes.iter().filter(|(write, _)| !kept_writes.contains_key(*write))
        {
            let text = format!(
                "a fresh instance sends {verb} {}, which changes it; the instance that was kept does not",
                id.key()
            );
            violations.push(Violation::new(self, id, Some(*index), text));
        }
        for ((verb, id), _) in kept_writes.iter().filter(|(write, _)| !fresh_writes.contains_key(*write)) {
            let text = format!(
                "the instance that was kept sends {verb} {}, which changes it; a fresh instance does not",
                id.key()
            );
            violations.push(Violation::new(self, id, None, text));
        }
        Judgement::of(violations)
    }
}

/// Returns the writes that changed something after the first step that follows this rest, with the index of the first.
fn writes_after_rest(run: &RunView<'_>, rest: u32) -> Option<Writes> {
    let events = &run.run.events;
    let rest = events
        .iter()
        .position(|event| matches!(event.kind, EventKind::Rest { occurrence } if occurrence == rest))?;
    let step = events.iter().enumerate().skip(rest).find_map(|(index, event)| match &event.kind {
        EventKind::Request(request) if request.changed && matches!(request.author, Author::Actor(_)) => {
            Some(index)
        }
        _ => None,
    })?;
    Some(writes_from(run, step))
}

/// Writes, as verb with resource, and object; with the index of the first event of each.
pub(super) type Writes = BTreeMap<(String, ObjectId), usize>;

/// Returns the writes that changed something from this event on.
pub(super) fn writes_from(run: &RunView<'_>, start: usize) -> Writes {
    let mut writes = Writes::new();
    for (index, request) in run.effective_writes().filter(|(index, _)| *index >= start) {
        writes.entry(write_of(run, request)).or_insert(index);
    }
    writes
}

/// Returns what a request writes, in the form in which two runs are compared.
pub(super) fn write_of(run: &RunView<'_>, request: &RequestEvent) -> (String, ObjectId) {
    let verb = format!("{} of {}", request.verb, request.resource_path());
    (verb, run.names.canonical_id(&request.object_id()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::ReconcileResult;
    use crate::testing::{RunBuilder, judge};

    fn run(fault: Option<Fault>, writes: &[&str]) -> crate::Run {
        let mut run = RunBuilder::new();
        run.rest();
        if let Some(fault) = fault {
            run.deviate(Moment::Rest { occurrence: 1 }, fault);
        }
        run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
        run.start("a/foo");
        for name in writes {
            run.write("create", "configmaps", name, Some(json!({})));
        }
        run.finish()
    }

    #[test]
    fn other_writes_of_a_fresh_instance_are_reported() {
        let kept = run(None, &["a/one"]);
        let reference = ReferenceRuns::new(&kept, &kept);
        let more = judge(&FreshEqualsKept, &run(Some(Fault::Reload), &["a/one", "a/two"]), Some(&reference));
        assert_eq!(more.violations[0].object, "a/two");
        let less = judge(&FreshEqualsKept, &run(Some(Fault::Reload), &[]), Some(&reference));
        assert_eq!(less.violations[0].object, "a/one");
        let same = judge(&FreshEqualsKept, &run(Some(Fault::Reload), &["a/one"]), Some(&reference));
        assert!(same.had_subject && same.violations.is_empty());
    }

    /// A run with this seed in which a stand-in writes this object after the restart.
    fn with_stand_in(fault: Option<Fault>, seed: u64, name: &str, writes: &[&str]) -> crate::Run {
        let mut run = RunBuilder::new();
        run.rest();
        if let Some(fault) = fault {
            run.deviate(Moment::Rest { occurrence: 1 }, fault);
        }
        run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
        run.start("a/foo");
        for name in writes {
            run.write("create", "configmaps", name, Some(json!({})));
        }
        run.actor("stand-in", "patch", "pods", name, Some(json!({})));
        let mut run = run.finish();
        run.plan.seed = seed;
        run
    }

    #[test]
    fn a_stand_in_that_acts_otherwise_with_another_seed_excuses_other_writes() {
        let kept = with_stand_in(None, 1, "a/one", &["a/one"]);
        let reference = ReferenceRuns::new(&kept, &kept);
        let judged = |seed, name| {
            judge(&FreshEqualsKept, &with_stand_in(Some(Fault::Reload), seed, name, &[]), Some(&reference))
        };
        assert!(!judged(2, "a/two").had_subject);
        assert_eq!(judged(2, "a/one").violations.len(), 1);
        assert_eq!(judged(1, "a/two").violations.len(), 1, "the plugin has caused the difference");
    }

    /// A run in which a timer makes the plugin delete an object before or after the step that follows the first rest.
    fn expires(fault: Option<Fault>) -> crate::Run {
        let is_delayed = fault.is_some();
        let mut run = RunBuilder::new();
        run.start("a/old");
        run.write("create", "configmaps", "a/old", Some(json!({})));
        run.end(ReconcileResult::Requeue(45_000));
        run.rest();
        if let Some(fault) = fault {
            run.deviate(Moment::Rest { occurrence: 1 }, fault);
        }
        for is_step in if is_delayed { [false, true] } else { [true, false] } {
            if is_step {
                run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
                continue;
            }
            run.start_for("a/old", "requeue");
            run.write("delete", "configmaps", "a/old", None);
            run.end(ReconcileResult::Ok);
        }
        run.finish()
    }

    #[test]
    fn timers_that_the_restart_moves_before_the_step_are_not_judged() {
        let kept = expires(None);
        let reference = ReferenceRuns::new(&kept, &kept);
        let judgement = judge(&FreshEqualsKept, &expires(Some(Fault::Reload)), Some(&reference));
        assert!(!judgement.had_subject, "{judgement:?}");
    }

    #[test]
    fn a_restart_into_the_past_is_not_judged() {
        let kept = run(None, &["a/one"]);
        let reference = ReferenceRuns::new(&kept, &kept);
        let past = Fault::Restart { past: vec![("foos.example.com".to_owned(), 1)] };
        assert!(!judge(&FreshEqualsKept, &run(Some(past), &[]), Some(&reference)).had_subject);
    }
}
