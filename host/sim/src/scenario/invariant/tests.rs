//! Invariants over runs that the test writes.

use serde_json::json;

use super::super::document::parse_yaml;
use super::*;
use crate::plan::Plan;
use crate::run::{Author, End, Event, EventKind, RequestEvent, Run, StoredObject};

fn invariant(text: &str) -> Result<Invariant, String> {
    Invariant::new(parse_yaml(text)?, 3, true, &Arc::new(Kinds::built_in()))
}

fn pod(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": node}})
}

fn write(author: Author, verb: &str, before: Option<Value>, after: Option<Value>) -> EventKind {
    let object = before.as_ref().or(after.as_ref()).expect("an object");
    EventKind::Request(Box::new(RequestEvent {
        step: None,
        author,
        reconcile: None,
        verb: verb.to_owned(),
        resource: "pods".to_owned(),
        subresource: String::new(),
        namespace: "default".to_owned(),
        name: object["metadata"]["name"].as_str().expect("a name").to_owned(),
        body: None,
        status: Some(200),
        reason: String::new(),
        answered: true,
        before: before.map(Arc::new),
        after: after.map(Arc::new),
        changed: true,
        cached_uid: None,
    }))
}

fn plugin() -> Author {
    Author::Plugin("p".to_owned())
}

fn user() -> Author {
    Author::Actor("user".to_owned())
}

/// A run whose events are a second apart.
fn run(end: End, objects: Vec<Value>, events: Vec<EventKind>) -> Run {
    let stored = |object: Value| StoredObject {
        resource: "pods".to_owned(),
        namespace: "default".to_owned(),
        name: object["metadata"]["name"].as_str().expect("a name").to_owned(),
        object: Arc::new(object),
        is_initial: false,
    };
    let event = |(index, kind): (usize, EventKind)| Event { time: 1000 * (index as u64 + 1), host: 1, kind };
    Run {
        plan: Plan::default(),
        events: events.into_iter().enumerate().map(event).collect(),
        end,
        objects: objects.into_iter().map(stored).collect(),
        skipped: Vec::new(),
        hash: 0,
        hashes: Vec::new(),
        draws: 0,
        steps: Vec::new(),
        unfinished: Vec::new(),
        not_simulated: std::collections::BTreeSet::new(),
    }
}

fn judged(text: &str, run: &Run) -> Judgement {
    judge(&[invariant(text).expect(text)], run).remove(0)
}

fn violated_at(text: &str, run: &Run) -> Option<usize> {
    match judged(text, run).verdict {
        InvariantResult::Violated { event, explanation, .. } => {
            assert!(!explanation.contains('\n'), "{explanation}");
            Some(event)
        }
        InvariantResult::Holds => None,
        InvariantResult::NotJudged(reason) => panic!("{text}: {reason}"),
    }
}

/// Two Pods on a node, of which one is deleted again. A third Pod was there from the start.
fn two_on_a_node() -> Run {
    run(
        End::AtRest,
        vec![pod("a", "n1"), pod("old", "n0")],
        vec![
            write(plugin(), "create", None, Some(pod("a", "n1"))),
            EventKind::Rest { occurrence: 1 },
            write(plugin(), "create", None, Some(pod("b", "n1"))),
            EventKind::FaultsOver,
            write(user(), "delete", Some(pod("b", "n1")), None),
            EventKind::Rest { occurrence: 2 },
        ],
    )
}

const ONE_PER_NODE: &str =
    "objects('Pod').all(p, objects('Pod').filter(q, q.spec.nodeName == p.spec.nodeName).size() == 1)";

#[test]
fn always_is_judged_after_every_change() {
    let text = format!("{{name: a, always: \"{ONE_PER_NODE}\"}}");
    let judgement = judged(&text, &two_on_a_node());
    let InvariantResult::Violated { event: 2, explanation, .. } = judgement.verdict else {
        panic!("{judgement:?}")
    };
    assert!(explanation.ends_with("is false after plugin p: create pods default/b"), "{explanation}");
    assert_eq!(violated_at("{name: a, always: \"exists('Pod', 'old')\"}", &two_on_a_node()), None);
}

#[test]
fn at_rest_is_judged_at_the_last_rest_or_at_each() {
    let last = format!("{{name: a, atRest: \"{ONE_PER_NODE}\"}}");
    assert_eq!(violated_at(&last, &two_on_a_node()), None, "the second Pod is gone at the end");
    let has_b = |rests: &str| format!("{{name: a, atRest: \"!exists('Pod', 'a')\"{rests}}}");
    assert_eq!(violated_at(&has_b(""), &two_on_a_node()), Some(5));
    assert_eq!(violated_at(&has_b(", rests: each"), &two_on_a_node()), Some(1));
}

