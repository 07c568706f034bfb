//! Collects the results of runs in the report: counts them, and reports each error once.

use std::collections::BTreeSet;

use pilothouse_controller::stable_hash::{self, fnv1a};

use super::super::Strategy;
use super::{COST_OF_BUSY_RUN, Driver, RunSummary};
use crate::analysis::{RandomPrefixes, RunView};
use crate::finding::{Coverage, Finding, Report, Stop, failing_keys, story};
use crate::oracle::{Oracles, Violation};
use crate::plan::Plan;
use crate::{Run, Simulator, WorldError};

/// Returns the report before the first run is counted. `plain` is the run without faults.
pub(super) fn empty_report(seed: u64, oracles: &Oracles, plain: &Run) -> Report {
    let mut coverage = Coverage::default();
    for name in oracles.names() {
        coverage.oracles.entry(name.to_owned()).or_default().disabled = oracles.disabled().get(name).cloned();
    }
    Report {
        seed,
        findings: Vec::new(),
        runs: 0,
        distinct_runs: 0,
        shrinking_runs: 0,
        strategies: Vec::new(),
        stopped: Stop::Exhausted,
        unfinished_actors: plain.unfinished.clone(),
        failing_keys: failing_keys(&RunView::new(plain, &RandomPrefixes::default())),
        not_compared: BTreeSet::new(),
        coverage,
        hash: stable_hash::EMPTY,
        draws: 0,
    }
}

impl<S: Simulator + Send> Driver<'_, S> {
    /// Counts a run and reports its errors that are new.
    pub(super) fn accept(&mut self, strategy: Strategy, summary: RunSummary) -> Result<(), WorldError> {
        self.report.runs += 1;
        self.has_busy_runs |= summary.is_busy;
        self.used_runs += if summary.is_busy { COST_OF_BUSY_RUN } else { 1 };
        self.progress.ran(&summary.plan, summary.hash);
        match self.report.strategies.iter_mut().find(|(known, _)| *known == strategy) {
            Some((_, runs)) => *runs += 1,
            None => self.report.strategies.push((strategy, 1)),
        }
        self.report.hash = fnv1a(self.report.hash, &summary.hash.to_le_bytes());
        self.report.draws += summary.draws;
        self.report.coverage.merge(summary.coverage);
        if !self.seen.insert(summary.hash) {
            return Ok(());
        }
        self.report.distinct_runs += 1;
        let mut violations: Vec<_> =
            summary.judgements.into_iter().flat_map(|(_, judgement)| judgement.violations).collect();
        // What happened first is reported first: what comes after it may be its consequence.
        violations.sort_by_key(|violation| violation.event.unwrap_or(usize::MAX));
        for violation in violations {
            if self.report.findings.len() >= self.options.max_findings {
                break;
            }
            if self.reported.insert(identity(&violation)) {
                self.report_finding(strategy, &summary.plan, violation)?;
            }
        }
        Ok(())
    }

    fn report_finding(
        &mut self,
        strategy: Strategy,
        plan: &Plan,
        violation: Violation,
    ) -> Result<(), WorldError> {
        let original = self.executor.run(plan)?;
        let is_reference = plan.deviations.is_empty() && strategy == Strategy::Reference;
        let steps_before = self.story_of(&original, &violation, is_reference).len();
        let mut smallest = (plan.clone(), original, violation);
        // The ways of a history have no step too many.
        let shrinks = self.options.shrinks && plan.history.is_none();
        if shrinks {
            if !plan.deviations.is_empty() {
                let (plan, run, violation) = smallest;
                smallest = self.with_fewer_deviations(&plan, run, violation)?;
            }
            smallest = self.without_steps(smallest)?;
            self.reported.insert(identity(&smallest.2));
        }
        let (plan, run, violation) = smallest;
        let finding = Finding {
            number: self.report.findings.len() + 1,
            strategy,
            runs: self.report.runs,
            steps_before: shrinks.then_some(steps_before),
            steps: self.story_of(&run, &violation, is_reference),
            rules: plan.deviations.iter().map(|deviation| deviation.fault.rule()).collect(),
            plan,
            violation,
            hash: run.hash,
            draws: run.draws,
        };
        self.progress.found(&finding, &run);
        self.report.findings.push(finding);
        Ok(())
    }

    fn story_of(&self, run: &Run, violation: &Violation, is_reference: bool) -> Vec<story::Step> {
        let none = RandomPrefixes::default();
        let random = if is_reference { &none } else { self.reference_of(&run.plan.left_out).random() };
        story::steps_of(&RunView::new(run, random), violation)
    }
}

/// What is reported once.
pub(super) type Identity = (String, String, String, bool);

fn identity(violation: &Violation) -> Identity {
    (violation.oracle.clone(), violation.resource.clone(), violation.object.clone(), violation.is_unevaluated)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::options::Silent;
    use super::*;
    use crate::finding::NotCompared;
    use crate::run::ReconcileResult;
    use crate::search::{Budget, Executor, FaultSelection, SearchOptions, search};
    use crate::testing::{RunBuilder, id};

    /// A plugin that writes a random value and then traps.
    struct Trapping;

    impl Simulator for Trapping {
        fn run(&mut self, plan: &Plan) -> Result<Run, WorldError> {
            let mut run = RunBuilder::new();
            run.rest();
            run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
            run.start("a/foo");
            run.write("create", "configmaps", "a/foo", Some(json!({"data": {"token": plan.seed}})));
            run.end(ReconcileResult::Fault("out of memory".to_owned()));
            run.rest();
            run.faults_over();
            Ok(Run { plan: plan.clone(), ..run.finish() })
        }
    }

    fn report(shrinks: bool, oracles: &Oracles) -> Report {
        let options = SearchOptions {
            seed: 7,
            strategies: vec![Strategy::Reference],
            faults: FaultSelection::default(),
            budget: Budget::Runs(10),
            shrinks,
            max_findings: 10,
            shorter_tasks: Vec::new(),
            histories: 0,
        };
        search(&options, oracles, &Executor::new(vec![Trapping]), &mut Silent).expect("a world").report
    }

    #[test]
    fn a_finding_that_was_not_shrunk_does_not_claim_it() {
        for (shrinks, expected) in [(true, ", shrunk 3 → 3 steps, 0 faults"), (false, ", 3 steps, 0 faults")]
        {
            let report = report(shrinks, &Oracles::built_in());
            let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
            let line = &finding.lines(None)[0];
            assert!(line.ends_with(expected), "{line}");
            assert_eq!(serde_json::to_string(finding).expect("JSON").contains("stepsBefore"), shrinks);
        }
    }

    #[test]
    fn what_same_end_does_not_compare_is_named_unless_it_is_off() {
        let token = NotCompared::new(&id("configmaps", "a/foo"), "/data/token");
        assert_eq!(report(false, &Oracles::built_in()).not_compared, [token].into());
        let mut oracles = Oracles::built_in();
        oracles.disable("same end", "The token is random.").expect("known");
        assert_eq!(report(false, &oracles).not_compared, [].into());
    }
}
