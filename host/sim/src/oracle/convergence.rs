//! *convergence*: after the last step and the last fault, the plugin comes to rest and every key succeeds.

use std::collections::BTreeMap;

use super::hot_loop::HotLoop;
use super::{Description, Judgement, Oracle, Reference, Violation};
use crate::analysis::RunView;
use crate::run::{End, ReconcileResult};

pub(super) const DESCRIPTION: Description = Description {
    name: "convergence",
    reports: "after the last step and the last fault, the plugin still writes when the run's time is up, or a key fails for ever that succeeds \
              in the reference",
    premise: "Once the world is quiet, a controller finishes its work (eventually stable reconciliation). Timers that write nothing \
              are rest. Not judged: loops that *hot loop* reports.",
};

/// How many reconciles of a key must fail in a row after the faults.
const MIN_FAILURES: usize = 3;

/// The oracle.
#[derive(Debug)]
pub(super) struct Convergence;

impl Oracle for Convergence {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&Reference>) -> Judgement {
        if run.faults_over >= run.run.events.len() || matches!(run.run.end, End::PluginStopped(_)) {
            return Judgement::without_subject();
        }
        let mut violations: Vec<_> = self.still_writes(run).into_iter().collect();
        if let Some(reference) = reference {
            violations.extend(self.still_fails(run, reference));
        }
        Judgement::of(violations)
    }
}

impl Convergence {
    /// Returns a violation if the plugin wrote in the last third of the time after the faults.
    fn still_writes(&self, run: &RunView<'_>) -> Option<Violation> {
        if run.run.end != End::NotAtRest || !HotLoop.judge(run, None).violations.is_empty() {
            return None;
        }
        let (start, end) = (run.run.events[run.faults_over].time, run.run.events.last()?.time);
        let late = end - (end - start) / 3;
        let (index, request) = run
            .effective_writes()
            .filter(|(index, _)| *index > run.faults_over && run.run.events[*index].time >= late)
            .last()?;
        let id = run.names.canonical_id(&request.object_id());
        let explanation = format!(
            "{:.1} s after the last step and the last fault, the plugin still writes {id}",
            seconds(run.run.events[index].time - start)
        );
        Some(Violation::new(self, &id, Some(index), explanation))
    }

    /// Returns a violation for each key whose last three or more reconciles after the faults returned errors. Traps are another oracle's.
    fn still_fails(&self, run: &RunView<'_>, reference: &Reference) -> Vec<Violation> {
        if !reference.has_task_of(run) {
            return Vec::new();
        }
        let mut failures: BTreeMap<(&str, &str, &str), (usize, usize, &str)> = BTreeMap::new();
        for reconcile in run.reconciles.values().filter(|reconcile| reconcile.start > run.faults_over) {
            let key = (reconcile.plugin, reconcile.watch, reconcile.key);
            match reconcile.end {
                Some((index, ReconcileResult::Error(error))) => {
                    let entry = failures.entry(key).or_insert((0, index, error));
                    *entry = (entry.0 + 1, index, error);
                }
                Some((_, ReconcileResult::Ok | ReconcileResult::Requeue(_))) => {
                    failures.remove(&key);
                }
                _ => {}
            }
        }
        failures
            .into_iter()
            .filter(|((plugin, watch, key), (count, ..))| {
                *count >= MIN_FAILURES && reference.succeeds(plugin, watch, key)
            })
            .map(|((.., key), (count, index, error))| {
                let explanation = format!(
                    "{count} reconciles of {key} in a row failed after the last step and the last fault, the last with: {error}; \
                     without the faults the key succeeds"
                );
                Violation::of_key(self, key, Some(index), explanation)
            })
            .collect()
    }
}

fn seconds(milliseconds: u64) -> f64 {
    std::time::Duration::from_millis(milliseconds).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{RunBuilder, judge};

    fn writes_until(end: End) -> crate::Run {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "foos.example.com", "a", Some(json!({})));
        run.faults_over();
        for round in 0..6 {
            run.at(round * 60_000);
            run.start_for("a", "requeue");
            run.write("update", "foos.example.com", "a", Some(json!({"status": round})));
            run.end(ReconcileResult::Requeue(60_000));
        }
        run.finish_with(end)
    }

    fn fails(times: u32) -> crate::Run {
        let mut run = RunBuilder::new();
        run.start("a");
        run.end(ReconcileResult::Ok);
        run.faults_over();
        for _ in 0..times {
            run.start_for("a", "retry");
            run.end(ReconcileResult::Error("two requests".to_owned()));
        }
        run.finish()
    }

    #[test]
    fn a_plugin_that_never_stops_writing_is_reported() {
        assert_eq!(judge(&Convergence, &writes_until(End::NotAtRest), None).violations.len(), 1);
        assert_eq!(judge(&Convergence, &writes_until(End::AtRest), None).violations, []);
    }

    #[test]
    fn a_key_that_fails_for_ever_is_reported_if_the_reference_succeeds() {
        let (good, bad) = (fails(0), fails(3));
        let reference = Reference::new(&good, &good);
        let judgement = judge(&Convergence, &bad, Some(&reference));
        assert!(judgement.violations[0].explanation.contains("two requests"));
        assert_eq!(judge(&Convergence, &fails(2), Some(&reference)).violations, []);
        let reference = Reference::new(&bad, &bad);
        assert_eq!(judge(&Convergence, &bad, Some(&reference)).violations, []);
    }

    #[test]
    fn a_run_whose_faults_never_end_is_not_judged() {
        let mut run = RunBuilder::new();
        run.start("a");
        assert!(!judge(&Convergence, &run.finish_with(End::NotAtRest), None).had_subject);
    }
}
