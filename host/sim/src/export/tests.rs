//! Tests with scripted runs.

use std::process::Command;

use serde_json::{Value, json};

use super::{Export, Files, baseline_plan};
use crate::analysis::RunView;
use crate::oracle::{ReferenceRuns, Violation};
use crate::plan::{Deviation, Fault, Moment, Plan};
use crate::run::{Author, EventKind, Run};
use crate::testing::RunBuilder;

fn violation(event: Option<usize>) -> Violation {
    Violation {
        oracle: "one of each".to_owned(),
        resource: String::new(),
        object: String::new(),
        event,
        explanation: "it is wrong".to_owned(),
        is_unevaluated: false,
    }
}

fn export(run: &Run, baseline: &Run, event: Option<usize>) -> Result<Value, String> {
    let reference = ReferenceRuns::new(baseline, baseline);
    let view = RunView::new(run, reference.random());
    let files =
        Files { plugins: vec!["zoo.wasm".to_owned()], upgrade: None, watched: vec!["zoos.x.dev".into()] };
    let export = Export::of(&view, &violation(event), &reference, baseline, files)?;
    Ok(serde_json::from_str(&export.to_json()).expect("JSON"))
}

fn zoo() -> Option<Value> {
    Some(json!({"apiVersion": "x.dev/v1", "kind": "Zoo", "metadata": {"namespace": "a"}}))
}

fn claim() -> Option<Value> {
    Some(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "a"}}))
}

/// A user creates a Zoo twice, with a claim that the second one owns. After a restart into the past, the plugin deletes the claim.
fn recreated(has_fault: bool) -> Run {
    let mut run = RunBuilder::new();
    run.deliver_uid("zoos.x.dev", "a/z", "LISTED", "u0");
    run.rest();
    run.actor("user", "create", "zoos.x.dev", "a/z", zoo());
    run.deliver("zoos.x.dev", "a/z", "ADDED");
    run.rest();
    run.actor("user", "delete", "zoos.x.dev", "a/z", None);
    run.rest();
    run.actor("user", "create", "zoos.x.dev", "a/z", zoo());
    let uid = run.uid("zoos.x.dev", "a/z");
    let mut owned = claim();
    if let Some(claim) = &mut owned {
        claim["metadata"]["annotations"] = json!({"owner": uid});
    }
    run.actor("volumes", "create", "persistentvolumeclaims", "a/z", owned);
    run.rest();
    if has_fault {
        let past = vec![("zoos.x.dev".to_owned(), 1)];
        run.deviate(Moment::Rest { occurrence: 4 }, Fault::Restart { past });
        run.restart(&[("zoos.x.dev", 1)]);
        run.start("a/z");
        run.write("delete", "persistentvolumeclaims", "a/z", None);
        run.deliver("zoos.x.dev", "a/z", "ADDED");
    }
    run.finish()
}

fn position(run: &Run, verb: &str) -> usize {
    let is_it = |kind: &EventKind| match kind {
        EventKind::Request(request) => request.verb == verb && matches!(request.author, Author::Plugin(_)),
        _ => false,
    };
    run.events.iter().position(|event| is_it(&event.kind)).expect("the request")
}

#[test]
fn the_timeline_has_the_steps_of_the_actors_and_the_restart() {
    let run = recreated(true);
    let exported = export(&run, &recreated(false), Some(position(&run, "delete"))).expect("exported");
    let entries = exported["timeline"].as_array().expect("a list");
    let actions: Vec<_> = entries.iter().map(|entry| entry["do"].as_str().expect("a text")).collect();
    assert_eq!(actions, ["write", "write", "write", "write", "restart"]);
    assert_eq!(entries[0]["path"], "/apis/x.dev/v1/namespaces/a/zoos?fieldManager=user");
    assert_eq!(entries[1]["path"], "/apis/x.dev/v1/namespaces/a/zoos/z");
    assert_eq!(entries[0]["after"]["rest"], true);
    assert_eq!(entries[3]["after"]["rest"], false, "the stand-in acts at once");
    assert_eq!(entries[2]["together"], true, "the host sees both or none");
    assert_eq!(entries[3]["body"]["metadata"]["annotations"]["owner"], "${uid:zoos.x.dev a/z#2}");
    assert_eq!(entries[4]["past"], json!([["zoos.x.dev", 1]]));
}

