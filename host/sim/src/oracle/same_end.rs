//! *same end*: whatever faults came between, the objects at rest are those of the reference.

use std::collections::BTreeMap;

use super::timers::late_timer_changes;
use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::canonical::names_a_time;
use crate::analysis::{EndDifference, ObjectId, RunView};
use crate::run::{End, RequestEvent, Run};

pub(super) const DESCRIPTION: Description = Description {
    name: "same end",
    reports: "the objects at rest differ from those of a run without faults in which the actors did the same in the same order",
    premise: "A controller is level-triggered: its end follows from the wanted state, not from the path. UIDs, versions, times and generated \
              names do not count, nor does anything that differs between two runs without faults and with different seeds. Not judged: runs \
              that do not come to rest or in which a key still fails that succeeds in the reference, runs in which a timer of 30 s or more made the plugin write because the faults took so long, or did not because they ended earlier, runs that are too short for \
              what it writes without faults after it has asked for a key at short intervals for 30 s, runs in which an object is gone that is still being deleted at the end of the reference, how many objects have a time in their name if the run takes longer or shorter, and tasks for which no run without faults is known. If the plugin never reconciled a state between two \
              steps, an object that it made for that state may be missing. If two keys that still exist want an object of one name, the first one may get it: a run in which another key got it than in the reference is not judged. \
              A plugin that gives something else that is scarce to the key that asks first ends differently by right: switch the oracle off in its scenario.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct SameEnd;

impl Oracle for SameEnd {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let Some(reference) = reference.filter(|_| run.run.end == End::AtRest) else {
            return Judgement::without_subject();
        };
        let Some(expected) = reference.end_of(run) else { return Judgement::without_subject() };
        if reference.has_unfinished_key(run)
            || reference.has_polled_longer_than(run)
            || late_timer_changes(run) > reference.late_timer_changes()
            || is_too_short(run, reference)
        {
            return Judgement::without_subject();
        }
        let found = run.canonical_end();
        if expected.has_terminating_object_without(&found) {
            return Judgement::without_subject();
        }
        let skipped_state = !run.reconciled_every_state();
        let has_other_length = length(run.run) != length(reference.run());
        let mut first: BTreeMap<String, EndDifference> = BTreeMap::new();
        for difference in expected.differences(&found, reference.mask()) {
            let id = &difference.id;
            // It may have been made for a state that is over.
            if skipped_state && found.count(id) < expected.count(id) && reference.is_made_by_plugin(id) {
                continue;
            }
            if has_other_length && difference.pointer.is_empty() && names_a_time(&id.name) {
                continue;
            }
            first.entry(difference.id.resource.clone()).or_insert(difference);
        }
        // Only if there is a difference, because the view of the reference costs as much as that of the run.
        let reference_view = || RunView::new(reference.run(), reference.random());
        if !first.is_empty() && another_key_was_first(run, &reference_view()) {
            return Judgement::without_subject();
        }
        Judgement::of(first.into_values().map(|difference| self.violation(&difference)).collect())
    }
}

/// Whether the run ended before a late timer of the reference was due.
fn is_too_short(run: &RunView<'_>, reference: &ReferenceRuns) -> bool {
    late_timer_changes(run) < reference.late_timer_changes() && length(run.run) < length(reference.run())
}

/// Returns how long a run took, in virtual milliseconds.
fn length(run: &Run) -> u64 {
    run.events.last().map_or(0, |event| event.time)
}

/// Whether an object was made by another key than in the reference, although both keys exist at both ends.
fn another_key_was_first(run: &RunView<'_>, reference: &RunView<'_>) -> bool {
    let (makers, expected) = (makers(run), makers(reference));
    let mut others = makers.iter().filter_map(|(id, key)| Some((*key, *expected.get(id)?)));
    let exists = |key: &str| {
        [run, reference]
            .iter()
            .all(|view| view.run.objects.iter().any(|object| ObjectId::of(object).key() == key))
    };
    others.any(|(key, other)| key != other && exists(key) && exists(other))
}

/// Returns the key whose reconcile created each object, the latest if there were several. Generated names are not contested.
fn makers<'a>(run: &RunView<'a>) -> BTreeMap<ObjectId, &'a str> {
    let created = run.effective_writes().filter(|(_, request)| request.before.is_none());
    let maker = |request: &RequestEvent| {
        let id = request.object_id();
        let key = run.reconciles.get(&request.reconcile?)?.key;
        (run.names.canonical_id(&id) == id).then_some((id, key))
    };
    created.filter_map(|(_, request)| maker(request)).collect()
}

