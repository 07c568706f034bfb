//! Runs plans with a small guest: a reference run, and each kind of fault.

mod faults;
mod repeatability;
mod scenario;
mod stage;
mod timers;
mod twins;

use serde_json::json;
use stage::{Stage, create_map, create_map_with, creates, delete_map, lease, requests};

use crate::Simulator;
use crate::call_log::CallLog;
use crate::plan::{Deviation, Fault, Moment, Plan};
use crate::run::{Author, End, EventKind, ReconcileResult};
use crate::world::{World, WorldOptions};

#[test]
fn the_reference_run_comes_to_rest_with_both_objects() {
    let run = Stage::new(vec![create_map("a")]).run(vec![]);
    assert_eq!(run.end, End::AtRest);
    assert_eq!(creates(&run), ["leases.coordination.k8s.io/first-a", "leases.coordination.k8s.io/second-a"]);
    let names: Vec<_> = run.objects.iter().map(|object| object.name.as_str()).collect();
    assert!(names.contains(&"first-a") && names.contains(&"second-a"), "{names:?}");
    let reconciles = run.events.iter().filter(|event| {
        matches!(&event.kind, EventKind::ReconcileEnded { result, .. } if *result == ReconcileResult::Ok)
    });
    assert_eq!(reconciles.count(), 1);
    let of_reconcile = run.events.iter().filter_map(|event| match &event.kind {
        EventKind::Request(request) if request.author == Author::Plugin("guest".to_owned()) => {
            request.reconcile
        }
        _ => None,
    });
    assert_eq!(of_reconcile.collect::<Vec<_>>(), [1, 1], "requests know their reconcile");
    assert!(run.events.iter().any(|event| event.kind == EventKind::FaultsOver));
    assert!(run.skipped.is_empty());
    assert_eq!(run.hashes.len(), run.events.len());
}

#[test]
fn a_live_read_belongs_to_the_reconcile_that_sent_it() {
    let map = create_map_with("a", &[("wish", "live"), ("first", &lease("first-a"))]);
    let run = Stage::new(vec![map]).run(vec![]);
    let requests = requests(&run);
    let sent: Vec<_> = requests.iter().map(|request| (request.verb.as_str(), request.reconcile)).collect();
    assert_eq!(sent, [("get", Some(1)), ("create", Some(1))]);
}

#[test]
fn the_same_plan_gives_the_same_run_and_another_seed_another_one() {
    let mut stage = Stage::new(vec![create_map("a"), create_map("b"), delete_map("a")]);
    let crash = Deviation {
        at: Moment::Request {
            verb: "create".to_owned(),
            resource: "leases.coordination.k8s.io".to_owned(),
            occurrence: 2,
        },
        fault: Fault::CrashBefore,
    };
    let plan = Plan::new(7, vec![crash]);
    let first = stage.world.run(&plan).expect("a run");
    let second = stage.world.run(&plan).expect("a run");
    let third = Stage::new(vec![create_map("a"), create_map("b"), delete_map("a")]).world.run(&plan);
    let third = third.expect("a run");
    for other in [&second, &third] {
        for (index, (event, expected)) in other.events.iter().zip(&first.events).enumerate() {
            assert_eq!(event, expected, "event {index}");
            assert_eq!(other.hashes[index], first.hashes[index], "event {index}: {event:?}");
        }
        assert_eq!(other, &first);
    }
    let other = stage.world.run(&Plan { seed: 8, ..plan }).expect("a run");
    assert_ne!(other.hash, first.hash, "UIDs differ");
    assert_eq!(other.end, End::AtRest);
}

#[test]
fn the_calls_of_a_run_can_be_compared_with_those_of_another() {
    let world = || Stage::new(vec![create_map("a")]).world;
    let plan = |seed| Plan::new(seed, Vec::new());
    let calls = |seed| {
        let mut calls = CallLog::default();
        world().run_with_calls(&plan(seed), &mut calls).expect("a run");
        calls
    };
    let (first, run) = (calls(7), world().run(&plan(7)).expect("a run"));
    assert_eq!(first.difference(&calls(7)), None);
    assert_eq!(first.hash(), run.hash, "recording changes nothing");
    assert!(first.count() > run.events.len() as u64, "calls of the host are recorded, too");
    let difference = first.difference(&calls(8)).expect("UIDs differ");
    assert_ne!(difference.expected, difference.found);
}

#[test]
fn a_plugin_without_a_valid_descriptor_is_an_error_of_the_world() {
    let mut stage = Stage::with_descriptor(vec![], r#"{"kind": "Nothing"}"#);
    let error = stage.world.run(&Plan::default()).expect_err("it does not load");
    assert!(error.0.contains("the plugin guest"), "{error}");
}

#[test]
fn the_crd_of_a_plugin_was_applied_before_and_its_own_apply_has_no_conflict() {
    // The server leaves out an empty map, so the stored CRD differs from the plugin's.
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {}}}}]},
    });
    let descriptor =
        stage::DESCRIPTOR.replacen(r#""watches":["#, &format!(r#""crds":[{crd}],"watches":["#), 1);
    let options = WorldOptions { applied_crds: vec![crd], ..WorldOptions::default() };
    let mut world = World::new(stage::plugins(&descriptor), options).expect("a world");
    assert_eq!(world.run(&Plan::new(1, Vec::new())).expect("a run").end, End::AtRest);
}

#[test]
fn a_guest_that_never_returns_is_stopped_by_its_fuel() {
    let run = Stage::new(vec![stage::create_map_with("a", &[("wish", "spin")])]).run(vec![]);
    let faults = run.events.iter().filter(|event| {
        matches!(&event.kind, EventKind::ReconcileEnded { result: ReconcileResult::Fault(_), .. })
    });
    assert!(faults.count() > 0);
    assert_ne!(run.end, End::AtRest);
}

#[test]
fn a_reconcile_after_a_fault_runs_in_a_new_instance() {
    let run = Stage::new(vec![stage::create_map_with("a", &[("wish", "spin")])]).run(vec![]);
    let started: Vec<_> = run
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::ReconcileStarted { is_replacement, .. } => Some(is_replacement),
            _ => None,
        })
        .collect();
    assert!(started.len() > 1 && !started[0] && started[1..].iter().all(|is_new| *is_new), "{started:?}");
}
