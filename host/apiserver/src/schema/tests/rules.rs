//! Tests of CEL rules.

use serde_json::{Value, json};

use super::{crd, errors, object};
use crate::schema::Schema;

#[test]
fn transition_rules_compare_correlated_items_and_skip_creates() {
    let schema = crd(&json!({
        "min": {"type": "integer"}, "max": {"type": "integer"},
        "class": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "class is immutable"}]},
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.port >= oldSelf.port", "message": "ports only grow"}]
            }
        }
    }));
    let old = object(&json!({"class": "a", "ports": [{"name": "x", "port": 1}, {"name": "y", "port": 9}]}));
    assert!(errors(&schema, &old, None).is_empty(), "transition rules do not run on create");
    let new = object(&json!({"class": "b", "ports": [{"name": "y", "port": 8}, {"name": "x", "port": 2}]}));
    assert_eq!(
        errors(&schema, &new, Some(&old)),
        [
            r#"spec.class: Invalid value: "string": class is immutable"#,
            r#"spec.ports[0]: Invalid value: "object": ports only grow"#
        ],
        "old and new items are correlated by key, not by index"
    );
}

#[test]
fn failed_rules_report_their_message_or_their_text() {
    let rule = |rule: Value| {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-validations": [rule],
            "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}}
        }}});
        let schema = Schema::from_crd(&schema).expect("structural");
        errors(&schema, &object(&json!({"min": 2, "max": 1})), None)
    };
    assert_eq!(
        rule(json!({"rule": "self.min <= self.max"})),
        [r#"spec: Invalid value: "object": failed rule: self.min <= self.max"#]
    );
    assert_eq!(
        rule(json!({"rule": "self.min <= self.max", "messageExpression": "'min ' + string(self.min)"})),
        [r#"spec: Invalid value: "object": min 2"#]
    );
    assert_eq!(
        rule(
            json!({"rule": "self.min <= self.max", "message": "no", "fieldPath": ".min", "reason": "FieldValueForbidden"})
        ),
        ["spec.min: Forbidden: no"]
    );
}

#[test]
fn optional_old_self_runs_on_create_too() {
    let rule = json!({"rule": "oldSelf.hasValue() || self == 'new'", "optionalOldSelf": true});
    let schema = crd(&json!({"phase": {"type": "string", "x-kubernetes-validations": [rule]}}));
    let (new, done) = (object(&json!({"phase": "new"})), object(&json!({"phase": "done"})));
    assert!(errors(&schema, &new, None).is_empty());
    assert_eq!(
        errors(&schema, &done, None),
        [r#"spec.phase: Invalid value: "string": failed rule: oldSelf.hasValue() || self == 'new'"#]
    );
    assert!(errors(&schema, &done, Some(&new)).is_empty());
}

#[test]
fn rules_are_not_evaluated_while_types_are_wrong() {
    let schema = crd(&json!({
        "n": {"type": "integer"},
        "m": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]}
    }));
    let found = errors(&schema, &object(&json!({"n": "x", "m": 1})), None);
    assert_eq!(found.len(), 2);
    assert!(
        found[1].starts_with("<nil>: Invalid value: null: some validation rules were not checked"),
        "{found:?}"
    );
}

#[test]
fn unchanged_value_may_keep_failing_a_rule() {
    let schema = crd(&json!({
        "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]}, "m": {"type": "integer"}
    }));
    let old = object(&json!({"n": 1, "m": 1}));
    assert!(errors(&schema, &object(&json!({"n": 1, "m": 2})), Some(&old)).is_empty());
    assert_eq!(errors(&schema, &object(&json!({"n": 2, "m": 1})), Some(&old)).len(), 1);
}
