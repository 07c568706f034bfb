//! *idempotence*: a resync or a restart at rest writes nothing, and what a reconcile writes does not depend on why it runs.

use std::collections::{BTreeMap, BTreeSet};

use super::fresh_equals_kept::{Writes, write_of, writes_from};
use super::timers::{late_timer_writes, reconciles_by_timers};
use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::RunView;
use crate::plan::{Fault, Moment};
use crate::run::{Author, End, Event, EventKind, ReconcileResult, RequestEvent};

pub(super) const DESCRIPTION: Description = Description {
    name: "idempotence",
    reports: "the plugin changes an object after a restart, a reload or a resync of all keys at rest, before anything else happens; or it changes \
              other objects than in the reference if it does not learn why a key is reconciled",
    premise: "At rest everything is as the plugin wants it, so looking again changes nothing. Judged only if the last reconcile of every key \
              had succeeded, if the first lists after the restart were current, and if no other fault happened at the same rest. Not judged: what the \
              plugin does after a built-in controller has changed something, and writes of timers that are 30 s long or due in the reference, too. \
              `wit/types.wit` calls the reasons and attempts informational: a plugin may log them, or wait longer, but writes the same without \
              them. How often it writes an object does not count, only whether; judged only if both runs come to rest and the actors did the \
              same. Events and Leases do not count.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct Idempotence;

impl Oracle for Idempotence {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let mut judgement = Judgement::without_subject();
        if let Some(reference) = reference {
            self.judge_without_reasons(run, reference, &mut judgement);
        }
        for (start, deviation) in &run.deviations {
            let Moment::Rest { occurrence } = deviation.at else { continue };
            let what = match &deviation.fault {
                Fault::Restart { past } if past.is_empty() => "restart",
                Fault::Reload => "reload",
                Fault::RequeueAll => "resync of all keys",
                _ => continue,
            };
            if all_keys_succeeded(run, *start) && is_alone_at_rest(run, *start) {
                judgement.had_subject = true;
                let later = later_writes(run, reference, occurrence);
                judgement.violations.extend(self.first_write_after(run, *start, what, &later));
            }
        }
        judgement
    }
}

impl Idempotence {
    /// Compares the writes with those of the reference if the plugin did not learn why it was called, and nothing else was different.
    fn judge_without_reasons(&self, run: &RunView<'_>, reference: &ReferenceRuns, judgement: &mut Judgement) {
        let is_withheld = |fault: &Fault| matches!(fault, Fault::WithholdReasons);
        let come_to_rest = run.run.end == End::AtRest && reference.run().end == End::AtRest;
        if run.deviations.is_empty()
            || !run.has_only(is_withheld)
            || !come_to_rest
            || !reference.has_actor_writes_of(run)
        {
            return;
        }
        judgement.had_subject = true;
        let informed = RunView::new(reference.run(), reference.random());
        let start = run.deviations[0].0;
        // What the plugin does before its first reconcile is the same in both.
        let (without, with) = (writes_from(run, start), writes_from(&informed, 0));
        for ((verb, id), index) in without.iter().filter(|(write, _)| !with.contains_key(*write)) {
            let text = format!(
                "without the reasons of its reconciles, the plugin sends {verb} {id}, which changes it; with them it does not"
            );
            judgement.violations.push(Violation::new(self, id, Some(*index), text));
        }
        for ((verb, id), _) in with.iter().filter(|(write, _)| !without.contains_key(*write)) {
            let text = format!(
                "with the reasons of its reconciles, the plugin sends {verb} {id}, which changes it; without them it does not"
            );
            judgement.violations.push(Violation::new(self, id, None, text));
        }
    }

