//! *delete after failed read*: an error of a read was taken for an empty answer.

use super::timers::late_timer_changes;
use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::RunView;
use crate::run::RequestEvent;

pub(super) const DESCRIPTION: Description = Description {
    name: "delete after failed read",
    reports: "a reconcile in which a get or list failed deletes an object that the reference does not delete",
    premise: "Who cannot read does not know what is superfluous. Not judged: reads that were repeated with success before the delete, and \
              `NotFound`, which is an answer; runs in which the actors did something else than in the reference; and runs in which timers of 30 s or more \
              write more often than there.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct DeleteAfterFailedRead;

impl Oracle for DeleteAfterFailedRead {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let Some(reference) = reference.filter(|reference| reference.has_actor_writes_of(run)) else {
            return Judgement::without_subject();
        };
        let mut judgement = Judgement::without_subject();
        if late_timer_changes(run) > reference.late_timer_changes() {
            return judgement;
        }
        for reconcile in run.reconciles.values() {
            let mut failed: Option<&RequestEvent> = None;
            for (index, request) in
                reconcile.requests.iter().filter_map(|index| Some((*index, run.request(*index)?)))
            {
                if matches!(request.verb.as_str(), "get" | "list") {
                    if is_failure(request) {
                        judgement.had_subject = true;
                        failed = Some(request);
                    } else if failed.is_some_and(|failed| failed.resource == request.resource) {
                        failed = None;
                    }
                    continue;
                }
                let id = run.names.canonical_id(&request.object_id());
                if let Some(failed) = failed
                    && request.is_effective_delete()
                    && reference.deletes(&id) == 0
                {
                    let explanation = format!(
                        "the plugin deleted {id} after its {} of {} had failed in the same reconcile; without that error it does not delete it",
                        failed.verb, failed.resource
                    );
                    judgement.violations.push(Violation::new(self, &id, Some(index), explanation));
                }
            }
        }
        judgement
    }
}

/// Whether the request has no usable answer.
fn is_failure(request: &RequestEvent) -> bool {
    !request.answered || request.status.is_none_or(|status| status == 429 || status >= 500)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::ReconcileResult;
    use crate::testing::{RunBuilder, judge};

    fn run(list_status: u16, again: bool, deletes: bool) -> crate::Run {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "apps.example.com", "a/x", Some(json!({})));
        run.start("a/set");
        run.ask("list", "secrets", "a/", list_status);
        if again {
            run.ask("list", "secrets", "a/", 200);
        }
        if deletes {
            run.write("delete", "apps.example.com", "a/x", None);
        }
        run.finish()
    }

    #[test]
    fn a_delete_after_a_failed_list_is_reported() {
        let reference = run(200, false, false);
        let reference = ReferenceRuns::new(&reference, &reference);
        assert_eq!(
            judge(&DeleteAfterFailedRead, &run(500, false, true), Some(&reference)).violations.len(),
            1
        );
        assert!(!judge(&DeleteAfterFailedRead, &run(404, false, true), Some(&reference)).had_subject);
        let repeated = judge(&DeleteAfterFailedRead, &run(500, true, true), Some(&reference));
        assert!(repeated.had_subject && repeated.violations.is_empty());
    }

    #[test]
    fn what_expires_because_the_run_is_longer_is_not_judged() {
        let run = |deletes: bool| {
            let mut run = RunBuilder::new();
            run.start("a/x");
            run.end(ReconcileResult::Requeue(60_000));
            run.at(60_000);
            run.start_for("a/x", "requeue");
            run.ask("list", "secrets", "a/", 500);
            if deletes {
                run.write("create", "apps.example.com", "a/x", Some(json!({})));
                run.write("delete", "apps.example.com", "a/x", None);
            }
            run.end(ReconcileResult::Ok);
            run.finish()
        };
        let reference = ReferenceRuns::new(&run(false), &run(false));
        assert_eq!(judge(&DeleteAfterFailedRead, &run(true), Some(&reference)).violations, []);
    }

    #[test]
    fn a_delete_that_the_reference_has_too_is_right() {
        let reference = run(200, false, true);
        let reference = ReferenceRuns::new(&reference, &reference);
        assert_eq!(judge(&DeleteAfterFailedRead, &run(500, false, true), Some(&reference)).violations, []);
    }
}
