//! Searches with a scripted world: a controller that makes a ConfigMap for each Foo and then records it in the status.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use super::plans::plans;
use super::points::Points;
use super::random::RandomPlans;
use super::*;
use crate::analysis::RunView;
use crate::finding::{Finding, Report, Stop};
use crate::oracle::{Judgement, Oracle, Oracles, ReferenceRuns, Violation};
use crate::plan::{ActorStep, Deviation, Fault, Moment, Plan};
use crate::run::{End, Event, EventKind, ReconcileResult, Run};
use crate::testing::RunBuilder;
use crate::{Simulator, WorldError};

const FOOS: &str = "foos.example.com";

/// The world. The wrong controller believes that a Foo whose ConfigMap exists is done.
#[derive(Clone, Copy)]
struct Script {
    is_wrong: bool,
    /// Whether the user deletes the Foo in the end, as step 3.
    deletes: bool,
}

/// The last step of the user.
fn deletion() -> ActorStep {
    ActorStep { actor: "user".to_owned(), step: 3 }
}

impl Simulator for Script {
    fn run(&mut self, plan: &Plan) -> Result<Run, WorldError> {
        let mut run = RunBuilder::new();
        run.seed(plan.seed % 1000);
        run.rest();
        let deletes = self.deletes && plan.left_out.is_empty();
        if !plan.left_out.is_empty() && plan.left_out != [deletion()] {
            run.faults_over();
            return Ok(Run { plan: plan.clone(), ..run.finish() });
        }
        run.step("user", 1);
        run.actor("user", "create", FOOS, "a/foo", Some(json!({})));
        run.step("user", 2);
        run.actor("user", "patch", FOOS, "a/foo", Some(json!({"spec": {"size": 2}})));
        run.deliver(FOOS, "a/foo", "ADDED");
        let mut used = BTreeSet::new();
        let mut deviate = |run: &mut RunBuilder, at: &Moment| -> Vec<Fault> {
            let mut faults = Vec::new();
            for (index, deviation) in plan.deviations.iter().enumerate() {
                if deviation.at == *at && used.insert(index) {
                    run.push(EventKind::Deviated { index, deviation: deviation.clone() });
                    faults.push(deviation.fault.clone());
                }
            }
            faults
        };
        let create = request("create", "configmaps", 1);
        run.start("a/foo");
        let faults = deviate(&mut run, &create);
        run.write("create", "configmaps", "a/foo", Some(json!({})));
        let crashes = faults.contains(&Fault::CrashAfter);
        if crashes {
            run.restart(&[]);
            run.start_for("a/foo", "startup");
        }
        if !crashes || !self.is_wrong {
            deviate(&mut run, &request("update", FOOS, 1));
            run.write("update", FOOS, "a/foo", Some(json!({"status": {"ready": true}})));
        }
        run.end(ReconcileResult::Ok);
        run.rest();
        deviate(&mut run, &Moment::Rest { occurrence: 2 });
        if deletes {
            run.step("user", 3);
            run.actor("user", "delete", FOOS, "a/foo", None);
            run.controller("delete", "configmaps", "a/foo", None);
            run.rest();
        }
        run.faults_over();
        let mut run = run.finish();
        run.plan = plan.clone();
        run.skipped = (0..plan.deviations.len()).filter(|index| !used.contains(index)).collect();
        Ok(run)
    }
}

fn request(verb: &str, resource: &str, occurrence: u32) -> Moment {
    Moment::Request { verb: verb.to_owned(), resource: resource.to_owned(), occurrence }
}

/// A receiver of the progress, whose clock advances by a millisecond with each look.
#[derive(Default)]
struct Recorder {
    findings: Vec<Finding>,
    runs: u64,
    looks: std::cell::Cell<u64>,
    /// After how many runs the user interrupts the search.
    interrupted_after: Option<u64>,
}

impl SearchProgress for Recorder {
    fn elapsed(&self) -> Duration {
        self.looks.set(self.looks.get() + 1);
        Duration::from_millis(self.looks.get())
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted_after.is_some_and(|runs| self.runs >= runs)
    }

    fn ran(&mut self, _: &Plan, _: u64) {
        self.runs += 1;
    }

    fn batch_ended(&mut self, _: Strategy, _: u64) {}

    fn found(&mut self, finding: &Finding, run: &Run) {
        assert_eq!(finding.hash, run.hash);
        self.findings.push(finding.clone());
    }
}

fn options(strategies: &[Strategy], budget: Budget) -> SearchOptions {
    SearchOptions {
        seed: 7,
        strategies: strategies.to_vec(),
        faults: FaultSelection::default(),
        budget,
        shrinks: true,
        max_findings: 10,
        shorter_tasks: Vec::new(),
        histories: 0,
    }
}

