//! The state machines of actors, with a view that the test changes.

use std::path::Path;

use serde_json::{Value, json};

use super::super::document::{ActorDocument, parse_yaml};
use super::super::kinds::Kinds;
use super::super::manifest::FileReader;
use super::super::test_view::TestView;
use super::*;
use crate::actor::{ActorWrite, Operation};

fn zoo_crd() -> Value {
    json!({
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.com", "names": {"kind": "Zoo", "plural": "zoos"},
            "versions": [{"name": "v1", "storage": true, "subresources": {"status": {}}}],
        },
    })
}

fn parse(text: &str) -> Result<ActorDefinition, String> {
    let mut kinds = Kinds::built_in();
    kinds.add_crd(&zoo_crd()).expect("a CRD");
    let read = |_: &Path| {
        Ok("{apiVersion: v1, kind: Pod, metadata: {name: p}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n".to_owned())
    };
    let files = FileReader { file: Path::new("a.yaml"), read: &read };
    let document: ActorDocument = parse_yaml(text)?;
    actor_of(document, &Arc::new(kinds), &files, 7)
}

fn actor(text: &str) -> ActorState {
    ActorState::new(Arc::new(parse(text).expect("valid")), 1)
}

#[allow(clippy::needless_pass_by_value, reason = "callers write literals")]
fn zoo(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Zoo", "spec": spec,
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "1"},
    })
}

fn poll(actor: &mut ActorState, view: &TestView, now_ms: u64, at_rest: bool) -> ActorPoll {
    actor.poll(view, PollMoment { now_ms, at_rest })
}

fn write(poll: ActorPoll) -> ActorWrite {
    match poll {
        ActorPoll::Write(write) => *write,
        other => panic!("no write: {other:?}"),
    }
}

fn answer(actor: &mut ActorState, status: u16, now_ms: u64) {
    actor.written(&WriteOutcome { status, message: "refused".to_owned() }, now_ms);
}

const FOR_REST: ActorPoll = ActorPoll::Wait { until: None, for_rest: true };
const FOR_CHANGE: ActorPoll = ActorPoll::Wait { until: None, for_rest: false };

fn until(time: u64) -> ActorPoll {
    ActorPoll::Wait { until: Some(time), for_rest: false }
}

#[test]
fn steps_are_taken_at_rests_in_their_order() {
    let mut user = actor(
        "{name: user, steps: [{create: {file: f.yaml}}, {apply: {apiVersion: v1, kind: Pod, metadata: {name: q}}}, \
         {patch: {object: Zoo/a, subresource: status, merge: {status: {ready: true}}}}, \
         {delete: {object: Zoo/shop/a, propagation: Foreground}}]}",
    );
    let view = TestView::new(Vec::new());
    assert_eq!(poll(&mut user, &view, 0, false), FOR_REST);
    let mut titles = Vec::new();
    for step in 1..=5 {
        assert!(user.unfinished().expect("unfinished").starts_with(&format!("step {step} ")));
        let write = write(poll(&mut user, &view, 0, true));
        assert_eq!(write.step, step);
        titles.push((
            write.resource.kind.clone(),
            write.namespace.clone(),
            write.name.clone(),
            write.operation,
        ));
        answer(&mut user, 200, 0);
        assert!(step == 5 || poll(&mut user, &view, 0, false) == FOR_REST);
    }
    assert_eq!(poll(&mut user, &view, 0, true), ActorPoll::Done);
    assert_eq!(user.unfinished(), None);
    assert_eq!(titles[0].0, "Namespace", "what others need comes first");
    assert!(matches!(&titles[2].3, Operation::Apply(object) if object["metadata"]["namespace"] == "default"));
    assert_eq!(titles[3].3, Operation::MergePatch(json!({"status": {"ready": true}})));
    assert_eq!((titles[4].1.as_str(), titles[4].2.as_str()), ("shop", "a"));
    assert_eq!(titles[4].3, Operation::Delete { propagation: Some("Foreground".to_owned()), uid: None });
}

#[test]
fn a_wait_holds_the_steps_back_until_its_condition_holds() {
    let mut user = actor("{name: user, steps: [{wait: \"exists('Zoo', 'a')\"}, {delete: Zoo/a}]}");
    let mut view = TestView::new(Vec::new());
    user.take_next_step();
    assert_eq!(poll(&mut user, &view, 0, true), FOR_CHANGE, "even a hurried step waits for conditions");
    view.put(zoo("a", json!({})));
    assert_eq!(write(poll(&mut user, &view, 0, false)).step, 2, "it does not wait for a rest");
}

