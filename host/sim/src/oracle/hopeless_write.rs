//! *hopeless write*: a write that can only fail is sent again and again without backoff.

use std::collections::BTreeMap;

use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::{ObjectId, RunView, is_refused_as_invalid};
use crate::run::{Author, ReconcileResult, RequestEvent};

pub(super) const DESCRIPTION: Description = Description {
    name: "hopeless write",
    reports: "the same write is refused as invalid 10 times, and the plugin repeats it within a reconcile or by asking for the key again, instead of returning \
              an error",
    premise: "A request that the server calls invalid (400, 405, 413, 415, 422) does not become valid by repeating it. Returning an error is right, \
              because the host then backs off. The count starts again when an actor writes.",
};

/// The number of equal failures.
const MIN_FAILURES: usize = 10;

/// The oracle.
#[derive(Debug)]
pub(super) struct HopelessWrite;

impl Oracle for HopelessWrite {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, _: Option<&ReferenceRuns>) -> Judgement {
        let mut failures: BTreeMap<(String, ObjectId, String), usize> = BTreeMap::new();
        let mut judgement = Judgement::without_subject();
        for (index, _, request) in run.requests() {
            if matches!(request.author, Author::Actor(_)) && request.changed {
                failures.clear();
            }
            if !is_hopeless(request) || backs_off(run, request) {
                continue;
            }
            judgement.had_subject = true;
            let body =
                request.body.as_ref().map(|body| run.names.replace(&body.to_string())).unwrap_or_default();
            let id = run.names.canonical_id(&request.object_id());
            let count = failures.entry((request.verb.clone(), id.clone(), body)).or_default();
            *count += 1;
            if *count == MIN_FAILURES {
                let explanation = format!(
                    "the plugin sent the same {} of {id} {count} times, each refused with {}; it does not return the error, so nothing slows it down",
                    request.verb,
                    request.status.unwrap_or_default()
                );
                judgement.violations.push(Violation::new(self, &id, Some(index), explanation));
            }
        }
        judgement
    }
}

fn is_hopeless(request: &RequestEvent) -> bool {
    request.is_by_plugin()
        && request.is_write()
        && request.answered
        && request.status.is_some_and(is_refused_as_invalid)
}

/// Whether the reconcile ended with an error, so that the host waits longer each time.
fn backs_off(run: &RunView<'_>, request: &RequestEvent) -> bool {
    let reconcile = request.reconcile.and_then(|number| run.reconciles.get(&number));
    let Some(reconcile) = reconcile else { return true };
    let is_repeated_within = reconcile.requests.iter().filter(|other| {
        run.request(**other).is_some_and(|other| is_hopeless(other) && other.body == request.body)
    });
    !matches!(reconcile.end, Some((_, ReconcileResult::Ok | ReconcileResult::Requeue(_))))
        && is_repeated_within.count() < 2
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{RunBuilder, judge};

    fn run(times: u32, result: &ReconcileResult) -> crate::Run {
        let mut run = RunBuilder::new();
        for _ in 0..times {
            run.start("a/x");
            let request = run.ask("create", "configmaps", "a/x", 422);
            request.body = Some(json!({"bad": true}));
            run.end(result.clone());
        }
        run.finish()
    }

    #[test]
    fn an_invalid_write_without_backoff_is_reported() {
        let bad = judge(&HopelessWrite, &run(10, &ReconcileResult::Requeue(1)), None);
        assert_eq!(bad.violations.len(), 1);
        assert_eq!(judge(&HopelessWrite, &run(9, &ReconcileResult::Requeue(1)), None).violations, []);
    }

    #[test]
    fn returning_the_error_is_right() {
        let error = ReconcileResult::Error("invalid".to_owned());
        assert!(!judge(&HopelessWrite, &run(30, &error), None).had_subject);
    }
}
