//! Compares the conditions of predicates with the interpreter.

use pilothouse_cel::EvaluationError;
use serde_json::json;

use super::*;

/// Predicates, and whether they are decided without CEL for an ordinary change.
const PREDICATES: &[(&str, bool)] = &[
    ("generationChanged()", true),
    ("!labelsChanged()", true),
    ("!!annotationsChanged()", true),
    ("generationChanged() || labelsChanged() || annotationsChanged()", true),
    ("generationChanged() && (labelsChanged() || !annotationsChanged()) && !!labelsChanged()", true),
    ("!(generationChanged() && labelsChanged())", true),
    ("generationChanged() && true || false", true),
    ("event == 'updated'", true),
    ("'deleted' != event", true),
    ("event in ['added', 'deleted', 'created']", true),
    ("event == 'created'", true),
    ("old == null || generationChanged()", true),
    ("old != null && labelsChanged()", true),
    ("object.metadata.name == 'a'", true),
    ("object.metadata.namespace != 'n'", true),
    (
        "has(object.metadata.labels) && 'app' in object.metadata.labels && object.metadata.labels['app'] == 'x'",
        true,
    ),
    (
        "has(object.metadata.labels) && has(object.metadata.labels.app) && object.metadata.labels.app in ['x', 'z']",
        true,
    ),
    ("object.metadata.labels['app'] == 'x'", true),
    ("object.metadata.labels['no such label'] == 'x'", false),
    ("!('canary' in object.metadata.labels)", true),
    ("has(object.metadata.deletionTimestamp) || generationChanged()", true),
    ("has(object.spec.nodeName) && object.spec.nodeName == 'node'", true),
    ("object.status.phase in ['Pending', 'Running']", true),
    ("object.status.phase == 'Running' && object.status.phase != 'Pending'", true),
    ("object.spec.replicas == 'text'", true),
    ("object.nothing.at.all == 'x' && generationChanged()", false),
    ("object.nothing.at.all == 'x' || event == 'updated'", true),
    ("has(object.nothing.at.all) || event == 'deleted'", false),
    ("has(object.spec)", true),
    ("has(object.spec) && object.spec.nodeName == 'node'", false),
    ("has(object.spec.nodeName).member == 'node'", false),
    ("generationChanged() && object.spec.replicas > 1", false),
    ("labelsChanged() && object.metadata.labels.all(key, key != 'x')", true),
    ("object.spec.replicas > 1 && labelsChanged()", false),
    ("labelsChanged() ? true : generationChanged()", false),
    ("generationChanged() == labelsChanged()", false),
    ("object.spec.paused", false),
    ("object.metadata.annotations['a'] == 'x'", false),
    ("object.spec.list['0'] == 'x'", false),
    ("object.spec.list[0] == 'x'", false),
    ("'x' in object.spec.list", false),
    ("object.metadata.labels == {'app': 'x'}", false),
    ("event in []", false),
    ("object.metadata.name == object.metadata.namespace", false),
];

fn object(generation: u32, labels: &serde_json::Value, more: &serde_json::Value) -> Object {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": generation, "resourceVersion": "1"},
        "spec": {"nodeName": "node", "replicas": 3, "list": ["x", "y"]},
        "status": {"phase": "Running"},
    });
    if !labels.is_null() {
        object["metadata"]["labels"] = labels.clone();
    }
    if let Some(more) = more.as_object() {
        more.iter().for_each(|(name, value)| object[name] = value.clone());
    }
    object["metadata"]["resourceVersion"] = format!("{generation}{labels}").into();
    Object::from_json(object.to_string()).expect("an object")
}

/// Objects that the conditions read, and some that only the interpreter can.
fn objects() -> Vec<Object> {
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let long = json!({"phase": "x".repeat(5000)});
    let none = json!({});
    vec![
        object(1, &json!({"app": "x"}), &none),
        object(2, &json!({"app": "x"}), &none),
        object(1, &json!({"app": "y", "canary": ""}), &none),
        object(1, &json!({}), &none),
        object(1, &json!(null), &none),
        object(1, &json!({"app": "\"\\x"}), &none),
        object(1, &json!({"app": "x"}), &json!({"spec": "text", "status": null})),
        object(1, &json!({"app": "x"}), &json!({"spec": [1], "status": {"phase": ["Running"]}})),
        object(1, &json!({"app": "x"}), &json!({"spec": {}, "status": long})),
        object(1, &json!({"app": "x"}), &json!({"spec": deep.clone(), "status": {"phase": deep}})),
        object(1, &json!({"app": "x"}), &json!({"nothing": {"at": {"all": "x"}}})),
        object(1, &json!({"app": "x"}), &json!({"padding": "x".repeat(100_000)})),
    ]
}

fn changes() -> Vec<Notification> {
    let objects = objects();
    let updated = objects.iter().flat_map(|old| {
        objects.iter().map(|new| Notification::Updated { old: old.clone(), new: new.clone() })
    });
    let added = objects.iter().map(|object| Notification::Added { object: object.clone(), initial: false });
    let deleted = objects.iter().cloned().map(Notification::tombstone);
    updated.chain(added).chain(deleted).collect()
}

#[test]
fn what_a_condition_decides_is_the_interpreters_result() {
    let changes = changes();
    for &(text, is_decided) in PREDICATES {
        let predicate = Predicate::compile(text).expect(text);
        let ordinary = Notification::Updated { old: objects()[0].clone(), new: objects()[1].clone() };
        assert_eq!(predicate.decide(&ordinary).is_some(), is_decided, "{text}");
        for change in &changes {
            let Some(decided) = predicate.decide(change) else { continue };
            match predicate.interpret(change) {
                Ok(expected) => assert_eq!(decided, expected, "{text}: {change:?}"),
                // The interpreter converts everything that the expression reads before it evaluates anything.
                Err(error) => {
                    let too_deep = EvaluationError::Depth.to_string();
                    assert_eq!(error.to_string(), too_deep, "{text}: {change:?}");
                }
            }
        }
    }
}

#[test]
fn a_condition_decides_without_what_comes_after_it() {
    let deep = objects().swap_remove(9);
    let same = Notification::Updated { old: deep.clone(), new: deep };
    let predicate =
        Predicate::compile("labelsChanged() && object.spec.all(item, item > 1)").expect("compiles");
    assert!(predicate.interpret(&same).is_err());
    assert!(!predicate.admits(&same).expect("refused before the conversion"));
    let predicate =
        Predicate::compile("object.spec.all(item, item > 1) && labelsChanged()").expect("compiles");
    assert!(predicate.admits(&same).is_err(), "operands are evaluated in order");
}

#[test]
fn only_predicates_that_compare_nothing_else_never_need_the_interpreter() {
    for (text, needs_interpreter) in [
        ("", false),
        ("generationChanged() || event == 'deleted'", false),
        ("old == null", false),
        ("object.metadata.name == 'a'", true),
        ("generationChanged() && object.spec.replicas > 1", true),
    ] {
        assert_eq!(Predicate::compile(text).expect(text).needs_interpreter(), needs_interpreter, "{text}");
    }
}