#[test]
fn the_violating_write_is_expected_with_the_object_that_it_deletes() {
    let run = recreated(true);
    let exported = export(&run, &recreated(false), Some(position(&run, "delete"))).expect("exported");
    let expected = json!({
        "kind": "write", "verb": "delete", "resource": "persistentvolumeclaims", "object": "persistentvolumeclaims a/z#1",
        "occurrence": 1, "entries": 5, "facts": {},
    });
    assert_eq!(exported["expected"], expected);
    assert_eq!(exported["gates"], json!([5]));
    assert_eq!(exported["writes"], json!(["delete persistentvolumeclaims a/z#1 → 200"]));
}

#[test]
fn a_step_during_a_late_request_waits_for_that_request_and_not_for_rest() {
    let late = |steps_while_late: usize| {
        let mut run = RunBuilder::new();
        run.deliver_uid("zoos.x.dev", "a/z", "LISTED", "u0");
        run.rest();
        run.actor("user", "create", "zoos.x.dev", "a/z", zoo());
        run.actor("volumes", "create", "persistentvolumeclaims", "a/z", claim());
        run.deliver("zoos.x.dev", "a/z", "ADDED");
        run.start("a/z");
        let at = Moment::Request {
            verb: "delete".to_owned(),
            resource: "persistentvolumeclaims".to_owned(),
            occurrence: 1,
        };
        run.deviate(at, Fault::DelayRequest(7_500));
        for time in 1..=steps_while_late {
            run.at(4_000 * time as u64);
            run.actor("user", "patch", "zoos.x.dev", "a/z", zoo());
        }
        run.at(20_000);
        run.write("delete", "persistentvolumeclaims", "a/z", None);
        run.at(60_000);
        run.actor("user", "delete", "zoos.x.dev", "a/z", None);
        let run = run.finish();
        let exported = export(&run, &recreated(false), None).expect("exported");
        exported["timeline"].as_array().expect("a list")[2..].to_vec()
    };
    let entries = late(2);
    assert_eq!(entries[0]["after"]["request"], json!(["delete", "persistentvolumeclaims", 1]));
    let rests: Vec<_> = entries.iter().map(|entry| entry["after"]["rest"] == true).collect();
    assert_eq!(rests, [false, false, true]);
    let entries = late(0);
    assert_eq!(entries[0]["after"]["request"], Value::Null, "the request has arrived long before");
}

#[test]
fn a_watch_that_was_late_is_released_where_it_delivered_again() {
    let run = recreated(true);
    let exported = export(&run, &recreated(false), None).expect("exported");
    let entries = exported["timeline"].as_array().expect("a list");
    let last = entries.last().expect("an entry");
    assert_eq!((last["do"].as_str(), last["resource"].as_str()), (Some("release"), Some("zoos.x.dev")));
    assert_eq!(last["after"]["writes"], 1);
}

#[test]
fn an_end_is_described_by_what_differs_from_a_run_without_faults() {
    let run = recreated(true);
    let exported = export(&run, &recreated(false), None).expect("exported");
    let fact = json!({"resource": "persistentvolumeclaims", "namespace": "a", "name": "z", "count": 0});
    assert_eq!(exported["expected"], json!({"kind": "end", "facts": [fact]}));
}

#[test]
fn an_end_that_needs_no_fault_is_described_as_a_whole() {
    let run = recreated(false);
    let exported = export(&run, &run, None).expect("exported");
    let facts = exported["expected"]["facts"].as_array().expect("a list");
    let count = json!({"resource": "zoos.x.dev", "namespace": "a", "name": "z", "count": 1});
    let absent = json!({"resource": "zoos.x.dev", "namespace": "a", "name": "z", "pointer": "/status", "absent": true});
    assert!(facts.contains(&count) && facts.contains(&absent), "{facts:?}");
}

