//! The ends of two ways are compared.

use serde_json::{Value, json};

use super::*;
use crate::run::ReconcileResult;
use crate::testing::{RunBuilder, judge};

fn plan(mut run: Run, is_shorter: bool) -> Run {
    run.plan.history = Some(HistoryPlan { index: 0, is_shorter });
    run
}

/// Judges a run of the longer way.
fn judged(longer: RunBuilder, shorter: RunBuilder) -> Vec<Violation> {
    let shorter = plan(shorter.finish(), true);
    let reference = ReferenceRuns::new(&shorter, &shorter);
    judge(&History, &plan(longer.finish(), false), Some(&reference)).violations
}

fn farm(pool: &str) -> Value {
    json!({"spec": {"pool": pool}})
}

fn owned() -> Value {
    json!({"metadata": {"ownerReferences": [{"uid": "x"}]}})
}

/// A user names a pool, and perhaps gives it another name. `deletes` says whether the plugin deletes the former child.
fn renamed(names: &[&str], child: (&str, &Value), deletes: bool) -> RunBuilder {
    let (resource, object) = child;
    let mut run = RunBuilder::new();
    let mut former: Option<String> = None;
    for name in names {
        let verb = if former.is_none() { "create" } else { "patch" };
        run.actor("user", verb, "farms", "a/x", Some(farm(name)));
        run.start("a/x");
        let child = format!("a/x-{name}");
        run.write("create", resource, &child, Some(object.clone()));
        if let Some(former) = former.replace(child).filter(|_| deletes) {
            run.write("delete", resource, &former, None);
        }
        run.end(ReconcileResult::Ok);
    }
    run
}

#[test]
fn a_child_of_a_former_name_is_reported() {
    let run = |names: &[&str], deletes| renamed(names, ("services", &owned()), deletes);
    let found = judged(run(&["plum", "quince"], false), run(&["quince"], false));
    assert_eq!(found[0].object, "a/x-plum");
    assert!(found[0].explanation.contains("nothing is named \"plum\" any more"), "{found:?}");
    assert_eq!(judged(run(&["plum", "quince"], true), run(&["quince"], true)), []);
}

#[test]
fn a_child_that_may_be_kept_is_not_reported() {
    for (resource, object) in [("jobs.batch", owned()), ("services", json!({}))] {
        let run = |names: &[&str]| renamed(names, (resource, &object), false);
        assert_eq!(judged(run(&["plum", "quince"]), run(&["quince"])), [], "{resource}");
    }
}

#[test]
fn only_the_longer_way_of_the_same_history_is_judged() {
    let run = |names: &[&str]| renamed(names, ("services", &owned()), false).finish();
    let shorter = plan(run(&["quince"]), true);
    let reference = ReferenceRuns::new(&shorter, &shorter);
    assert!(!judge(&History, &run(&["plum", "quince"]), Some(&reference)).had_subject);
    assert!(!judge(&History, &shorter, Some(&reference)).had_subject);
    let unrelated = run(&["quince"]);
    let unrelated = ReferenceRuns::new(&unrelated, &unrelated);
    assert!(!judge(&History, &plan(run(&["plum", "quince"]), false), Some(&unrelated)).had_subject);
}

#[test]
fn an_entry_of_a_former_name_is_reported() {
    let run = |names: &[&str], data: Value| {
        let mut run = RunBuilder::new();
        for (index, name) in names.iter().enumerate() {
            run.actor("user", if index == 0 { "create" } else { "patch" }, "farms", "a/x", Some(farm(name)));
        }
        run.start("a/x");
        run.write("create", "configmaps", "a/x", Some(json!({"data": data, "status": {"former": "plum"}})));
        run.end(ReconcileResult::Ok);
        run
    };
    let shorter = || run(&["quince"], json!({"quince": "on", "pools": ["quince"]}));
    let reported = |data| judged(run(&["plum", "quince"], data), shorter()).len();
    assert_eq!(reported(json!({"quince": "on", "plum": "on", "pools": ["quince"]})), 1);
    assert_eq!(reported(json!({"quince": "on", "pools": ["quince", "plum"]})), 1);
    assert_eq!(reported(json!({"quince": "on", "pools": ["quince"]})), 0);
    assert_eq!(reported(json!({"quince": "on", "other": "plums", "pools": ["quince"]})), 0);
}

