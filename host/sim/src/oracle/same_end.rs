//! *same end*: whatever faults came between, the objects at rest are those of the reference.

use std::collections::BTreeMap;

use super::timers::late_timer_changes;
use super::{Description, Judgement, Oracle, Reference, Violation};
use crate::analysis::{EndDifference, RunView};
use crate::run::End;

pub(super) const DESCRIPTION: Description = Description {
    name: "same end",
    reports: "the objects at rest differ from those of a run without faults in which the actors did the same in the same order",
    premise: "A controller is level-triggered: its end follows from the wanted state, not from the path. UIDs, versions, times and generated \
              names do not count, nor does anything that differs between two runs without faults and with different seeds. Not judged: runs \
              that do not come to rest or in which a key still fails that succeeds in the reference, runs in which a timer of 30 s or more made the plugin write because the faults took so long, runs that are too short for \
              what it writes without faults after it has asked for a key at short intervals for 30 s, and tasks for which no run without faults is known. If the plugin never reconciled a state between two \
              steps, an object that it made for that state may be missing. A plugin that gives something scarce to the key that asks first ends differently by right: switch the oracle off in its scenario.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct SameEnd;

impl Oracle for SameEnd {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&Reference>) -> Judgement {
        let Some(reference) = reference.filter(|_| run.run.end == End::AtRest) else {
            return Judgement::without_subject();
        };
        let Some(expected) = reference.end_of(run) else { return Judgement::without_subject() };
        if reference.has_unfinished_key(run)
            || reference.has_polled_longer_than(run)
            || late_timer_changes(run) > reference.late_timer_changes()
        {
            return Judgement::without_subject();
        }
        let found = run.canonical_end();
        let skipped_state = !run.reconciled_every_state();
        let mut first: BTreeMap<String, EndDifference> = BTreeMap::new();
        for difference in expected.differences(&found, reference.mask()) {
            let id = &difference.id;
            // It may have been made for a state that is over.
            if skipped_state && found.count(id) < expected.count(id) && reference.is_made_by_plugin(id) {
                continue;
            }
            first.entry(difference.id.resource.clone()).or_insert(difference);
        }
        Judgement::of(first.into_values().map(|difference| self.violation(&difference)).collect())
    }
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

    fn reference(status: [&Value; 2]) -> Reference {
        Reference::new(&run(1, 1, status[0]), &run(2, 1, status[1]))
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
        let reference = Reference::new(&named("web-abcde"), &named("web-fghij"));
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
        let reference = Reference::new(&run(false, &[1, 2]), &run(false, &[1, 2]));
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
        let reference = Reference::new(&run(5), &run(5));
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
            let reference = Reference::new(&run(delay, false), &run(delay, false));
            assert_eq!(judge(&SameEnd, &run(delay, true), Some(&reference)).had_subject, had_subject);
        }
    }
}