#[test]
fn a_condition_on_the_time_is_evaluated_again() {
    let mut user =
        actor("{name: user, steps: [{wait: \"now >= timestamp('2026-01-01T00:00:05Z')\"}, {delete: Zoo/a}]}");
    let view = TestView::new(Vec::new());
    assert_eq!(poll(&mut user, &view, 0, false), until(1000));
    assert_eq!(poll(&mut user, &view, 5000, false), FOR_REST);
}

#[test]
fn the_step_after_a_sleep_does_not_wait_for_a_rest() {
    let steps = "{name: user, steps: [{sleep: 5s}, {delete: Zoo/a}, {delete: Zoo/b}]}";
    let view = TestView::new(Vec::new());
    let mut user = actor(steps);
    assert_eq!(poll(&mut user, &view, 0, true), until(5000));
    write(poll(&mut user, &view, 5000, false));
    answer(&mut user, 200, 5000);
    assert_eq!(poll(&mut user, &view, 5000, false), FOR_REST);
    let mut hurried = actor(steps);
    hurried.take_next_step();
    assert_eq!(poll(&mut hurried, &view, 10, false), until(5000), "no plan makes a sleep shorter");
    write(poll(&mut hurried, &view, 5000, false));
}

#[test]
fn a_refused_step_is_repeated_until_it_succeeds_or_is_hopeless() {
    let view = TestView::new(Vec::new());
    let steps = "{name: user, steps: [{create: {apiVersion: v1, kind: Pod, metadata: {name: a}}}]}";
    let mut user = actor(steps);
    write(poll(&mut user, &view, 0, true));
    answer(&mut user, 409, 0);
    assert_eq!(poll(&mut user, &view, 0, true), until(1000));
    write(poll(&mut user, &view, 1000, false));
    answer(&mut user, 503, 1000);
    assert_eq!(poll(&mut user, &view, 1000, false), until(3000));
    write(poll(&mut user, &view, 3000, false));
    answer(&mut user, 422, 3000);
    let ActorPoll::Failed(problem) = poll(&mut user, &view, 3000, true) else { panic!("it is hopeless") };
    assert_eq!(problem, "step 1 (create Pod a) failed 3 times, at last with 422: refused");
    let mut busy = actor(steps);
    let mut now = 0;
    for _ in 0..20 {
        write(poll(&mut busy, &view, now, true));
        answer(&mut busy, 429, now);
        now += 60_000;
    }
    assert!(matches!(poll(&mut busy, &view, now, true), ActorPoll::Failed(_)));
}

#[test]
fn deleting_what_is_gone_is_no_failure() {
    let mut user = actor("{name: user, steps: [{delete: Zoo/a}]}");
    let view = TestView::new(Vec::new());
    write(poll(&mut user, &view, 0, true));
    answer(&mut user, 404, 0);
    assert_eq!(poll(&mut user, &view, 0, true), ActorPoll::Done);
}

#[test]
fn ensure_creates_what_is_absent_once_per_index() {
    let mut volumes = actor(
        "name: volumes\nforEach: {kind: Zoo, when: '!has(object.metadata.deletionTimestamp)', count: object.spec.replicas}\n\
         ensure: |\n  {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-${name}-${index}, labels: {uid: ${uid}}}}\n",
    );
    let mut view = TestView::new(vec![zoo("a", json!({"replicas": 2}))]);
    for (step, name) in [(1, "data-a-0"), (2, "data-a-1")] {
        let write = write(poll(&mut volumes, &view, 0, false));
        assert_eq!((write.step, write.name.as_str(), write.namespace.as_str()), (step, name, "default"));
        let Operation::Create(object) = write.operation else { panic!("it is created") };
        assert_eq!(object["metadata"]["labels"]["uid"], "uid-a");
        answer(&mut volumes, 201, 0);
        view.put(object);
    }
    assert_eq!(poll(&mut volumes, &view, 0, false), FOR_CHANGE);
    let gone =
        json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data-a-0", "namespace": "default"}});
    view.remove(&gone);
    assert_eq!(write(poll(&mut volumes, &view, 0, false)).name, "data-a-0");
}

#[test]
fn a_delay_is_in_its_range_and_starts_with_the_condition() {
    let text = "{name: issuer, forEach: {kind: Zoo, when: '!has(object.status)'}, after: 2s..30s, patchStatus: {ready: true}}";
    let mut issuer = actor(text);
    let mut view = TestView::new(vec![zoo("a", json!({}))]);
    let ActorPoll::Wait { until: Some(due), for_rest: false } = poll(&mut issuer, &view, 1000, false) else {
        panic!("it waits")
    };
    assert!((3000..=31_000).contains(&due), "{due}");
    assert_eq!(poll(&mut issuer, &view, 1000, true), until(due), "a rest changes nothing");
    view.revision += 1;
    assert_eq!(poll(&mut issuer, &view, 2000, false), until(due), "another change does not move it");
    assert_eq!(poll(&mut actor(text), &view, 1000, false), until(due), "the seed determines it");
    let patch = write(poll(&mut issuer, &view, due, false));
    assert_eq!(
        (patch.subresource.as_str(), &patch.operation),
        ("status", &Operation::MergePatch(json!({"status": {"ready": true}})))
    );
    answer(&mut issuer, 200, due);
    let mut zoo = zoo("a", json!({}));
    zoo["status"] = json!({"ready": true});
    view.put(zoo);
    assert_eq!(poll(&mut issuer, &view, due, false), FOR_CHANGE);
    view.put(self::zoo("a", json!({})));
    let mut hurried = actor(text);
    hurried.take_next_step();
    write(poll(&mut hurried, &view, 0, false));
}