/// An App has a ClusterRole. In the longer way, another one of the same name comes and goes, and `cleanup` is what the plugin does for it then.
fn namesake(is_longer: bool, cleanup: &dyn Fn(&mut RunBuilder)) -> RunBuilder {
    let mut run = RunBuilder::new();
    run.actor("user", "create", "namespaces", "another", Some(json!({})));
    run.actor("user", "create", "apps", "a/x", Some(json!({})));
    run.start("a/x");
    run.write("create", "clusterroles", "x", Some(json!({"rules": ["a"]})));
    run.end(ReconcileResult::Ok);
    if is_longer {
        run.actor("user", "create", "apps", "another/x", Some(json!({})));
        run.actor("user", "delete", "apps", "another/x", None);
        run.start("another/x");
        cleanup(&mut run);
        run.end(ReconcileResult::Ok);
    }
    run
}

#[test]
fn an_object_that_the_cleanup_of_a_namesake_deletes_is_reported() {
    let delete = |run: &mut RunBuilder| {
        run.write("delete", "clusterroles", "x", None);
    };
    let found = judged(namesake(true, &delete), namesake(false, &delete));
    assert_eq!(found[0].object, "x");
    assert!(found[0].explanation.contains("a reconcile of another/x"), "{found:?}");
    let collect = |run: &mut RunBuilder| run.controller("delete", "clusterroles", "x", None);
    assert_eq!(
        judged(namesake(true, &collect), namesake(false, &collect)),
        [],
        "the plugin did not delete it"
    );
    let keep = |_: &mut RunBuilder| {};
    assert_eq!(judged(namesake(true, &keep), namesake(false, &keep)), []);
}

#[test]
fn a_content_that_is_about_a_namesake_is_reported() {
    let change = |rule: &'static str| {
        move |run: &mut RunBuilder| {
            run.write("update", "clusterroles", "x", Some(json!({"rules": [rule]})));
        }
    };
    assert_eq!(judged(namesake(true, &change("another")), namesake(false, &change("another"))).len(), 1);
    assert_eq!(judged(namesake(true, &change("other")), namesake(false, &change("other"))), []);
}

#[test]
fn what_is_not_made_because_of_a_namespace_that_is_being_deleted_is_reported() {
    let run = |is_longer: bool, makes: bool| {
        let mut run = RunBuilder::new();
        if is_longer {
            run.actor("user", "create", "namespaces", "another", Some(json!({})));
            let metadata = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
            run.actor("user", "delete", "namespaces", "another", Some(metadata));
        }
        run.actor("user", "create", "policies", "x", Some(json!({})));
        run.start("x");
        if makes {
            run.write("create", "configmaps", "default/x", Some(json!({})));
        }
        run.write("create", "configmaps", "kube-system/x", Some(json!({})));
        run.end(ReconcileResult::Ok);
        run
    };
    assert_eq!(judged(run(true, false), run(false, true))[0].object, "default/x");
    assert_eq!(judged(run(true, true), run(false, true)), []);
}

#[test]
fn a_change_that_is_refused_silently_is_reported() {
    let run = |images: &[&str], result: &ReconcileResult, tells: bool| {
        let mut run = RunBuilder::new();
        for (index, image) in images.iter().enumerate() {
            let verb = if index == 0 { "create" } else { "patch" };
            run.actor("user", verb, "tasks", "a/x", Some(json!({"spec": {"image": image}})));
            run.start("a/x");
            if index == 0 {
                run.write("create", "jobs.batch", "a/x", Some(json!({"spec": {"image": image}})));
                run.end(ReconcileResult::Ok);
                continue;
            }
            run.ask("patch", "jobs.batch", "a/x", 422);
            if tells {
                let status = json!({"spec": {"image": image}, "status": {"problem": "immutable"}});
                run.write("patch", "tasks", "a/x", Some(status)).subresource = "status".to_owned();
            }
            run.end(result.clone());
        }
        run
    };
    let reported = |result: &ReconcileResult, tells| {
        judged(run(&["one", "two"], result, tells), run(&["two"], result, tells)).len()
    };
    assert_eq!(reported(&ReconcileResult::Ok, false), 1);
    assert_eq!(reported(&ReconcileResult::Ok, true), 0);
    assert_eq!(reported(&ReconcileResult::Error("immutable".to_owned()), false), 0);
}
