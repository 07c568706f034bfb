//! Tests of the checks of CEL rules and defaults when their CRD is written.

use serde_json::{Value, json};

use crate::schema::Schema;

/// Returns field and message of each error of a CRD whose root has these members.
fn errors(members: &Value) -> Vec<String> {
    let mut schema = json!({"type": "object"});
    for (name, value) in members.as_object().expect("an object") {
        schema[name] = value.clone();
    }
    let errors = Schema::from_crd(&schema).err().unwrap_or_default();
    errors.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

/// Returns the first lines of the errors of a rule for `spec`, without the fields around them.
fn rule_errors(rule: &Value) -> Vec<String> {
    let spec = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"}, "class-name": {"type": "string"}, "at": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true}, "free": {"x-kubernetes-preserve-unknown-fields": true},
            "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "number"}}}}
        },
        "x-kubernetes-validations": [rule]
    });
    let first_line = |error: String| {
        let error = error.replace("properties[spec].x-kubernetes-validations[0].", "");
        let (field, detail) = error.split_once(": Invalid value: {").expect("a rule");
        let detail = detail.split_once("}: ").expect("a detail").1;
        format!("{field}: {}", detail.lines().next().expect("a line"))
    };
    errors(&json!({"properties": {"spec": spec}})).into_iter().map(first_line).collect()
}

#[test]
fn types_of_rules_follow_the_schema() {
    for rule in [
        "self.name == 'x' && self.class__dash__name != ''",
        "self.at < timestamp('2024-01-01T00:00:00Z')",
        "self.port == 1 || self.port == 'http'",
        "self.limits.all(name, self.limits[name] > 1) && self.limits.cpu > 1",
        "self.template.metadata.name == self.template.kind",
        "self.list.all(item, item.a > 1.5 && item.a > 1)",
        "has(self.list) && self.list == oldSelf.list",
    ] {
        assert_eq!(rule_errors(&json!({"rule": rule})), [""; 0], "{rule}");
    }
    for (rule, expected) in [
        ("self.name > 1", "1:11: found no matching overload for '_>_' applied to '(string, int)'"),
        ("self.nam == 'x'", "1:5: undefined field 'nam'"),
        ("self.free == 1", "1:5: undefined field 'free'"),
        ("self.at == 'x'", "1:9: found no matching overload for '_==_' applied to '(timestamp, string)'"),
        ("self.limits.cpu == '1'", "1:17: found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.template.spec == 1", "1:14: undefined field 'spec'"),
        ("self.list.all(item, item.b == 1)", "1:25: undefined field 'b'"),
        (
            "self.list[0] == self",
            "1:14: found no matching overload for '_==_' applied to '(selfType.list.@idx, selfType)'",
        ),
        ("other == 1", "1:1: undeclared reference to 'other' (in container '')"),
    ] {
        let expected = format!("rule: compilation failed: ERROR: <input>:{expected}");
        assert_eq!(rule_errors(&json!({"rule": rule})), [expected], "{rule}");
    }
}

#[test]
fn rules_are_booleans_and_message_expressions_are_texts() {
    assert_eq!(rule_errors(&json!({"rule": "self.name"})), ["rule: cel expression must evaluate to a bool"]);
    assert_eq!(rule_errors(&json!({"rule": "self.port"})), ["rule: cel expression must evaluate to a bool"]);
    assert_eq!(
        rule_errors(&json!({"rule": "true", "messageExpression": "1"})),
        ["messageExpression: messageExpression must evaluate to a string"]
    );
    assert_eq!(
        rule_errors(&json!({"rule": "true", "messageExpression": "self.nam"})),
        [
            "messageExpression: messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'nam'"
        ]
    );
    assert_eq!(
        rule_errors(&json!({"rule": "oldSelf.hasValue() || self.name == ''", "optionalOldSelf": true})),
        [""; 0]
    );
    let shown = errors(&json!({"x-kubernetes-validations": [
        {"rule": "self < 1", "message": "m", "reason": "FieldValueForbidden", "optionalOldSelf": false}
    ]}));
    let expected = r#"x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self \u003c 1","Message":"m","MessageExpression":"","Reason":"FieldValueForbidden","FieldPath":"","OptionalOldSelf":false}: compilation failed: ERROR: <input>:1:6: found no matching overload for '_<_' applied to '(selfType, int)'"#;
    assert_eq!(shown.len(), 1);
    assert!(shown[0].starts_with(expected), "{}", shown[0]);
}

