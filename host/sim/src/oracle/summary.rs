//! *summary*: with late or old views, lost answers or crashes, the plugin deletes and creates no more than without.

use super::losses::losses;
use super::reference_runs::{Family, peaks_with_events};
use super::timers::late_timer_changes;
use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::RunView;
use crate::plan::Fault;

pub(super) const DESCRIPTION: Description = Description {
    name: "summary",
    reports: "the plugin deletes an object more often than in the reference, if the object holds state (volumes, Pods, StatefulSets, Nodes, \
              Namespaces) or another client created it; or one key has more objects of a generated name at once than in the reference",
    premise: "A view that is behind must not cost data or duplicate what has no fixed name, even if the end is right again. Judged only if the actors did the same \
              as in the reference. Deletes are compared only under late or old views, crashes and reloads; a deleted object that the plugin made \
              itself and that holds no state is no loss, nor is one that it made after the first fault, unless it makes it again before an actor takes a step. \
              Not judged: what timers of 30 s or more delete, or create if they do in the reference, too, \
              because the run is longer.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct Summary;

impl Oracle for Summary {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let Some(reference) = reference.filter(|reference| reference.has_actor_writes_of(run)) else {
            return Judgement::without_subject();
        };
        let mut judgement = Judgement::without_subject();
        let has_more_timers = late_timer_changes(run) > reference.late_timer_changes();
        if run.has_only(may_cause_excess_deletes) && !has_more_timers {
            self.judge_deletes(run, reference, &mut judgement);
        }
        let keeps_order = |fault: &Fault| {
            !matches!(fault, Fault::HoldControllers(_) | Fault::DelayRequest(_) | Fault::TakeStep { .. })
        };
        // A plugin that creates by its timers in the reference, too, creates more in a longer run.
        if run.has_only(keeps_order) && !(has_more_timers && reference.late_timer_changes() > 0) {
            self.judge_creates(run, reference, &mut judgement);
        }
        judgement.violations.sort_by_key(|violation| violation.event);
        judgement
    }
}

/// Whether the fault is one after which a wrong plugin deletes more: a late or old view, a crash or a reload.
fn may_cause_excess_deletes(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::HoldWatch(_)
            | Fault::DropWatch(_)
            | Fault::Restart { .. }
            | Fault::CrashBefore
            | Fault::CrashAfter
            | Fault::Reload
    )
}

impl Summary {
    fn judge_deletes(&self, run: &RunView<'_>, reference: &ReferenceRuns, judgement: &mut Judgement) {
        let deleted = run.effective_writes().any(|(_, request)| request.is_effective_delete());
        judgement.had_subject |= !run.deviations.is_empty() && deleted;
        for (id, loss) in losses(run, reference.actors()) {
            let expected = reference.deletes(&id);
            if loss.count > expected {
                let explanation = format!(
                    "the plugin deleted {id} {}, in the reference {}; the only faults are late or old views, crashes and reloads",
                    times(loss.count),
                    times(expected)
                );
                judgement.violations.push(Violation::new(self, &id, Some(loss.event), explanation));
            }
        }
    }

    fn judge_creates(&self, run: &RunView<'_>, reference: &ReferenceRuns, judgement: &mut Judgement) {
        for (family, (count, index)) in peaks_with_events(run) {
            judgement.had_subject = true;
            let expected = reference.peak(&family);
            if count > expected && is_made_in_reference(&family, reference) {
                let Family { key, id } = family;
                let explanation = format!(
                    "reconciles of {key} made {count} objects {id} that exist at once, in the reference at most {expected}"
                );
                judgement.violations.push(Violation::new(self, &id, Some(index), explanation));
            }
        }
    }
}

/// Whether the same key makes such objects without faults; another may have taken over otherwise.
fn is_made_in_reference(family: &Family, reference: &ReferenceRuns) -> bool {
    reference.peak(family) > 0
}

fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::Moment;
    use crate::testing::{RunBuilder, judge};

    fn run(resource: &str, recreated: bool, fault: Option<Fault>) -> crate::Run {
        let mut run = RunBuilder::new();
        run.start("db");
        run.write("create", resource, "a/db", Some(json!({"size": 20})));
        if let Some(fault) = fault {
            run.deviate(Moment::Rest { occurrence: 1 }, fault);
        }
        run.start("db");
        if recreated {
            run.write("delete", resource, "a/db", None);
            run.write("create", resource, "a/db", Some(json!({"size": 20})));
        }
        run.finish()
    }

    fn restart() -> Fault {
        Fault::Restart { past: vec![("dbs.example.com".to_owned(), 1)] }
    }

    #[test]
    fn a_stateful_object_that_is_deleted_and_made_again_is_reported() {
        let plain = run("statefulsets.apps", false, None);
        let reference = ReferenceRuns::new(&plain, &plain);
        let bad = judge(&Summary, &run("statefulsets.apps", true, Some(restart())), Some(&reference));
        assert!(bad.violations[0].explanation.contains("once, in the reference never"));
        let refused = run("statefulsets.apps", true, Some(Fault::Refuse(500)));
        assert_eq!(judge(&Summary, &refused, Some(&reference)).violations, []);
    }

    #[test]
    fn a_stateless_object_of_the_plugin_may_be_made_again() {
        let plain = run("configmaps", false, None);
        let reference = ReferenceRuns::new(&plain, &plain);
        let judgement = judge(&Summary, &run("configmaps", true, Some(restart())), Some(&reference));
        assert!(judgement.had_subject && judgement.violations.is_empty());
    }

    /// A run in which the plugin does `late_writes` after a restart with an old list, and the user scales up at last.
    fn surplus(late_writes: &[&str]) -> crate::Run {
        let mut run = RunBuilder::new();
        run.rest();
        run.actor("user", "create", "sets.example.com", "a/db", Some(json!({"replicas": 1})));
        run.start("a/db");
        run.write("create", "pods", "a/db-0", Some(json!({})));
        run.rest();
        if !late_writes.is_empty() {
            run.deviate(Moment::Rest { occurrence: 2 }, restart());
            run.restart(&[("sets.example.com", 1)]);
        }
        run.start("a/db");
        for write in late_writes {
            let (verb, name) = write.split_once(' ').expect("verb and name");
            let after = (verb == "create").then(|| json!({}));
            run.write(verb, "pods", &format!("a/{name}"), after);
        }
        run.rest();
        run.actor("user", "patch", "sets.example.com", "a/db", Some(json!({"replicas": 2})));
        run.start("a/db");
        run.write("create", "pods", "a/db-1", Some(json!({})));
        run.finish()
    }

    #[test]
    fn what_the_plugin_made_because_of_an_old_view_it_may_delete() {
        let plain = surplus(&[]);
        let reference = ReferenceRuns::new(&plain, &plain);
        for (writes, count) in [
            (&["create db-1", "delete db-1"][..], 0),
            (&["create db-1", "delete db-1", "create db-1"], 1),
            (&["create db-1", "delete db-1", "create db-1", "delete db-1"], 1),
            (&["delete db-0", "create db-0"], 1),
            (&["delete db-0"], 1),
        ] {
            let judgement = judge(&Summary, &surplus(writes), Some(&reference));
            assert_eq!(judgement.violations.len(), count, "{writes:?}: {:?}", judgement.violations);
            assert!(judgement.had_subject, "{writes:?}");
        }
    }

    fn pods(names: &[&str], deleted_between: bool) -> crate::Run {
        let mut run = RunBuilder::new();
        run.deviate(Moment::Rest { occurrence: 1 }, Fault::LoseAnswer);
        run.start("set");
        for name in names {
            let pod = json!({"metadata": {"generateName": "web-"}});
            run.write("create", "pods", &format!("a/{name}"), Some(pod));
            if deleted_between {
                run.controller("delete", "pods", &format!("a/{name}"), None);
            }
        }
        run.finish()
    }

    #[test]
    fn more_objects_of_a_generated_name_than_without_faults_are_reported() {
        let plain = pods(&["web-abcde"], false);
        let reference = ReferenceRuns::new(&plain, &plain);
        let bad = judge(&Summary, &pods(&["web-xyz12", "web-pqr34"], false), Some(&reference));
        assert_eq!(bad.violations[0].object, "a/web-*");
        assert_eq!(
            judge(&Summary, &pods(&["web-xyz12", "web-pqr34"], true), Some(&reference)).violations,
            []
        );
    }
}
