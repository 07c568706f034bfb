//! *trap*: the guest trapped or ran out of its limits.

use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::RunView;
use crate::plan::Fault;
use crate::run::{End, ReconcileResult};

pub(super) const DESCRIPTION: Description = Description {
    name: "trap",
    reports: "the plugin traps, exceeds a limit or is stopped",
    premise: "A fault of Kubernetes is answered with an error, never with a trap. Not judged: reconciles in which the host ended, \
              the plugin was reloaded, or a request was delayed.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct Trap;

impl Oracle for Trap {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, _: Option<&ReferenceRuns>) -> Judgement {
        let excuses = |fault: &Fault| {
            matches!(
                fault,
                Fault::DelayRequest(_)
                    | Fault::CrashBefore
                    | Fault::CrashAfter
                    | Fault::Restart { .. }
                    | Fault::Reload
            )
        };
        let mut violations = Vec::new();
        for reconcile in run.reconciles.values() {
            if let Some((end, ReconcileResult::Fault(text))) = reconcile.end
                && !run.has_between(reconcile.start, end, excuses)
            {
                let explanation = format!("the reconcile of {} ended with: {text}", reconcile.key);
                violations.push(Violation::of_key(self, reconcile.key, Some(end), explanation));
            }
        }
        if let End::PluginStopped(why) = &run.run.end
            && violations.is_empty()
            && !run.deviations.iter().any(|(_, deviation)| excuses(&deviation.fault))
        {
            violations.push(Violation::of_key(
                self,
                "",
                None,
                format!("the plugin cannot run any more: {why}"),
            ));
        }
        violations.sort_by_key(|violation| violation.event);
        Judgement {
            had_subject: !run.reconciles.is_empty() || !violations.is_empty(),
            violations,
            problem: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Moment;
    use crate::testing::{RunBuilder, judge};

    fn run(fault: Option<Fault>) -> crate::Run {
        let mut run = RunBuilder::new();
        run.start("shop/a");
        if let Some(fault) = fault {
            run.deviate(Moment::Rest { occurrence: 1 }, fault);
        }
        run.end(ReconcileResult::Fault("unreachable".to_owned()));
        run.finish()
    }

    #[test]
    fn a_trap_is_reported() {
        let judgement = judge(&Trap, &run(None), None);
        assert_eq!(judgement.violations[0].object, "shop/a");
        assert!(judgement.violations[0].explanation.contains("unreachable"));
        assert_eq!(judge(&Trap, &run(Some(Fault::Refuse(500))), None).violations.len(), 1);
    }

    #[test]
    fn a_guest_that_was_stopped_by_a_reload_is_not() {
        let judgement = judge(&Trap, &run(Some(Fault::Reload)), None);
        assert!(judgement.had_subject && judgement.violations.is_empty());
    }

    #[test]
    fn a_plugin_that_cannot_run_is_reported() {
        let mut run = RunBuilder::new();
        run.start("shop/a");
        run.end(ReconcileResult::Ok);
        let run = run.finish_with(End::PluginStopped("quarantined".to_owned()));
        assert_eq!(judge(&Trap, &run, None).violations.len(), 1);
    }
}