#[test]
fn faults_of_requests_and_watches_are_for_the_proxy() {
    let mut run = RunBuilder::new();
    run.actor("user", "create", "pods", "a/p", Some(json!({"apiVersion": "v1"})));
    let create = Moment::Request { verb: "create".to_owned(), resource: "pods".to_owned(), occurrence: 2 };
    run.deviate(create, Fault::LoseAnswer);
    run.deviate(Moment::Event { resource: "pods".to_owned(), occurrence: 1 }, Fault::DropWatch(500));
    run.deliver_uid("pods", "a/p", "LISTED", "u1");
    run.deviate(Moment::Rest { occurrence: 1 }, Fault::Reload);
    run.deviate(Moment::Rest { occurrence: 2 }, Fault::RequeueAll);
    let run = run.finish();
    let exported = export(&run, &run, None).expect("exported");
    let faults = json!([
        {"request": ["create", "pods", 2], "rule": "W3", "do": "lose-answer"},
        {"event": ["pods", 1], "rule": "V2", "do": "drop"},
    ]);
    assert_eq!(exported["faults"], faults);
    let actions: Vec<_> =
        exported["timeline"].as_array().expect("a list").iter().map(|entry| &entry["do"]).collect();
    assert_eq!(actions, ["write", "relist", "reload", "reload"]);
}

#[test]
fn what_exists_only_in_the_simulation_is_refused() {
    let mut run = RunBuilder::new();
    run.push(EventKind::Http {
        reconcile: None,
        method: "GET".into(),
        url: "http://cloud".into(),
        status: None,
    });
    let run = run.finish();
    assert!(export(&run, &run, None).expect_err("HTTP").contains("HTTP requests"));
    let mut run = RunBuilder::new();
    run.controller("create", "replicasets.apps", "a/r", Some(json!({"apiVersion": "apps/v1"})));
    let run = run.finish();
    assert!(export(&run, &run, None).expect_err("a controller").contains("replicasets.apps a/r"));
    let mut run = RunBuilder::new();
    run.actor("user", "create", "pods", "a/p", Some(json!({"apiVersion": "v1"})));
    run.deviate(Moment::Time(0), Fault::WithholdReasons);
    let run = run.finish();
    assert!(export(&run, &run, None).expect_err("reasons").contains("rule H4"));
}

#[test]
fn an_end_that_shows_nothing_is_refused() {
    let run = RunBuilder::new().finish();
    assert!(export(&run, &run, None).expect_err("nothing was written").contains("neither a write"));
}

#[test]
fn a_garbage_collector_is_waited_for_or_replaced() {
    let mut run = RunBuilder::new();
    run.write("create", "persistentvolumeclaims", "a/z", claim());
    run.controller("delete", "persistentvolumeclaims", "a/z", None);
    let run = run.finish();
    let exported = export(&run, &run, None).expect("exported");
    let entry = &exported["timeline"][0];
    assert_eq!((&entry["do"], &entry["method"]), (&json!("controller"), &json!("DELETE")));
    assert_eq!(entry["body"]["preconditions"]["uid"], "${uid:persistentvolumeclaims a/z#1}");
}

#[test]
fn the_baseline_has_the_order_of_the_actors_and_no_faults() {
    let at = Moment::Rest { occurrence: 1 };
    let step = Deviation { at: at.clone(), fault: Fault::TakeStep { actor: "user".to_owned() } };
    let plan = Plan::new(3, vec![step.clone(), Deviation { at, fault: Fault::Reload }]);
    assert_eq!(baseline_plan(&plan), Plan::new(3, vec![step.clone()]));
    let order = Plan::new(3, vec![step]);
    assert!(baseline_plan(&order).deviations.is_empty(), "an order is compared with the default one");
}

#[test]
fn the_unit_tests_of_the_script_pass() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/export");
    let tests =
        Command::new("python3").args(["-B", "-m", "unittest", "test_proxy"]).current_dir(folder).output();
    let Ok(output) = tests else {
        eprintln!("skipped: python3 is not installed");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