impl SameEnd {
    fn violation(&self, difference: &EndDifference) -> Violation {
        let EndDifference { id, pointer, expected, found } = difference;
        let explanation = if pointer.is_empty() {
            format!("at rest there is {found} {id}, without faults {expected}")
        } else {
            format!("at rest {id} has {found} at {pointer}, without faults {expected}")
        };
        Violation::new(self, id, None, explanation)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::run::ReconcileResult;
    use crate::testing::{RunBuilder, judge};

    fn run(seed: u64, steps: u32, status: &Value) -> crate::Run {
        let mut run = RunBuilder::new();
        run.seed(seed);
        for step in 0..steps {
            run.rest();
            run.actor("user", "create", "foos.example.com", &format!("a/foo{step}"), Some(json!({})));
        }
        run.start("a/foo0");
        run.write("create", "configmaps", "a/made", Some(json!({"status": status})));
        run.finish()
    }

    fn reference(status: [&Value; 2]) -> ReferenceRuns {
        ReferenceRuns::new(&run(1, 1, status[0]), &run(2, 1, status[1]))
    }

    #[test]
    fn another_end_after_the_same_task_is_reported() {
        let ready = json!({"ready": true, "at": "2026-01-01T00:00:00Z"});
        let reference = reference([&ready, &ready]);
        let bad = judge(
            &SameEnd,
            &run(3, 1, &json!({"ready": false, "at": "2026-01-01T00:00:00Z"})),
            Some(&reference),
        );
        assert!(bad.violations[0].explanation.contains("has false at /status/ready"));
        let good = judge(
            &SameEnd,
            &run(3, 1, &json!({"ready": true, "at": "2026-02-02T00:00:00Z"})),
            Some(&reference),
        );
        assert!(good.had_subject && good.violations.is_empty());
    }

    #[test]
    fn another_task_is_not_judged_until_a_run_without_faults_is_known() {
        let mut reference = reference([&json!(1), &json!(1)]);
        assert!(!judge(&SameEnd, &run(3, 2, &json!(2)), Some(&reference)).had_subject);
        reference.add_order(&run(4, 2, &json!(1)));
        assert_eq!(judge(&SameEnd, &run(3, 2, &json!(2)), Some(&reference)).violations.len(), 1);
    }

    #[test]
    fn what_depends_on_the_seed_is_not_compared() {
        let reference = reference([&json!({"token": "x"}), &json!({"token": "y"})]);
        assert_eq!(judge(&SameEnd, &run(3, 1, &json!({"token": "z"})), Some(&reference)).violations, []);
        assert_eq!(
            judge(&SameEnd, &run(3, 1, &json!({"token": "z", "more": 1})), Some(&reference)).violations.len(),
            1
        );
    }

    #[test]
    fn a_run_that_ends_before_a_timer_of_the_reference_is_not_judged() {
        let run = |fires: bool, end: u64| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", "configmaps", "a/old", Some(json!({})));
            run.start("a/old");
            run.end(ReconcileResult::Requeue(45_000));
            if fires {
                run.at(45_000);
                run.start_for("a/old", "requeue");
                run.write("delete", "configmaps", "a/old", None);
                run.end(ReconcileResult::Ok);
            }
            run.at(end);
            run.rest();
            run.finish()
        };
        let plain = run(true, 80_000);
        let reference = ReferenceRuns::new(&plain, &plain);
        assert!(!judge(&SameEnd, &run(false, 60_000), Some(&reference)).had_subject);
        let judgement = judge(&SameEnd, &run(false, 80_000), Some(&reference));
        assert_eq!(judgement.violations.len(), 1, "there was time enough");
    }