#[test]
fn a_patch_without_effect_is_not_repeated() {
    let mut actor = actor("{name: a, forEach: {kind: Zoo}, patch: {spec: {pruned: 1}}}");
    let mut view = TestView::new(vec![zoo("a", json!({}))]);
    write(poll(&mut actor, &view, 0, false));
    answer(&mut actor, 200, 0);
    assert_eq!(poll(&mut actor, &view, 0, false), FOR_CHANGE, "the server ignored the field");
    let mut changed = zoo("a", json!({}));
    changed["metadata"]["resourceVersion"] = "2".into();
    view.put(changed);
    write(poll(&mut actor, &view, 0, false));
}

#[test]
fn apply_repairs_differences_and_delete_names_the_uid() {
    let mut apply = actor(
        "name: a\nforEach: {kind: Zoo}\napply: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${name}'}, data: {size: '${string(object.spec.size)}'}}\n",
    );
    let mut view = TestView::new(vec![
        zoo("a", json!({"size": 2})),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"size": "1"}}),
    ]);
    let write_of_map = write(poll(&mut apply, &view, 0, false));
    let Operation::Apply(object) = write_of_map.operation else { panic!("it is applied") };
    assert_eq!(object["data"]["size"], "2");
    answer(&mut apply, 200, 0);
    view.put(object);
    assert_eq!(poll(&mut apply, &view, 0, false), FOR_CHANGE);
    let mut delete =
        actor("{name: d, forEach: {kind: Zoo, namespace: default}, delete: {propagation: Background}}");
    let expected =
        Operation::Delete { propagation: Some("Background".to_owned()), uid: Some("uid-a".to_owned()) };
    assert_eq!(write(poll(&mut delete, &view, 0, false)).operation, expected);
    let mut elsewhere = actor("{name: d, forEach: {kind: Zoo, namespace: other}, delete: true}");
    assert_eq!(poll(&mut elsewhere, &view, 0, false), FOR_CHANGE);
}

#[test]
fn a_stand_in_repeats_refused_writes_and_gives_up_in_the_end() {
    let mut actor = actor("{name: a, forEach: {kind: Zoo}, delete: true}");
    let view = TestView::new(vec![zoo("a", json!({}))]);
    let mut now = 0;
    for _ in 0..20 {
        write(poll(&mut actor, &view, now, false));
        answer(&mut actor, 409, now);
        now += 60_000;
    }
    assert!(matches!(poll(&mut actor, &view, now, false), ActorPoll::Failed(_)));
}

#[test]
fn an_actor_that_fights_the_plugin_stops() {
    let mut actor = actor("{name: a, forEach: {kind: Zoo}, patch: {spec: {size: 1}}}");
    let mut view = TestView::new(Vec::new());
    for version in 0..1000 {
        let mut changed = zoo("a", json!({"size": 2}));
        changed["metadata"]["resourceVersion"] = version.to_string().into();
        view.put(changed);
        write(poll(&mut actor, &view, 0, false));
        answer(&mut actor, 200, 0);
    }
    view.put(zoo("a", json!({"size": 2, "changed": true})));
    let ActorPoll::Failed(problem) = poll(&mut actor, &view, 0, false) else { panic!("it stops") };
    assert!(problem.contains("again and again"), "{problem}");
}

