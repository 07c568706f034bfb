//! *idempotence*: a restart or reload at rest writes nothing.

use std::collections::BTreeMap;

use super::{Description, Judgement, Oracle, Reference, Violation};
use crate::analysis::RunView;
use crate::plan::{Fault, Moment};
use crate::run::{Author, EventKind, ReconcileResult};

pub(super) const DESCRIPTION: Description = Description {
    name: "idempotence",
    reports: "the plugin changes an object after a restart or reload at rest, before anything else happens",
    premise: "At rest everything is as the plugin wants it, so looking again changes nothing. Judged only if the last reconcile of every key \
              had succeeded, and if the first lists after the restart were current. Events and Leases do not count.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct Idempotence;

impl Oracle for Idempotence {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, _: Option<&Reference>) -> Judgement {
        let mut judgement = Judgement::without_subject();
        for (start, deviation) in &run.deviations {
            let is_rest = matches!(deviation.at, Moment::Rest { .. });
            let what = match &deviation.fault {
                Fault::Restart { past } if past.is_empty() => "restart",
                Fault::Reload => "reload",
                _ => continue,
            };
            if is_rest && is_content(run, *start) {
                judgement.had_subject = true;
                judgement.violations.extend(self.first_write_after(run, *start, what));
            }
        }
        judgement
    }
}

impl Idempotence {
    fn first_write_after(&self, run: &RunView<'_>, start: usize, what: &str) -> Option<Violation> {
        for (index, event) in run.run.events.iter().enumerate().skip(start + 1) {
            match &event.kind {
                EventKind::Request(request) if request.is_by_plugin() && request.is_effective() => {
                    let id = run.names.canonical_id(&request.object_id());
                    let explanation = format!(
                        "after a {what} at rest, the plugin sent {} {id}, which changed it although nothing else had happened",
                        request.verb
                    );
                    return Some(Violation::new(self, &id, Some(index), explanation));
                }
                EventKind::Request(request)
                    if matches!(request.author, Author::Actor(_)) && request.changed =>
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
fn is_content(run: &RunView<'_>, before: usize) -> bool {
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

    #[test]
    fn a_restart_into_the_past_is_not_judged() {
        let past = run(ReconcileResult::Ok, &[("foos.example.com", 1)], 2);
        assert!(!judge(&Idempotence, &past, None).had_subject);
    }
}