#[test]
fn a_condition_that_cannot_be_evaluated_does_not_hold_at_rest() {
    let judgement =
        judged("{name: a, atRest: \"object('Pod', 'a').status.ready == true\"}", &two_on_a_node());
    assert!(matches!(judgement.verdict, InvariantResult::Violated { event: 5, .. }), "{judgement:?}");
    let judgement =
        judged("{name: a, always: \"object('Pod', 'a').status.ready == true\"}", &two_on_a_node());
    assert!(
        matches!(judgement.verdict, InvariantResult::NotJudged(_)) && judgement.problem.is_some(),
        "{judgement:?}"
    );
}

#[test]
fn within_bounds_the_time_after_the_faults() {
    let text = |within: &str| format!("{{name: a, atRest: \"!exists('Pod', 'b')\", within: {within}}}");
    assert_eq!(violated_at(&text("1s"), &two_on_a_node()), None);
    assert_eq!(violated_at(&text("999ms"), &two_on_a_node()), Some(5));
    let mut not_at_rest = two_on_a_node();
    not_at_rest.end = End::NotAtRest;
    let not_gone = "{name: a, atRest: \"exists('Pod', 'c')\", within: 1s}";
    assert_eq!(violated_at(not_gone, &not_at_rest), Some(5), "2 s have passed");
    let judgement = judged("{name: a, atRest: \"exists('Pod', 'c')\", within: 1m}", &not_at_rest);
    assert_eq!(judgement.verdict, InvariantResult::NotJudged("the run did not end at rest".to_owned()));
}

#[test]
fn on_write_is_judged_for_the_writes_that_match() {
    let expect =
        |selector: &str, expect: &str| format!("{{name: a, onWrite: {selector}, expect: \"{expect}\"}}");
    let run = two_on_a_node();
    for (text, expected) in [
        (expect("{verb: delete, kind: Pod}", "before.spec.nodeName != 'n1'"), Some(4)),
        (expect("{verb: [create, update], by: plugin}", "after.metadata.name == 'a'"), Some(2)),
        (expect("{by: user}", "write.verb != 'delete' && after == null"), Some(4)),
        (expect("{by: actor}", "write.author == 'actor' && write.by == 'user' && after == null"), None),
        (expect("{subresource: ''}", "before == null || exists('Pod', 'a')"), None),
    ] {
        assert_eq!(violated_at(&text, &run), expected, "{text}");
    }
    for selector in
        ["{kind: Node}", "{by: controller}", "{verb: patch}", "{subresource: status}", "{by: other}"]
    {
        let judgement = judged(&expect(selector, "false"), &run);
        assert_eq!(judgement.verdict, InvariantResult::NotJudged("no write matched".to_owned()));
    }
}

#[test]
fn the_state_of_http_services_is_judged() {
    let machines =
        |count: usize| EventKind::HttpState { state: json!({"cloud": {"machines": vec!["m"; count]}}) };
    let run = run(End::AtRest, Vec::new(), vec![machines(0), machines(1), machines(2)]);
    assert_eq!(violated_at("{name: a, always: http.cloud.machines.size() <= 1}", &run), Some(2));
}

#[test]
fn malformed_invariants_are_refused() {
    for (text, expected) in [
        ("{name: a}", "exactly one of always"),
        ("{name: a, always: 'true', atRest: 'true'}", "exactly one of always"),
        ("{name: a, always: \"objects('Pod').size()\"}", "it is of the type int, not bool"),
        ("{name: a, atRest: '1'}", "it is of the type int, not bool"),
        ("{name: a, always: 'true', within: 1s}", "belong to atRest"),
        ("{name: a, onWrite: {}}", "belong together"),
        ("{name: a, onWrite: {verb: remove}, expect: 'true'}", "is none of create"),
        ("{name: a, onWrite: {verb: 1}, expect: 'true'}", "a list of verbs"),
        ("{name: a, onWrite: {kind: Pood}, expect: 'true'}", "did you mean Pod?"),
        ("{name: a, atRest: 'true', rests: some}", "neither last nor each"),
        ("{name: a, atRest: 'true', within: x}", "within: "),
        ("{name: a, always: 'before == null'}", "unknown variable"),
        ("{name: '', always: 'true'}", "is not one line"),
        ("{name: a, alwais: 'true'}", "did you mean always?"),
    ] {
        let error = invariant(text).map(|_| ()).expect_err(text);
        assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
    }
}
