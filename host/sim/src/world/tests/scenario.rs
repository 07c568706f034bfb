//! A world that is made from a scenario file.

use std::path::Path;
use std::sync::Arc;

use super::stage::plugins;
use crate::plan::{Deviation, Fault, Moment, Plan};
use crate::run::{End, EventKind};
use crate::scenario::invariant::InvariantResult;
use crate::scenario::{Kinds, Scenario};
use crate::world::{World, WorldOptions};
use crate::{Run, Simulator};

const SCENARIO: &str = r#"
apiVersion: pilothouse.dev/v1alpha1
kind: Simulation
objects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}}
actors:
- name: user
  steps:
  - create:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: a, namespace: default}
      data:
        first: '{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"generateName": "any-", "namespace": "default"}}'
  - wait: "size(objects('Lease')) > 0"
invariants:
- name: at most one lease
  always: "size(objects('Lease')) <= 1"
- name: the settings stay
  atRest: "exists('ConfigMap', 'settings')"
"#;

fn run(deviations: Vec<Deviation>) -> (Run, Vec<InvariantResult>) {
    run_scenario(SCENARIO, deviations)
}

fn run_scenario(text: &str, deviations: Vec<Deviation>) -> (Run, Vec<InvariantResult>) {
    let read = |_: &Path| Err("no such file".to_owned());
    let scenario = Scenario::parse(Path::new("leases.yaml"), text, &Kinds::built_in(), &read);
    let scenario = Arc::new(scenario.expect("a scenario"));
    let options = WorldOptions::of_scenario(&scenario);
    let mut world = World::new(plugins(super::stage::DESCRIPTOR), options).expect("a world");
    let run = world.run(&Plan::new(3, deviations)).expect("a run");
    let results = scenario.judge(&run).into_iter().map(|judgement| judgement.verdict).collect();
    (run, results)
}

#[test]
fn a_scenario_runs_and_a_crash_after_a_generated_name_violates_its_invariant() {
    let (reference, results) = run(vec![]);
    assert_eq!(reference.end, End::AtRest);
    assert_eq!(results, [InvariantResult::Holds, InvariantResult::Holds]);
    let resource = "leases.coordination.k8s.io".to_owned();
    let at = Moment::Request { verb: "create".to_owned(), resource, occurrence: 1 };
    let (crashed, results) = run(vec![Deviation { at, fault: Fault::CrashAfter }]);
    assert_eq!(crashed.end, End::AtRest);
    assert!(matches!(&results[0], InvariantResult::Violated { .. }), "{results:?}");
    assert_eq!(results[1], InvariantResult::Holds);
}

#[test]
fn a_run_says_why_an_actor_has_not_taken_all_its_steps() {
    assert!(run(vec![]).0.unfinished.is_empty());
    let waiting = SCENARIO.replace("size(objects('Lease')) > 0", "exists('Lease', 'nobody')");
    let [text] = run_scenario(&waiting, vec![]).0.unfinished.try_into().expect("one actor");
    assert!(text.starts_with("the actor user waits at step 2 (wait"), "{text}");
    let labelled = "metadata: {name: a, namespace: default, labels: {of: 'not valid!'}}";
    let refused = SCENARIO.replace("metadata: {name: a, namespace: default}", labelled);
    let [text] = run_scenario(&refused, vec![]).0.unfinished.try_into().expect("one actor");
    assert!(
        text.starts_with("the actor user ended: step 1 (create") && text.contains("with 422: "),
        "{text}"
    );
}

/// Returns a scenario of a user who creates a ConfigMap, for which the guest creates a Lease after an hour, and who then takes these steps.
fn after_an_hour(steps: &str) -> String {
    format!(
        r#"
apiVersion: pilothouse.dev/v1alpha1
kind: Simulation
actors:
- name: user
  steps:
  - create:
      apiVersion: v1
      kind: ConfigMap
      metadata: {{name: a, namespace: default}}
      data:
        wish: hour
        first: '{{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {{"name": "late", "namespace": "default"}}}}'
{steps}
  - create: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: b, namespace: default}}}}
"#
    )
}

#[test]
fn a_wait_for_what_a_long_timer_does_is_fulfilled() {
    let (run, _) = run_scenario(&after_an_hour("  - wait: \"exists('Lease', 'late')\""), vec![]);
    assert_eq!((run.end, run.unfinished), (End::AtRest, vec![]));
    let waiting = after_an_hour("  - wait: \"exists('Lease', 'nobody')\"");
    let (run, _) = run_scenario(&waiting, vec![]);
    assert_eq!((run.end, run.unfinished.len()), (End::AtRest, 1), "the timer has fired once");
    assert!(run.objects.iter().any(|object| object.name == "late"));
}

#[test]
fn a_long_sleep_ends_and_a_timer_meanwhile_does_not_keep_the_world_busy() {
    let (run, _) = run_scenario(&after_an_hour("  - sleep: 30h"), vec![]);
    assert!(!run.events.iter().any(|event| event.kind == EventKind::BusyTimeout));
    assert_eq!((run.end, run.unfinished), (End::AtRest, vec![]));
    assert!(run.events.last().expect("events").time > 30 * 60 * 60 * 1000);
}

#[test]
fn a_step_that_becomes_the_next_one_while_the_world_is_at_rest_is_taken() {
    for waits in [
        "  - sleep: 30h\n  - wait: \"exists('ConfigMap', 'a')\"",
        "  - wait: \"now > timestamp('2026-01-01T00:20:00Z')\"",
    ] {
        let (run, _) = run_scenario(&after_an_hour(waits), vec![]);
        assert_eq!((run.end, run.unfinished), (End::AtRest, vec![]), "{waits}");
        assert!(run.objects.iter().any(|object| object.name == "b"));
    }
}