fn run_search(is_wrong: bool, threads: usize, options: &SearchOptions) -> Report {
    let executor = Executor::new(vec![Script { is_wrong, deletes: false }; threads]);
    let mut progress = Recorder::default();
    let searched = search(options, &Oracles::built_in(), &executor, &mut progress).expect("a world");
    assert_eq!(progress.findings, searched.report.findings);
    assert_eq!(progress.runs, searched.report.runs);
    searched.report
}

#[test]
fn an_error_that_a_later_deletion_hides_is_found_in_a_shorter_task() {
    let searched = |shorter_tasks: Vec<Vec<ActorStep>>, runs: u64| {
        let executor = Executor::new(vec![Script { is_wrong: true, deletes: true }]);
        let options = SearchOptions { shorter_tasks, ..options(&Strategy::ALL, Budget::Runs(runs)) };
        search(&options, &Oracles::built_in(), &executor, &mut Recorder::default()).expect("a world").report
    };
    assert_eq!(searched(Vec::new(), 500).findings, []);
    let report = searched(vec![vec![deletion()]], 500);
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    assert_eq!(finding.violation.oracle, "same end");
    assert_eq!(finding.plan.left_out, [deletion()], "a replay leaves the step out, too");
    assert_eq!(report.strategies[0], (Strategy::Reference, 6), "two of each task, and two at rest");
    assert_eq!(searched(vec![vec![deletion()]], 100).findings, [], "the budget is too small");
}

#[test]
fn a_crash_between_two_writes_is_found_by_the_plans() {
    let report = run_search(true, 1, &options(&Strategy::ALL, Budget::Runs(500)));
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    assert_eq!((finding.violation.oracle.as_str(), finding.strategy), ("same end", Strategy::Plans));
    let crash = Deviation { at: request("create", "configmaps", 1), fault: Fault::CrashAfter };
    assert_eq!(finding.plan.deviations, [crash]);
    assert_eq!(report.coverage.writes["create configmaps"].crashed_after.len(), 1);
    let text = finding.lines(Some("pilothouse sim x.wasm --replay finding-1.trace")).join("\n");
    assert!(
        text.starts_with("FOUND same end on foos.example.com a/foo   seed 0x7, strategy plans"),
        "{text}"
    );
    assert!(text.ends_with("rule H1 (the process may end at any point). Replay: pilothouse sim x.wasm --replay finding-1.trace"), "{text}");
}

/// Counts the runs of a world.
struct Counted(Script, Arc<AtomicU64>);

impl Simulator for Counted {
    fn run(&mut self, plan: &Plan) -> Result<Run, WorldError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.run(plan)
    }
}

#[test]
fn an_interrupted_search_reports_what_it_has_found_and_shrinks_nothing() {
    let searched = |interrupted_after: Option<u64>| {
        let count = Arc::new(AtomicU64::new(0));
        let script = Script { is_wrong: true, deletes: false };
        let executor = Executor::new(vec![Counted(script, Arc::clone(&count))]);
        let mut progress = Recorder { interrupted_after, ..Recorder::default() };
        let options = options(&Strategy::ALL, Budget::Runs(500));
        let report =
            search(&options, &Oracles::built_in(), &executor, &mut progress).expect("a world").report;
        (report, count.load(Ordering::Relaxed))
    };
    let (report, runs) = searched(None);
    assert!(runs > report.runs + 1, "the finding is shrunk");
    let (report, runs) = searched(Some(report.findings[0].runs));
    assert_eq!((report.findings.len(), report.stopped), (1, Stop::Interrupted));
    assert_eq!(runs, report.runs + 1, "the story is told from one more run");
}

/// Reports an event of each run.
#[derive(Debug)]
struct Accusation {
    name: &'static str,
    event: Option<usize>,
}

impl Oracle for Accusation {
    fn name(&self) -> &str {
        self.name
    }

    fn judge(&self, _: &RunView<'_>, _: Option<&ReferenceRuns>) -> Judgement {
        let violation = Violation {
            oracle: self.name.to_owned(),
            resource: String::new(),
            object: String::new(),
            event: self.event,
            explanation: String::new(),
            is_unevaluated: false,
        };
        Judgement::of(vec![violation])
    }
}

