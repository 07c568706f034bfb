//! Compares the ends of the two ways of each history.

use super::{Driver, RunSummary, reference_plans};
use crate::analysis::RandomPrefixes;
use crate::oracle::ReferenceRuns;
use crate::plan::Plan;
use crate::search::Strategy;
use crate::{Run, Simulator, WorldError};

/// The number of runs that must be left in the budget.
const MIN_RUNS: u64 = 100;

impl<S: Simulator + Send> Driver<'_, S> {
    /// Runs both ways of each history, unless the budget has no room for them. The shorter way is run with another seed only if the ends differ.
    pub(super) fn run_histories(&mut self) -> Result<(), WorldError> {
        for index in 0..self.options.histories {
            let left = self.options.budget.remaining_runs(self.used_runs);
            if left < MIN_RUNS || self.has_ended() {
                break;
            }
            let plan = Plan::of_history(self.options.seed, index, false);
            let [first, second] = reference_plans(self.options.seed, &plan);
            let runs = self.executor.run_all(&[first, plan], &|run| run)?;
            let [shorter, run] = <[Run; 2]>::try_from(runs).expect("as many runs as plans");
            let mut summary = self.summarize_history(&run, [&shorter, &shorter]);
            self.accept(
                Strategy::Reference,
                RunSummary::of(&shorter, self.oracles, None, &RandomPrefixes::default()),
            )?;
            if summary.judgements.iter().any(|(_, judgement)| !judgement.violations.is_empty()) {
                let other = self.executor.run(&second)?;
                summary = self.summarize_history(&run, [&shorter, &other]);
                self.accept(
                    Strategy::Reference,
                    RunSummary::of(&other, self.oracles, None, &RandomPrefixes::default()),
                )?;
            }
            self.accept(Strategy::Reference, summary)?;
        }
        Ok(())
    }

    fn summarize_history(&self, run: &Run, shorter: [&Run; 2]) -> RunSummary {
        let reference = ReferenceRuns::new(shorter[0], shorter[1]).with_cleanups_of(&self.tasks[0].reference);
        RunSummary::of(run, self.oracles, Some(&reference), reference.random())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::options::Silent;
    use super::*;
    use crate::finding::Report;
    use crate::oracle::Oracles;
    use crate::plan::HistoryPlan;
    use crate::run::ReconcileResult;
    use crate::search::{Budget, Executor, FaultSelection, SearchOptions, search};
    use crate::testing::RunBuilder;

    /// A plugin that names a Service after the pool of a Farm. The wrong one keeps the former Service.
    struct Script {
        is_wrong: bool,
    }

    impl Simulator for Script {
        fn run(&mut self, plan: &Plan) -> Result<Run, WorldError> {
            let mut run = RunBuilder::new();
            run.seed(plan.seed % 1000);
            run.rest();
            let is_longer = plan.history == Some(HistoryPlan { index: 0, is_shorter: false });
            let mut former = None;
            for pool in if is_longer { &["plum", "quince"][..] } else { &["quince"] } {
                let verb = if former.is_none() { "create" } else { "patch" };
                run.actor("user", verb, "farms", "a/x", Some(json!({"spec": {"pool": pool}})));
                run.start("a/x");
                let owner = json!({"metadata": {"ownerReferences": [{"uid": run.uid("farms", "a/x")}]}});
                let name = format!("a/{pool}");
                run.write("create", "services", &name, Some(owner));
                if let Some(former) = former.replace(name).filter(|_| !self.is_wrong) {
                    run.write("delete", "services", &former, None);
                }
                run.end(ReconcileResult::Ok);
                run.rest();
            }
            run.faults_over();
            Ok(Run { plan: plan.clone(), ..run.finish() })
        }
    }

    fn report(is_wrong: bool, runs: u64) -> Report {
        let options = SearchOptions {
            seed: 7,
            strategies: vec![Strategy::Reference],
            faults: FaultSelection::default(),
            budget: Budget::Runs(runs),
            shrinks: true,
            max_findings: 10,
            shorter_tasks: Vec::new(),
            histories: 1,
        };
        let executor = Executor::new(vec![Script { is_wrong }]);
        search(&options, &Oracles::built_in(), &executor, &mut Silent).expect("a world").report
    }

    #[test]
    fn the_ends_of_both_ways_are_compared() {
        let wrong = report(true, 500);
        let [finding] = wrong.findings.as_slice() else { panic!("{:?}", wrong.findings) };
        assert_eq!(
            (finding.violation.oracle.as_str(), finding.violation.object.as_str()),
            ("history", "a/plum")
        );
        assert_eq!(finding.plan, Plan::of_history(7, 0, false), "a replay takes the longer way");
        let right = report(false, 500);
        assert_eq!(right.findings, []);
        assert_eq!(wrong.runs, right.runs + 1, "the shorter way once more, with another seed");
        assert_eq!(right.coverage.oracles["history"].judged, 1);
    }

    #[test]
    fn a_small_budget_has_no_room_for_histories() {
        assert_eq!(report(true, 100).findings, []);
    }
}