#[test]
fn malformed_actors_are_refused_with_their_line() {
    let step = |step: &str| format!("{{name: a, steps: [{step}]}}");
    let for_each = |rest: &str| format!("{{name: a, forEach: {{kind: Zoo}}, {rest}}}");
    for (text, expected) in [
        ("{name: a}".to_owned(), "line 7: actor \"a\": it does nothing"),
        ("{name: a, steps: [], forEach: {kind: Zoo}}".to_owned(), "make them two actors"),
        ("{name: a, steps: [], after: 1s}".to_owned(), "belong to forEach"),
        (for_each("after: 1s"), "exactly one of ensure"),
        (for_each("delete: true, patch: {}"), "exactly one of ensure"),
        (for_each("delete: false"), "delete: "),
        (for_each("delete: {propagation: Odd}"), "is none of Background"),
        (for_each("delete: {object: Zoo/a}"), "remove object"),
        (for_each("delete: true, after: 5s..1s"), "shorter duration first"),
        (for_each("ensure: {metadata: {name: '${nme}'}}"), "did you mean name?"),
        ("{name: a, forEach: {kind: Zo}, delete: true}".to_owned(), "did you mean Zoo?"),
        ("{name: a, forEach: {kind: Zoo, when: objekt.a}, delete: true}".to_owned(), "did you mean object?"),
        ("{name: a, forEach: {kind: Zoo, count: index}, delete: true}".to_owned(), "unknown variable"),
        (step("{}"), "line 1: the step does nothing"),
        (step("{wait: 'true', sleep: 1s}"), "line 1: the step has several actions"),
        (step("{sleep: soon}"), "line 1: sleep: "),
        (step("{wait: 'a =='}"), "line 1: wait: "),
        (step("{delete: Zoo}"), "KIND/NAME"),
        (step("{delete: {propagation: Orphan}}"), "it names no object"),
        (step("{patch: {object: Zoo/a, subresource: logs, merge: {}}}"), "neither status nor scale"),
        (
            step("{apply: {apiVersion: v1, kind: Pod, metadata: {generateName: a-}}}"),
            "apply needs metadata.name",
        ),
        (step("{creat: 1}"), "did you mean create?"),
    ] {
        let error = parse(&text).map(|_| ()).expect_err(&text);
        assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
    }
}

#[test]
fn an_applied_object_that_the_server_normalises_is_not_applied_again() {
    let mut apply = actor(
        "{name: a, forEach: {kind: Zoo}, apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${name}'}, data: {size: 1Gi}}}",
    );
    let stored = |version: &str, size: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"size": size},
            "metadata": {"name": "a", "namespace": "default", "resourceVersion": version},
        })
    };
    let mut view = TestView::new(vec![zoo("a", json!({})), stored("5", "1024Mi")]);
    write(poll(&mut apply, &view, 0, false));
    answer(&mut apply, 200, 0);
    assert_eq!(poll(&mut apply, &view, 0, false), FOR_CHANGE, "the write had no effect");
    view.put(stored("6", "2Gi"));
    write(poll(&mut apply, &view, 0, false));
}

#[test]
fn an_ensured_object_that_vanishes_at_once_is_created_again() {
    let mut ensure = actor(
        "{name: a, forEach: {kind: Zoo}, ensure: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${name}'}}}",
    );
    let mut view = TestView::new(vec![zoo("a", json!({}))]);
    for _ in 0..3 {
        write(poll(&mut ensure, &view, 0, false));
        answer(&mut ensure, 201, 0);
        view.revision += 2;
    }
}

/// An actor that creates a Pod and then patches it, as far as that is possible.
fn trying() -> ActorState {
    let resource = Kinds::built_in().resolve("Pod").expect("built in").resource.clone();
    let step = |operation: Operation| {
        let write = ActorWrite {
            step: 0,
            resource: resource.clone(),
            subresource: String::new(),
            namespace: "default".to_owned(),
            name: "a".to_owned(),
            operation,
        };
        Step { line: 0, title: "a step".to_owned(), action: StepAction::Try(Box::new(write)) }
    };
    let steps = vec![step(Operation::Create(json!({}))), step(Operation::MergePatch(json!({})))];
    let behaviour = Behaviour::Steps(steps);
    ActorState::new(Arc::new(ActorDefinition { name: "user".to_owned(), behaviour }), 1)
}

#[test]
fn a_step_that_need_not_succeed_is_skipped_if_it_cannot() {
    let view = TestView::new(Vec::new());
    let mut actor = trying();
    assert_eq!(write(poll(&mut actor, &view, 0, true)).step, 1);
    answer(&mut actor, 422, 0);
    assert_eq!(write(poll(&mut actor, &view, 0, true)).step, 2);
    // The plugin has deleted the Pod.
    answer(&mut actor, 404, 0);
    assert_eq!(poll(&mut actor, &view, 0, true), ActorPoll::Done);
}

#[test]
fn a_step_that_need_not_succeed_is_tried_again_while_the_object_is_being_deleted() {
    let view = TestView::new(Vec::new());
    let mut actor = trying();
    let mut now = 0;
    for interval in [1_000, 2_000, 4_000, 8_000, 16_000] {
        assert_eq!(write(poll(&mut actor, &view, now, true)).step, 1);
        answer(&mut actor, 409, now);
        now += interval;
        assert_eq!(poll(&mut actor, &view, now - 1, true), until(now));
    }
    assert_eq!(write(poll(&mut actor, &view, now, true)).step, 1);
    answer(&mut actor, 409, now);
    assert_eq!(write(poll(&mut actor, &view, now, true)).step, 2, "the first step is skipped");
}
