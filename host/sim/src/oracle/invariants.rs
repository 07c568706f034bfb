//! The invariants of a scenario as oracles.

use std::sync::Arc;

use super::{Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::RunView;
use crate::scenario::Scenario;
use crate::scenario::invariant::{InvariantResult, judge};

/// One invariant of a scenario.
#[derive(Debug)]
struct InvariantOracle {
    scenario: Arc<Scenario>,
    index: usize,
}

/// Returns an oracle for each invariant of the scenario.
#[must_use]
pub fn invariants_of(scenario: &Arc<Scenario>) -> Vec<Box<dyn Oracle>> {
    (0..scenario.invariants.len())
        .map(|index| -> Box<dyn Oracle> {
            Box::new(InvariantOracle { scenario: Arc::clone(scenario), index })
        })
        .collect()
}

impl Oracle for InvariantOracle {
    fn name(&self) -> &str {
        &self.scenario.invariants[self.index].name
    }

    fn judge(&self, run: &RunView<'_>, _: Option<&ReferenceRuns>) -> Judgement {
        let invariant = std::slice::from_ref(&self.scenario.invariants[self.index]);
        let Some(judged) = judge(invariant, run.run).into_iter().next() else {
            return Judgement::without_subject();
        };
        let judgement = match judged.verdict {
            InvariantResult::Holds => {
                Judgement { had_subject: judged.evaluations > 0, ..Judgement::default() }
            }
            InvariantResult::NotJudged(_) => Judgement::without_subject(),
            InvariantResult::Violated { event, explanation, is_unevaluated } => {
                let violation = Violation::of_key(self, "", Some(event), explanation);
                Judgement::of(vec![Violation { is_unevaluated, ..violation }])
            }
        };
        Judgement { problem: judged.problem, ..judgement }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::scenario::Kinds;
    use crate::testing::RunBuilder;

    fn oracles(invariant: &str) -> Vec<Box<dyn Oracle>> {
        let text = format!(
            "{{apiVersion: pilothouse.dev/v1alpha1, kind: Simulation, plugins: [x.wasm], invariants: [{invariant}]}}"
        );
        let scenario =
            Scenario::parse(Path::new("s.yaml"), &text, &Kinds::built_in(), &|_| Err("no file".to_owned()));
        invariants_of(&Arc::new(scenario.expect("a scenario")))
    }

    #[test]
    fn an_evaluation_that_fails_is_reported_and_no_violation() {
        let oracles =
            oracles("{name: labelled, always: \"objects('ConfigMap')[0].metadata.labels.a == 'b'\"}");
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "a"}});
        let mut run = RunBuilder::new();
        run.write("create", "configmaps", "a/x", Some(map));
        let judged = crate::testing::judge(&*oracles[0], &run.finish(), None);
        assert_eq!((judged.had_subject, judged.violations.len()), (false, 0));
        assert!(judged.problem.is_some_and(|problem| problem.contains("labels")));
    }

    #[test]
    fn a_condition_that_is_false_is_another_error_than_one_that_cannot_be_evaluated() {
        let oracles = oracles("{name: ready, atRest: \"objects('ConfigMap')[0].metadata.name == 'y'\"}");
        let judged = |name: &str| {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}});
            let mut run = RunBuilder::new();
            if !name.is_empty() {
                run.write("create", "configmaps", &format!("a/{name}"), Some(map));
            }
            run.rest();
            let mut judged = crate::testing::judge(&*oracles[0], &run.finish(), None);
            judged.violations.pop()
        };
        let (is_false, without) = (judged("x").expect("false"), judged("").expect("nothing to read"));
        assert_eq!((is_false.is_unevaluated, without.is_unevaluated), (false, true));
        assert!(!without.is_same_error(&is_false) && is_false.is_same_error(&is_false));
        assert_eq!(judged("y"), None);
    }

    #[test]
    fn an_invariant_of_a_scenario_judges_runs() {
        let oracles = oracles("{name: at most one, always: \"objects('ConfigMap').size() <= 1\"}");
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}});
        let mut run = RunBuilder::new();
        run.write("create", "configmaps", "a/x", Some(map("x")));
        let one = run.finish();
        assert_eq!(crate::testing::judge(&*oracles[0], &one, None), Judgement::of(Vec::new()));
        let mut run = RunBuilder::new();
        run.write("create", "configmaps", "a/x", Some(map("x")));
        run.write("create", "configmaps", "a/y", Some(map("y")));
        let two = crate::testing::judge(&*oracles[0], &run.finish(), None);
        assert_eq!((two.violations[0].oracle.as_str(), two.violations[0].event), ("at most one", Some(2)));
    }
}