#[test]
fn what_happened_first_in_a_run_is_reported_first() {
    let mut oracles = Oracles::built_in();
    for (name, event) in [("at the end", None), ("later", Some(3)), ("earlier", Some(1))] {
        oracles.add(Box::new(Accusation { name, event }));
    }
    let executor = Executor::new(vec![Script { is_wrong: false, deletes: false }]);
    let options = options(&[Strategy::Reference], Budget::Runs(2));
    let report = search(&options, &oracles, &executor, &mut Recorder::default()).expect("a search").report;
    let names: Vec<_> = report.findings.iter().map(|finding| finding.violation.oracle.as_str()).collect();
    assert_eq!(names, ["earlier", "later", "at the end"]);
}

/// An invariant: a Foo is ready at rest.
#[derive(Debug)]
struct Ready;

impl Oracle for Ready {
    fn name(&self) -> &str {
        "a Foo is ready"
    }

    fn judge(&self, run: &RunView<'_>, _: Option<&ReferenceRuns>) -> Judgement {
        if run.run.objects.iter().any(|stored| stored.object["status"]["ready"] == true) {
            return Judgement::of(Vec::new());
        }
        let violation = Violation {
            oracle: self.name().to_owned(),
            resource: String::new(),
            object: String::new(),
            event: None,
            explanation: String::new(),
            is_unevaluated: false,
        };
        Judgement::of(vec![violation])
    }
}

#[test]
fn steps_without_which_an_invariant_is_broken_anyway_are_kept() {
    let mut oracles = Oracles::built_in();
    oracles.add(Box::new(Ready));
    let executor = Executor::new(vec![Script { is_wrong: true, deletes: false }]);
    let options = options(&[Strategy::Plans], Budget::Runs(100));
    let report = search(&options, &oracles, &executor, &mut Recorder::default()).expect("a search").report;
    let finding = report.findings.iter().find(|finding| finding.violation.oracle == "a Foo is ready");
    let plan = &finding.expect("found").plan;
    assert_eq!((plan.left_out.len(), plan.deviations.len()), (0, 1));
}

/// An invariant that the right controller breaks without a fault: there are two ConfigMaps.
#[derive(Debug)]
struct TwoMaps;

impl Oracle for TwoMaps {
    fn name(&self) -> &str {
        "two ConfigMaps"
    }

    fn judge(&self, run: &RunView<'_>, _: Option<&ReferenceRuns>) -> Judgement {
        let maps = run.run.objects.iter().filter(|stored| stored.resource == "configmaps").count();
        let violation = Violation {
            oracle: self.name().to_owned(),
            resource: String::new(),
            object: String::new(),
            event: None,
            explanation: String::new(),
            is_unevaluated: false,
        };
        Judgement::of(if maps == 2 { Vec::new() } else { vec![violation] })
    }
}

#[test]
fn an_error_that_needs_no_fault_keeps_the_plugins_write() {
    let mut oracles = Oracles::built_in();
    oracles.add(Box::new(TwoMaps));
    let executor = Executor::new(vec![Script { is_wrong: false, deletes: false }]);
    let options = options(&[Strategy::Reference], Budget::Runs(4));
    let report = search(&options, &oracles, &executor, &mut Recorder::default()).expect("a search").report;
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    assert_eq!(finding.plan.left_out, [], "without the steps, there is no ConfigMap either");
    assert!(finding.steps.iter().any(|step| step.text.contains("create configmaps")), "{:?}", finding.steps);
}

#[test]
fn random_plans_find_and_shrink_it_too() {
    let report = run_search(true, 1, &options(&[Strategy::Random], Budget::Runs(500)));
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    assert_eq!(finding.plan.deviations.len(), 1);
    assert_eq!(finding.plan.seed, 7);
}

#[test]
fn the_right_controller_is_not_reported() {
    for strategy in Strategy::ALL {
        let report = run_search(false, 1, &options(&[strategy], Budget::Runs(300)));
        assert_eq!(report.findings, []);
        assert!(report.coverage.oracles["same end"].judged > 0 || strategy == Strategy::Reference);
    }
}

#[test]
fn one_and_two_threads_find_the_same_by_the_same_runs() {
    let options = options(&Strategy::ALL, Budget::Runs(400));
    assert_eq!(run_search(true, 1, &options), run_search(true, 2, &options));
    assert_eq!(run_search(false, 1, &options), run_search(false, 3, &options));
}

/// The same world, in which no run comes to rest.
struct NeverAtRest {
    script: Script,
    /// Whether the runs go on as if they were at rest.
    goes_on: bool,
}

impl Simulator for NeverAtRest {
    fn run(&mut self, plan: &Plan) -> Result<Run, WorldError> {
        let mut run = Run { end: End::NotAtRest, ..self.script.run(plan)? };
        if self.goes_on
            && let Some(last) = run.events.last().cloned()
        {
            run.events.push(Event { kind: EventKind::BusyTimeout, ..last });
            run.hashes.push(run.hash);
        }
        Ok(run)
    }
}

