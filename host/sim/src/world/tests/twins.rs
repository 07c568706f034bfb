//! Searches in the real world with small guests: each wrong one is reported, and its right twin is not.

use std::time::Duration;

use super::stage::{Stage, change_map, create_map_with, secret};
use crate::actor::ActorWrite;
use crate::finding::{Finding, Report};
use crate::oracle::Oracles;
use crate::plan::{Fault, Plan};
use crate::search::{
    Budget, Executor, FaultSelection, SearchOptions, SearchProgress, Strategy, driver::reference_plans,
    search,
};
use crate::{Run, Simulator};

struct Quiet;

impl SearchProgress for Quiet {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn is_interrupted(&self) -> bool {
        false
    }

    fn batch_ended(&mut self, _: Strategy, _: u64) {}

    fn found(&mut self, _: &Finding, _: &Run) {}
}

/// Searches in a world in which a user creates a ConfigMap with this data, and takes further steps.
fn searched(data: &[(&str, &str)], further: Vec<ActorWrite>) -> Report {
    searched_by(vec![Strategy::Reference, Strategy::Plans], data, further)
}

fn searched_by(strategies: Vec<Strategy>, data: &[(&str, &str)], further: Vec<ActorWrite>) -> Report {
    let mut steps = vec![create_map_with("a", data)];
    steps.extend(further);
    let options = SearchOptions {
        seed: 0,
        strategies,
        faults: FaultSelection::default(),
        budget: Budget::Runs(60),
        shrinks: true,
        max_findings: 4,
        shorter_tasks: Vec::new(),
        histories: 0,
    };
    let executor = Executor::new(vec![Stage::new(steps).world]);
    search(&options, &Oracles::built_in(), &executor, &mut Quiet).expect("a world").report
}

fn oracles(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.violation.oracle.as_str()).collect()
}

#[test]
fn a_guest_whose_creates_are_not_repeatable_is_reported_and_its_twin_is_not() {
    let report =
        searched_by(vec![Strategy::Reference], &[("first", &secret("generateName", "any-"))], vec![]);
    assert!(oracles(&report).contains(&"idempotence"), "{:?}", oracles(&report));
    let finding = &report.findings[0];
    assert_eq!(finding.strategy, Strategy::Reference, "it is found at rest, before any fault");
    assert!(finding.plan.deviations.iter().all(|deviation| deviation.fault == Fault::RequeueAll));
    let right = searched(&[("first", &secret("name", "only"))], vec![]);
    assert_eq!(right.findings, []);
    assert!(right.coverage.oracles["idempotence"].judged >= 2, "again at rest, and without reasons");
    assert!(right.draws > 0);
}

#[test]
fn a_guest_that_relies_on_its_reasons_is_reported_and_its_twin_is_not() {
    let first = secret("name", "only");
    let report = searched(&[("first", &first), ("wish", "informed")], vec![]);
    let finding = &report.findings[0];
    assert_eq!(finding.violation.oracle, "idempotence");
    assert!(finding.violation.explanation.contains("without them it does not"), "{finding:?}");
    assert!(finding.lines(None).join("\n").contains("rule H4"), "{:?}", finding.lines(None));
    assert_eq!(searched(&[("first", &first)], vec![]).findings, []);
}

#[test]
fn a_guest_that_acts_after_a_long_timer_is_not_reported_if_the_steps_come_earlier() {
    let data = [("wish", "due"), ("first", &secret("name", "only"))];
    let report = searched(&data, vec![create_map_with("b", &[])]);
    // The guest wrongly relies on its reasons.
    let is_by_reason = |fault: &Fault| matches!(fault, Fault::Reload | Fault::WithholdReasons);
    let is_other =
        |finding: &&Finding| !finding.plan.deviations.iter().any(|deviation| is_by_reason(&deviation.fault));
    assert_eq!(report.findings.iter().find(is_other), None);
    assert!(report.coverage.oracles["same end"].judged > 20, "{:?}", report.coverage.oracles["same end"]);
}

#[test]
fn a_guest_that_never_rests_is_reported_once_and_the_search_goes_on() {
    let data = [("wish", "often"), ("first", &secret("generateName", "beat-"))];
    let report = searched_by(vec![Strategy::Reference], &data, vec![create_map_with("b", &[])]);
    let of_convergence = oracles(&report).into_iter().filter(|oracle| *oracle == "convergence").count();
    assert_eq!(of_convergence, 1, "{:?}", oracles(&report));
    let finding = &report.findings[0];
    assert_eq!((finding.strategy, finding.violation.oracle.as_str()), (Strategy::Reference, "convergence"));
    assert_eq!(report.unfinished_actors, [] as [&str; 0], "all steps are taken");
    assert!(report.runs > 2, "it goes on: {} runs", report.runs);
}

#[test]
fn a_guest_that_repeats_an_invalid_write_by_a_timer_is_reported() {
    let data = [("wish", "often"), ("first", &secret("name", "not valid!"))];
    let report = searched_by(vec![Strategy::Reference], &data, vec![create_map_with("b", &[])]);
    assert!(oracles(&report).contains(&"hopeless write"), "{:?}", oracles(&report));
}

/// Changes that the error does not need.
fn noise() -> Vec<ActorWrite> {
    ["1", "2", "3"].map(|value| change_map("a", "noise", value)).to_vec()
}

#[test]
fn a_guest_that_believes_what_it_began_is_reported_and_its_twin_is_not() {
    let (first, second) = (secret("name", "first"), secret("name", "second"));
    let data = [("first", first.as_str()), ("second", second.as_str()), ("wish", "believe")];
    let report = searched(&data, noise());
    let finding = report.findings.iter().find(|finding| finding.violation.oracle == "same end");
    let finding = finding.unwrap_or_else(|| panic!("{:?}", oracles(&report)));
    assert_eq!(finding.plan.deviations.len(), 1, "{:?}", finding.plan);
    // Only the create is needed.
    assert_eq!(finding.plan.left_out.iter().map(|step| step.step).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(finding.steps.iter().all(|step| !step.text.contains("patch")), "{:?}", finding.steps);
    assert!(
        finding.lines(None)[0].ends_with("1 fault, without 3 steps of actors"),
        "{:?}",
        finding.lines(None)
    );
    replays(&data, finding);
    assert_eq!(searched(&data[..2], noise()).findings, []);
}

/// The plan of a finding shows the same error again, compared with the default schedule of the same steps.
fn replays(data: &[(&str, &str)], finding: &Finding) {
    let text = serde_json::to_string(&finding.plan).expect("JSON");
    let plan: Plan = serde_json::from_str(&text).expect("a plan");
    assert_eq!(plan, finding.plan);
    let mut steps = vec![create_map_with("a", data)];
    steps.extend(noise());
    let mut world = Stage::new(steps).world;
    let run = world.run(&plan).expect("a run");
    assert_eq!(run.hash, finding.hash);
    let [first, second] = reference_plans(0, &plan).map(|plan| world.run(&plan).expect("a run"));
    let reference = crate::oracle::ReferenceRuns::new(&first, &second);
    let view = crate::analysis::RunView::new(&run, reference.random());
    let oracles = Oracles::built_in();
    let judgements = oracles.judge(&view, Some(&reference)).into_iter();
    let mut found = judgements.flat_map(|(_, judgement)| judgement.violations);
    assert!(found.any(|violation| violation.is_same_error(&finding.violation)));
}