#[test]
fn texts_of_rules_are_checked() {
    let of_rule = |rule: Value| errors(&json!({"x-kubernetes-validations": [rule]}));
    let at = "x-kubernetes-validations[0]";
    for (rule, expected) in [
        (json!({"rule": " "}), format!("{at}.rule: Required value: rule is not specified")),
        (
            json!({"rule": "true ||\nfalse"}),
            format!("{at}.message: Required value: message must be specified if rule contains line breaks"),
        ),
        (
            json!({"rule": "true", "message": "a\nb"}),
            format!("{at}.message: Invalid value: \"a\\nb\": must not contain line breaks"),
        ),
        (
            json!({"rule": "true", "reason": "Other"}),
            format!(
                "{at}.reason: Unsupported value: \"Other\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\""
            ),
        ),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            format!(
                "{at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
            ),
        ),
    ] {
        assert_eq!(of_rule(rule), [expected]);
    }
}

#[test]
fn transition_rules_need_values_that_have_old_ones() {
    let list = |list_type: &str| {
        json!({"properties": {"list": {
            "type": "array", "x-kubernetes-list-type": list_type,
            "x-kubernetes-list-map-keys": if list_type == "map" { json!(["name"]) } else { json!([]) },
            "items": {
                "type": "object", "x-kubernetes-map-type": "atomic", "required": ["name"], "properties": {"name": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": "self == oldSelf"}]
            }
        }}})
    };
    assert_eq!(errors(&list("map")), [""; 0]);
    let expected = "properties[list].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be \
                    used on the uncorrelatable portion of the schema within properties[list]";
    assert_eq!(errors(&list("atomic")), [expected]);
    assert_eq!(errors(&list("set")), [expected]);
}

#[test]
fn defaults_are_validated_by_their_schema() {
    let of_property = |schema: Value| errors(&json!({"properties": {"a": schema}}));
    for (schema, expected) in [
        (
            json!({"type": "string", "default": 1}),
            r#"properties[a].default: Invalid value: "integer":  in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "string", "enum": ["x"], "default": "y"}),
            r#"properties[a].default: Unsupported value: "y": supported values: "x""#,
        ),
        (
            json!({"type": "integer", "minimum": 3, "default": 1}),
            "properties[a].default: Invalid value: 1:  in body should be greater than or equal to 3",
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "integer"}}, "default": {"b": "x"}}),
            r#"properties[a].default.b: Invalid value: "string": b in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"], "default": {}}),
            "properties[a].default.b: Required value",
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "integer"}}, "default": {"c": 1}}),
            r#"properties[a].default: Invalid value: {"c":1}: must not have unknown fields"#,
        ),
        (
            json!({"type": "array", "items": {"type": "string", "default": 2}}),
            r#"properties[a].items.default: Invalid value: "integer":  in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1", "message": "too small"}]}),
            "properties[a].default: Invalid value: 1: too small",
        ),
    ] {
        assert_eq!(of_property(schema), [expected]);
    }
    for schema in [
        json!({"type": "string", "default": "x", "pattern": "^x"}),
        json!({"x-kubernetes-int-or-string": true, "default": "25%"}),
        json!({"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 3}}}),
        json!({"type": "object", "default": {"x": 1}, "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "integer", "default": 2, "x-kubernetes-validations": [{"rule": "self > 1 && self == oldSelf"}]}),
        json!({"type": "string", "nullable": true, "default": null}),
    ] {
        assert_eq!(of_property(schema.clone()), [""; 0], "{schema}");
    }
}