    #[test]
    fn how_many_objects_are_named_after_times_depends_on_the_length_of_a_run() {
        let run = |end: u64, names: &[&str]| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
            run.start("a/foo");
            for name in names {
                run.write("create", "jobs.batch", name, Some(json!({})));
            }
            run.at(end);
            run.rest();
            run.finish()
        };
        let plain = run(60_000, &["a/foo-1767226052"]);
        let reference = ReferenceRuns::new(&plain, &plain);
        let found =
            |end, names: &[&str]| judge(&SameEnd, &run(end, names), Some(&reference)).violations.len();
        assert_eq!(found(90_000, &["a/foo-1767226052", "a/foo-1767226082"]), 0);
        assert_eq!(found(60_000, &["a/foo-1767226052", "a/foo-1767226082"]), 1, "it took as long");
        assert_eq!(found(90_000, &["a/foo-1767226052", "a/bar"]), 1);
    }

    #[test]
    fn an_object_may_be_gone_that_the_reference_is_still_deleting() {
        let run = |has_finalizer: bool| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
            run.start("a/foo");
            run.end(ReconcileResult::Ok);
            let terminating =
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}});
            let left = has_finalizer.then_some(terminating);
            run.actor("user", "delete", "foos.example.com", "a/foo", left);
            run.finish()
        };
        let (stuck, gone) = (run(true), run(false));
        let reference = ReferenceRuns::new(&stuck, &stuck);
        assert!(!judge(&SameEnd, &gone, Some(&reference)).had_subject);
        let reference = ReferenceRuns::new(&gone, &gone);
        assert_eq!(judge(&SameEnd, &stuck, Some(&reference)).violations.len(), 1);
    }

    #[test]
    fn which_of_two_keys_gets_an_object_of_one_name_is_not_judged() {
        let run = |first: &str, deletes: bool, status: &str| {
            let mut run = RunBuilder::new();
            for foo in ["a/one", "a/two"] {
                run.actor("user", "create", "foos.example.com", foo, Some(json!({})));
            }
            run.start(first);
            run.write("create", "secrets", "a/shared", Some(json!({"owner": first, "status": status})));
            run.end(ReconcileResult::Ok);
            if deletes {
                run.actor("user", "delete", "foos.example.com", "a/one", None);
            }
            run.finish()
        };
        let plain = run("a/one", false, "ready");
        let reference = ReferenceRuns::new(&plain, &plain);
        assert!(!judge(&SameEnd, &run("a/two", false, "ready"), Some(&reference)).had_subject);
        let violations = judge(&SameEnd, &run("a/one", false, "broken"), Some(&reference)).violations;
        assert_eq!(violations.len(), 1, "the same key got it");
        let deleting = run("a/one", true, "ready");
        let reference = ReferenceRuns::new(&deleting, &deleting);
        let judgement = judge(&SameEnd, &run("a/two", true, "ready"), Some(&reference));
        assert_eq!(judgement.violations.len(), 1, "one of the keys is gone");
    }

    #[test]
    fn a_generated_name_does_not_count() {
        let named = |name: &str| {
            let mut run = RunBuilder::new();
            run.start("x");
            run.write(
                "create",
                "pods",
                &format!("a/{name}"),
                Some(json!({"metadata": {"generateName": "web-"}})),
            );
            run.write("create", "configmaps", "a/list", Some(json!({"pods": [name]})));
            run.finish()
        };
        let reference = ReferenceRuns::new(&named("web-abcde"), &named("web-fghij"));
        let judgement = judge(&SameEnd, &named("web-klmno"), Some(&reference));
        assert!(judgement.had_subject && judgement.violations.is_empty());
    }

    #[test]
    fn an_object_for_a_state_that_was_never_reconciled_may_be_missing() {
        // The plugin makes an object for each revision.
        let run = |merges: bool, made: &[i32]| {
            let mut run = RunBuilder::new();
            for revision in 1..=2 {
                run.actor("user", "update", "foos.example.com", "a/foo", Some(json!({"revision": revision})));
                run.deliver("foos.example.com", "a/foo", "MODIFIED");
                if revision == 1 && merges {
                    continue;
                }
                run.start("a/foo");
                if made.contains(&revision) {
                    run.write("create", "configmaps", &format!("a/made{revision}"), Some(json!({})));
                }
                run.end(ReconcileResult::Ok);
            }
            run.finish()
        };
        let reference = ReferenceRuns::new(&run(false, &[1, 2]), &run(false, &[1, 2]));
        assert_eq!(judge(&SameEnd, &run(true, &[2]), Some(&reference)).violations, []);
        assert_eq!(judge(&SameEnd, &run(false, &[2]), Some(&reference)).violations.len(), 1);
    }

    #[test]
    fn what_a_series_of_timers_does_later_than_the_run_lasts_is_not_judged() {
        let run = |polls: u64| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", "configmaps", "a/old", Some(json!({})));
            run.start("a/old");
            run.end(ReconcileResult::Requeue(10_000));
            for poll in 1..=polls {
                run.at(poll * 10_000);
                run.start_for("a/old", "requeue");
                if poll == 5 {
                    run.write("delete", "configmaps", "a/old", None);
                }
                run.end(ReconcileResult::Requeue(10_000));
            }
            run.finish()
        };
        let reference = ReferenceRuns::new(&run(5), &run(5));
        assert!(!judge(&SameEnd, &run(4), Some(&reference)).had_subject);
        assert!(judge(&SameEnd, &run(6), Some(&reference)).had_subject);
    }

    #[test]
    fn what_a_timer_does_because_the_run_is_longer_is_not_judged() {
        let run = |delay: u64, is_longer: bool| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", "configmaps", "a/old", Some(json!({})));
            run.start("a/old");
            run.end(ReconcileResult::Requeue(delay));
            if is_longer {
                run.start_for("a/old", "requeue");
                run.write("delete", "configmaps", "a/old", None);
                run.end(ReconcileResult::Ok);
            }
            run.finish()
        };
        for (delay, had_subject) in [(60_000, false), (1_000, true)] {
            let reference = ReferenceRuns::new(&run(delay, false), &run(delay, false));
            assert_eq!(judge(&SameEnd, &run(delay, true), Some(&reference)).had_subject, had_subject);
        }
    }
}