    /// Returns the first write after the fault, unless something else could be its cause. `later` are the writes that come in any case.
    fn first_write_after(
        &self,
        run: &RunView<'_>,
        start: usize,
        what: &str,
        later: &Writes,
    ) -> Option<Violation> {
        let (late, by_timers) = (late_timer_writes(run), reconciles_by_timers(run));
        for (index, event) in run.run.events.iter().enumerate().skip(start + 1) {
            match &event.kind {
                EventKind::Request(request) if request.is_by_plugin() && request.is_effective() => {
                    let id = run.names.canonical_id(&request.object_id());
                    if is_due_anyway(run, request, [&late, &by_timers], later) {
                        continue;
                    }
                    let explanation = format!(
                        "after a {what} at rest, the plugin sent {} {id}, which changed it although nothing else had happened",
                        request.verb
                    );
                    return Some(Violation::new(self, &id, Some(index), explanation));
                }
                EventKind::Request(request)
                    if matches!(request.author, Author::Actor(_) | Author::Controller) && request.changed =>
                {
                    return None;
                }
                EventKind::Deviated { .. } | EventKind::Rest { .. } => return None,
                _ => {}
            }
        }
        None
    }
}

/// Whether the last reconcile of every key before this event succeeded, and no view was behind.
fn all_keys_succeeded(run: &RunView<'_>, before: usize) -> bool {
    let mut last = BTreeMap::new();
    for reconcile in run.reconciles.values().filter(|reconcile| reconcile.start < before) {
        let is_success = matches!(
            reconcile.end,
            Some((end, ReconcileResult::Ok | ReconcileResult::Requeue(_))) if end < before
        );
        last.insert((reconcile.plugin, reconcile.watch, reconcile.key), is_success);
    }
    let may_delay = |fault: &Fault| {
        matches!(
            fault,
            Fault::HoldWatch(_) | Fault::DropWatch(_) | Fault::HoldControllers(_) | Fault::DelayRequest(_)
        )
    };
    last.values().all(|is_success| *is_success) && !run.has_between(0, before, may_delay)
}

/// Whether the fault is the only one since the world was at rest. Two faults at one rest happen together: a restart into the past and a reload
/// are one start with old lists.
fn is_alone_at_rest(run: &RunView<'_>, start: usize) -> bool {
    let since_rest = run.run.events[..start]
        .iter()
        .rev()
        .take_while(|event| !matches!(event.kind, EventKind::Rest { .. }));
    since_rest.into_iter().all(|event| !matches!(event.kind, EventKind::Deviated { .. }))
}

/// Returns what the reference writes after this rest. Its timers are due earlier in relation to the steps, because the fault delays the next step
/// by one rest. Without a reference with the same writes of actors, nothing is known.
fn later_writes(run: &RunView<'_>, reference: Option<&ReferenceRuns>, rest: u32) -> Writes {
    let Some(reference) = reference.filter(|reference| reference.has_actor_writes_of(run)) else {
        return Writes::new();
    };
    let kept = RunView::new(reference.run(), reference.random());
    let is_rest = |event: &Event| matches!(event.kind, EventKind::Rest { occurrence } if occurrence == rest);
    kept.run.events.iter().position(is_rest).map(|index| writes_from(&kept, index)).unwrap_or_default()
}