#[test]
fn a_run_that_does_not_come_to_rest_counts_as_ten_unless_it_goes_on_as_if() {
    for (goes_on, runs) in [(false, 100..132), (true, 1_000..1_001)] {
        let options = options(&[Strategy::Random], Budget::Runs(1_000));
        let executor =
            Executor::new(vec![NeverAtRest { script: Script { is_wrong: false, deletes: false }, goes_on }]);
        let searched = search(&options, &Oracles::built_in(), &executor, &mut Recorder::default());
        let report = searched.expect("a search").report;
        assert_eq!(report.stopped, Stop::Budget);
        assert!(runs.contains(&report.runs), "no more than a batch beyond the budget: {}", report.runs);
    }
}

#[test]
fn budgets_are_kept() {
    let report = run_search(false, 1, &options(&Strategy::ALL, Budget::Runs(100)));
    assert_eq!((report.runs, report.stopped), (100, Stop::Budget));
    let timed = run_search(false, 1, &options(&[Strategy::Random], Budget::Time(Duration::from_millis(20))));
    assert_eq!(timed.stopped, Stop::Budget);
    assert!(timed.runs > 2 && timed.runs < 20 * 32);
    let short = Budget::Both(100_000, Duration::from_millis(20));
    let both = run_search(false, 1, &options(&[Strategy::Random], short));
    assert_eq!(both.stopped, Stop::Budget);
    assert!(both.runs > 2 && both.runs < 1_000, "the time ends it: {}", both.runs);
    let few = run_search(false, 1, &options(&Strategy::ALL, Budget::Both(100, Duration::from_hours(1))));
    assert_eq!((few.runs, few.stopped), (100, Stop::Budget));
    let few = run_search(false, 1, &options(&[Strategy::Plans], Budget::Runs(100_000)));
    assert_eq!(few.stopped, Stop::Exhausted);
}

#[test]
fn a_world_that_cannot_be_built_ends_the_search() {
    struct Broken;
    impl Simulator for Broken {
        fn run(&mut self, _: &Plan) -> Result<Run, WorldError> {
            Err(WorldError("cannot load zoo.wasm".to_owned()))
        }
    }
    let executor = Executor::new(vec![Broken]);
    let options = options(&Strategy::ALL, Budget::Runs(10));
    let result = search(&options, &Oracles::built_in(), &executor, &mut Recorder::default());
    assert_eq!(result.expect_err("no world").0, "cannot load zoo.wasm");
}

#[test]
fn plans_keep_to_the_selected_faults() {
    let run = Script { is_wrong: false, deletes: false }.run(&Plan::default()).expect("a world");
    let points = Points::of(&run);
    for class in FaultClass::ALL {
        let faults = FaultSelection::of([class]);
        let only = |deviations: &[Deviation]| {
            deviations.iter().all(|deviation| FaultClass::of(&deviation.fault) == Some(class))
        };
        let plans = plans(&points, &faults);
        assert!(plans.iter().all(|plan| only(&plan.deviations)), "{}", class.name());
        let mut random = RandomPlans::new(1, &points, &faults);
        assert!((0..100).all(|_| only(&random.next_plan().deviations)), "{}", class.name());
    }
    let none = FaultSelection::of([]);
    assert!(plans(&points, &none).is_empty());
    assert!(RandomPlans::new(1, &points, &none).next_plan().deviations.is_empty());
}

#[test]
fn random_plans_follow_from_the_seed() {
    let run = Script { is_wrong: false, deletes: false }.run(&Plan::default()).expect("a world");
    let (points, faults) = (Points::of(&run), FaultSelection::default());
    let draw = |seed| {
        let mut random = RandomPlans::new(seed, &points, &faults);
        (0..50).map(|_| random.next_plan()).collect::<Vec<_>>()
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}

#[test]
fn the_plans_for_a_comparison_take_all_strategies_in_turn() {
    let run = Script { is_wrong: false, deletes: false }.run(&Plan::default()).expect("a world");
    let (points, faults) = (Points::of(&run), FaultSelection::default());
    let plans: Vec<_> = all_plans(7, &Strategy::ALL, &points, &faults).take(200).collect();
    assert!(plans[0].deviations.is_empty());
    assert_eq!(plans.len(), 200);
    assert!(plans.iter().any(|plan| plan.seed != 7), "random plans have seeds of their own");
    assert!(plans.iter().any(|plan| plan.deviations.len() == 2 && plan.seed == 7), "pairs");
}
