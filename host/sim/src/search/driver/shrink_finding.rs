//! Shrinks the plan of a finding: runs smaller plans, and keeps the smallest one that shows the same error.

use std::collections::BTreeMap;

use super::{Driver, RunSummary, reference_plans};
use crate::analysis::{ObjectId, RunView};
use crate::oracle::{ReferenceRuns, Violation};
use crate::plan::{ActorStep, Deviation, Plan};
use crate::run::{Author, EventKind};
use crate::shrink::{Evidence, MAX_ATTEMPTS, MAX_STEP_ATTEMPTS, leave_out, moved, shrink};
use crate::{Run, Simulator, WorldError};

impl<S: Simulator + Send> Driver<'_, S> {
    /// Returns the smallest plan found with the same error.
    pub(super) fn with_fewer_deviations(
        &mut self,
        plan: &Plan,
        run: Run,
        violation: Violation,
    ) -> Result<(Plan, Run, Violation), WorldError> {
        let mut failed: Result<(), WorldError> = Ok(());
        let mut attempts = 0;
        let with = |seed, deviations| Plan { seed, deviations, ..plan.clone() };
        let seeds =
            if plan.seed == self.options.seed { vec![plan.seed] } else { vec![self.options.seed, plan.seed] };
        for seed in seeds {
            let mut try_plan = |deviations: &[Deviation]| {
                attempts += 1;
                match self.violation_of(&with(seed, deviations.to_vec()), plan, &violation, None) {
                    Ok(result) => result.is_some(),
                    Err(error) => {
                        failed = Err(error);
                        false
                    }
                }
            };
            // The master seed only helps if the error happens with it, too.
            if seed != plan.seed && !try_plan(&plan.deviations) {
                continue;
            }
            let deviations = shrink(plan.deviations.clone(), MAX_ATTEMPTS, &mut try_plan);
            failed?;
            self.report.shrinking_runs += attempts;
            let smaller = with(seed, deviations);
            return Ok(match self.violation_of(&smaller, plan, &violation, None)? {
                Some((run, violation)) => (smaller, run, violation),
                None => (plan.clone(), run, violation),
            });
        }
        failed?;
        Ok((plan.clone(), run, violation))
    }

    /// Leaves out the steps of actors that the error does not need.
    pub(super) fn without_steps(
        &mut self,
        (plan, run, violation): (Plan, Run, Violation),
    ) -> Result<(Plan, Run, Violation), WorldError> {
        let objects = steps_of_actors(&run, &violation);
        // A fault shows that the plugin's work matters: without the fault, there is no error.
        let evidence = plan.deviations.is_empty().then(|| {
            Evidence::of(&RunView::new(&run, self.reference_of(&plan.left_out).random()), &violation)
        });
        let single = evidence.as_ref().is_none_or(Evidence::allows_single_steps);
        let mut smallest = (plan.clone(), run, violation.clone());
        let mut failed: Result<(), WorldError> = Ok(());
        let mut attempts = 0;
        leave_out(objects, single, MAX_STEP_ATTEMPTS, |left_out| {
            let mut candidate = plan.clone();
            candidate.left_out.extend_from_slice(left_out);
            candidate.left_out.sort();
            attempts += 1;
            match self.violation_of(&candidate, &plan, &violation, evidence.as_ref()) {
                Ok(Some((run, violation))) if failed.is_ok() => {
                    smallest = (run.plan.clone(), run, violation);
                    true
                }
                Ok(_) => false,
                Err(error) => {
                    failed = Err(error);
                    false
                }
            }
        });
        failed?;
        // Each has a reference of its own.
        self.report.shrinking_runs += 3 * attempts;
        Ok(smallest)
    }

    /// Runs a plan that was made of `original`. Returns the run and its violation if it shows the same error.
    ///
    /// A plan that leaves further steps out is compared with a default schedule that leaves them out, too: the plugin has another task. Its deviations are
    /// first tried at the same points of the fewer steps, and then as they are. Such a run must keep the evidence, if there is any.
    ///
    /// After an interruption, nothing is run: the finding is reported as far as it is shrunk.
    fn violation_of(
        &self,
        plan: &Plan,
        original: &Plan,
        violation: &Violation,
        evidence: Option<&Evidence>,
    ) -> Result<Option<(Run, Violation)>, WorldError> {
        if self.progress.is_interrupted() {
            return Ok(None);
        }
        let same_error = |summary: RunSummary| {
            let mut violations =
                summary.judgements.into_iter().flat_map(|(_, judgement)| judgement.violations);
            violations.find(|found| found.is_same_error(violation))
        };
        if plan.left_out == original.left_out {
            let run = self.executor.run(plan)?;
            return Ok(same_error(self.summarize(&run)).map(|found| (run, found)));
        }
        let [first, second] = reference_plans(self.options.seed, plan).map(|plan| self.executor.run(&plan));
        let (first, second) = (first?, second?);
        let reference = ReferenceRuns::new(&first, &second);
        let judged =
            |run: &Run| same_error(RunSummary::of(run, self.oracles, Some(&reference), reference.random()));
        // Without the steps, an invariant may be broken whatever the plugin does: that is another error.
        if !plan.deviations.is_empty() && judged(&first).is_some() {
            return Ok(None);
        }
        let moved = moved(&plan.deviations, self.reference_of(&original.left_out).run(), &first);
        let is_moved = moved != plan.deviations;
        let unmoved = is_moved.then(|| plan.deviations.clone());
        for deviations in std::iter::once(moved).chain(unmoved) {
            let run = self.executor.run(&Plan { deviations, ..plan.clone() })?;
            let is_kept = |found: &Violation| {
                let view = RunView::new(&run, reference.random());
                evidence.is_none_or(|evidence| evidence.is_kept(&view, found))
            };
            if let Some(found) = judged(&run).filter(is_kept) {
                return Ok(Some((run, found)));
            }
        }
        Ok(None)
    }
}

/// Returns the steps of actors up to the violation, those of each object together. Later ones are no part of the story.
fn steps_of_actors(run: &Run, violation: &Violation) -> Vec<Vec<ActorStep>> {
    let end = violation.event.map_or(run.events.len(), |index| index + 1);
    let mut objects: BTreeMap<ObjectId, Vec<ActorStep>> = BTreeMap::new();
    for event in run.events.iter().take(end) {
        let EventKind::Request(request) = &event.kind else { continue };
        let (Author::Actor(actor), Some(step)) = (&request.author, request.step) else { continue };
        let step = ActorStep { actor: actor.clone(), step };
        // A step that was refused is taken again.
        let steps = objects.entry(request.object_id()).or_default();
        if run.steps.contains(&step) && !steps.contains(&step) {
            steps.push(step);
        }
    }
    objects.into_values().filter(|steps| !steps.is_empty()).collect()
}