/// Whether a timer of the plugin caused the request, which is due for a long time, or which is due in the reference, too. `late` and `by_timers` are the
/// reconciles of late timers and of all.
fn is_due_anyway(
    run: &RunView<'_>,
    request: &RequestEvent,
    [late, by_timers]: [&BTreeSet<u64>; 2],
    later: &Writes,
) -> bool {
    request.reconcile.is_some_and(|number| {
        late.contains(&number) || by_timers.contains(&number) && later.contains_key(&write_of(run, request))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{RunBuilder, judge};

    fn run(result: ReconcileResult, past: &[(&str, u32)], after: u32) -> crate::Run {
        let mut run = RunBuilder::new();
        run.start("shop/a");
        run.write("create", "deployments.apps", "shop/a", Some(json!({"started": 1})));
        run.end(result);
        run.rest();
        let named = past.iter().map(|(resource, age)| ((*resource).to_owned(), *age)).collect();
        run.deviate(Moment::Rest { occurrence: 1 }, Fault::Restart { past: named });
        run.restart(past);
        run.start_for("shop/a", "startup");
        run.write("update", "deployments.apps", "shop/a", Some(json!({"started": after})));
        run.end(ReconcileResult::Ok);
        let mut run = run.finish();
        // A write that stores what was there changes nothing.
        for event in &mut run.events {
            if let EventKind::Request(request) = &mut event.kind
                && request.verb == "update"
            {
                request.changed = after != 1;
            }
        }
        run
    }

    #[test]
    fn a_write_after_a_restart_at_rest_is_reported() {
        let judgement = judge(&Idempotence, &run(ReconcileResult::Ok, &[], 2), None);
        assert_eq!(judgement.violations[0].resource, "deployments.apps");
    }

    #[test]
    fn a_write_without_effect_is_not() {
        let judgement = judge(&Idempotence, &run(ReconcileResult::Ok, &[], 1), None);
        assert!(judgement.had_subject && judgement.violations.is_empty());
    }

    #[test]
    fn a_key_that_had_failed_may_succeed_after_the_restart() {
        let failed = run(ReconcileResult::Error("later".to_owned()), &[], 2);
        assert!(!judge(&Idempotence, &failed, None).had_subject);
    }

    /// A run in which a fault at the first rest precedes a reload there, after which the plugin writes.
    fn reloaded_after(fault: Option<Fault>) -> crate::Run {
        let mut run = RunBuilder::new();
        run.start("shop/a");
        run.write("create", "deployments.apps", "shop/a", Some(json!({"started": 1})));
        run.end(ReconcileResult::Ok);
        run.rest();
        let at = || Moment::Rest { occurrence: 1 };
        if let Some(fault) = fault {
            run.deviate(at(), fault);
        }
        run.deviate(at(), Fault::Reload);
        run.restart(&[]);
        run.start_for("shop/a", "startup");
        run.write("update", "deployments.apps", "shop/a", Some(json!({"started": 2})));
        run.end(ReconcileResult::Ok);
        run.finish()
    }

    #[test]
    fn a_reload_together_with_a_restart_into_the_past_is_not_judged() {
        assert_eq!(judge(&Idempotence, &reloaded_after(None), None).violations.len(), 1);
        let past = Fault::Restart { past: vec![("foos.example.com".to_owned(), 1)] };
        assert!(!judge(&Idempotence, &reloaded_after(Some(past)), None).had_subject);
        let step = Fault::TakeStep { actor: "user".to_owned() };
        assert!(!judge(&Idempotence, &reloaded_after(Some(step)), None).had_subject);
    }

    #[test]
    fn a_write_after_that_of_a_controller_is_not_reported() {
        let mut run = RunBuilder::new();
        run.start("shop/a");
        run.write("create", "pods", "shop/a", Some(json!({})));
        run.end(ReconcileResult::Ok);
        run.rest();
        run.deviate(Moment::Rest { occurrence: 1 }, Fault::Restart { past: Vec::new() });
        run.restart(&[]);
        run.controller("delete", "pods", "shop/a", None);
        run.start_for("shop/a", "startup");
        run.write("create", "pods", "shop/a", Some(json!({})));
        run.end(ReconcileResult::Ok);
        assert_eq!(judge(&Idempotence, &run.finish(), None).violations, []);
    }

    /// A plugin deletes an object when its time is over, after a restart at the first rest or not.
    fn expires(restarts: bool) -> crate::Run {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "configmaps", "shop/a", Some(json!({})));
        run.start("shop/a");
        run.end(ReconcileResult::Requeue(45_000));
        run.rest();
        if restarts {
            run.deviate(Moment::Rest { occurrence: 1 }, Fault::Restart { past: Vec::new() });
            run.restart(&[]);
            run.start_for("shop/a", "startup");
            run.end(ReconcileResult::Requeue(15_000));
        } else {
            run.actor("user", "create", "configmaps", "shop/b", Some(json!({})));
        }
        run.start_for("shop/a", "requeue");
        run.write("delete", "configmaps", "shop/a", None);
        run.end(ReconcileResult::Ok);
        if restarts {
            run.rest();
            run.actor("user", "create", "configmaps", "shop/b", Some(json!({})));
        }
        run.finish()
    }

    #[test]
    fn a_timer_that_is_due_in_any_case_is_no_effect_of_the_restart() {
        let kept = expires(false);
        let reference = ReferenceRuns::new(&kept, &kept);
        let judgement = judge(&Idempotence, &expires(true), Some(&reference));
        assert!(judgement.had_subject && judgement.violations.is_empty(), "{judgement:?}");
        assert_eq!(judge(&Idempotence, &expires(true), None).violations, [], "the timer is long");
    }

    /// A run in which the keys are queued again at rest, and the plugin then writes, or does not.
    fn resynced(writes: bool) -> crate::Run {
        let mut run = RunBuilder::new();
        run.start("shop/a");
        run.write("create", "deployments.apps", "shop/a", Some(json!({})));
        run.end(ReconcileResult::Ok);
        run.rest();
        run.deviate(Moment::Rest { occurrence: 1 }, Fault::RequeueAll);
        run.start_for("shop/a", "resync");
        if writes {
            run.write("update", "deployments.apps", "shop/a", Some(json!({"count": 2})));
        }
        run.end(ReconcileResult::Ok);
        run.finish()
    }

    #[test]
    fn a_write_when_all_keys_are_queued_again_at_rest_is_reported() {
        let judgement = judge(&Idempotence, &resynced(true), None);
        assert!(judgement.violations[0].explanation.contains("after a resync of all keys at rest"));
        let judgement = judge(&Idempotence, &resynced(false), None);
        assert!(judgement.had_subject && judgement.violations.is_empty());
    }

    /// A run that writes these objects, without reasons if `is_withheld`.
    fn written(is_withheld: bool, names: &[&str]) -> crate::Run {
        let mut run = RunBuilder::new();
        run.rest();
        if is_withheld {
            run.deviate(Moment::Time(0), Fault::WithholdReasons);
        }
        run.actor("user", "create", "foos.example.com", "shop/a", Some(json!({})));
        run.start_for("shop/a", if is_withheld { "other" } else { "created" });
        for name in names {
            run.write("create", "configmaps", name, Some(json!({})));
        }
        run.end(ReconcileResult::Ok);
        run.finish()
    }

    #[test]
    fn other_writes_without_reasons_are_reported() {
        let with = written(false, &["shop/one"]);
        let reference = ReferenceRuns::new(&with, &with);
        let judged = |run: &crate::Run| judge(&Idempotence, run, Some(&reference));
        let less = judged(&written(true, &[]));
        assert_eq!((less.violations[0].object.as_str(), less.violations.len()), ("shop/one", 1));
        assert!(less.violations[0].explanation.contains("without them it does not"), "{less:?}");
        let more = judged(&written(true, &["shop/one", "shop/two"]));
        assert_eq!((more.violations[0].object.as_str(), more.violations.len()), ("shop/two", 1));
        let same = judged(&written(true, &["shop/one", "shop/one"]));
        assert!(same.had_subject && same.violations.is_empty(), "how often does not count");
        assert!(!judged(&with).had_subject);
        let mut not_at_rest = written(true, &[]);
        not_at_rest.end = End::NotAtRest;
        assert!(!judged(&not_at_rest).had_subject);
    }

    #[test]
    fn a_restart_into_the_past_is_not_judged() {
        let past = run(ReconcileResult::Ok, &[("foos.example.com", 1)], 2);
        assert!(!judge(&Idempotence, &past, None).had_subject);
    }
}
