//! Tests of CEL rules.

use serde_json::{Map, Value, json};

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
            r#"spec.class: Invalid value: "b": class is immutable"#,
            "spec.ports[0]: Invalid value: ports only grow"
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
        ["spec: Invalid value: failed rule: self.min <= self.max"]
    );
    assert_eq!(
        rule(json!({"rule": "self.min <= self.max", "messageExpression": "'min ' + string(self.min)"})),
        ["spec: Invalid value: min 2"]
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
        [r#"spec.phase: Invalid value: "done": failed rule: oldSelf.hasValue() || self == 'new'"#]
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
fn rules_are_not_evaluated_while_a_value_is_not_in_its_enum_but_are_beside_errors_of_one_of() {
    let rules = json!([{"rule": "self.m > 5"}]);
    let schema = |extra: Value| {
        let mut spec = json!({
            "type": "object", "x-kubernetes-validations": rules,
            "properties": {"m": {"type": "integer"}, "e": {"type": "string", "enum": ["a"]}}
        });
        for (name, value) in extra.as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        Schema::from_crd(&json!({"type": "object", "properties": {"spec": spec}})).expect("structural")
    };
    let found = errors(&schema(json!({})), &object(&json!({"m": 1, "e": "b"})), None);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("some validation rules were not checked"), "{found:?}");
    let one_of = json!({"oneOf": [{"required": ["m"]}, {"required": ["e"]}]});
    let found = errors(&schema(one_of), &object(&json!({"m": 1, "e": "a"})), None);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("Found 2 valid alternatives"), "{found:?}");
    assert!(found[1].ends_with("failed rule: self.m > 5"), "{found:?}");
}

#[test]
fn runtime_errors_of_rules_have_the_texts_of_kubernetes() {
    let found = |rule: &str| {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-validations": [{"rule": rule}],
            "properties": {
                "n": {"type": "integer"}, "missing": {"type": "integer"},
                "list": {"type": "array", "items": {"type": "integer"}},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "any": {"x-kubernetes-int-or-string": true}
            }
        }}});
        let schema = Schema::from_crd(&schema).expect("structural");
        errors(&schema, &object(&json!({"list": [1], "map": {"a": 1}, "n": 0, "any": "x"})), None)
    };
    let text = |problem: &str, rule: &str| {
        [format!("spec: Invalid value: \"object\": {problem} evaluating rule: {rule}")]
    };
    for (rule, problem) in [
        ("self.missing == 1", "no such key: missing"),
        ("self.map['b'] == 1", "no such key: b"),
        ("self.list[3] == 1", "index out of bounds: 3"),
        ("1 / self.n == 1", "division by zero"),
        ("1 % self.n == 1", "modulus by zero"),
        ("9223372036854775807 + self.list[0] == 1", "integer overflow"),
    ] {
        assert_eq!(found(rule), text(problem, rule));
    }
    assert_eq!(
        found("self.any + 1 == 1"),
        [
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, \
          function or macro signature for rule: self.any + 1 == 1"
        ]
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

/// Returns the errors of an object whose `spec` has these rules. Its members have the types of their values; `gone` is an integer.
fn errors_of_rules(rules: &[String], spec: &Value) -> Vec<String> {
    let rules: Vec<_> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    let schema_of = |value: &Value| match value {
        Value::String(_) => json!({"type": "string"}),
        Value::Array(_) => json!({"type": "array", "items": {"type": "string"}}),
        _ => json!({"type": "integer"}),
    };
    let members = spec.as_object().into_iter().flatten();
    let mut properties: Map<String, Value> =
        members.map(|(name, value)| (name.clone(), schema_of(value))).collect();
    properties.insert("gone".into(), json!({"type": "integer"}));
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "x-kubernetes-validations": rules, "properties": properties
    }}});
    errors(&Schema::from_crd(&schema).expect("structural"), &object(spec), None)
}

fn nested_all(levels: usize) -> String {
    let head: String = (0..levels).map(|level| format!("[0,1,2,3,4,5,6,7,8,9].all(v{level}, ")).collect();
    head + "true" + &")".repeat(levels)
}

#[test]
fn rules_over_the_cost_limit_are_stopped_with_the_error_of_kubernetes() {
    let long = "'0123456789'.replace('', '0123456789').replace('', '0123456789').replace('', '0123456789')";
    for rule in [
        nested_all(9),
        format!("['0123456789']{} == []", ".map(x, x + x)".repeat(28)),
        format!("[1]{nested} == [1]{nested}", nested = ".map(x, [x, x])".repeat(28)),
        format!("{long}.split('').all(x, self.text.contains(x) || {long} != '')"),
        format!("{long}.split('').all(x, x != self.text + {long})"),
    ] {
        assert_eq!(
            errors_of_rules(&[rule.clone(), "false".to_owned()], &json!({"text": "a"})),
            [format!(
                "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation \
                 rules will be run due to call cost exceeds limit for rule: {rule}"
            )]
        );
    }
}

#[test]
fn all_rules_of_an_object_share_one_cost_limit() {
    let rules = vec![nested_all(4); 300];
    let found = errors_of_rules(&rules, &json!({}));
    assert_eq!(
        found,
        [
            "spec: Invalid value: \"object\": validation failed due to running out of cost budget, no further validation rules \
          will be run"
        ]
    );
    assert_eq!(errors_of_rules(&rules[..2], &json!({})), Vec::<String>::new());
}

/// The rules of items share the limit, too, and each item costs little.
#[test]
fn rules_of_many_items_share_the_cost_limit() {
    let schema = crd(&json!({"list": {"type": "array", "items": {
        "type": "string", "x-kubernetes-validations": [{"rule": nested_all(3)}]
    }}}));
    let items = |count: usize| object(&json!({"list": vec!["a"; count]}));
    assert_eq!(errors(&schema, &items(10), None), Vec::<String>::new());
    let found = errors(&schema, &items(20_000), None);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("running out of cost budget"), "{found:?}");
}

/// A false rule costs one unit, and its failure has the whole text of the rule.
#[test]
fn failures_of_many_items_share_the_cost_limit() {
    let rule = format!("false // {}", "comment".repeat(1000));
    let schema = crd(&json!({"list": {"type": "array", "items": {
        "type": "integer", "x-kubernetes-validations": [{"rule": rule}]
    }}}));
    let items = |count: usize| object(&json!({"list": vec![1; count]}));
    assert_eq!(errors(&schema, &items(10), None).len(), 10);
    let found = errors(&schema, &items(100_000), None);
    let last = found.last().expect("failures");
    assert!(last.contains("running out of cost budget"), "{last}");
    assert!(found.iter().map(String::len).sum::<usize>() < 10_100_000, "{} failures", found.len());
}

#[test]
fn a_costly_or_long_message_expression_is_replaced_with_the_message() {
    let doubled = ".replace('', '0123456789')".repeat(28);
    let long = "'0'".to_owned() + &".replace('', '0123456789')".repeat(4);
    for expression in [format!("'0'{doubled}"), long, format!("{} ? 'a' : 'b'", nested_all(9))] {
        let rule = json!({"rule": "self != 'a'", "message": "not a", "messageExpression": expression});
        let schema = crd(&json!({"name": {"type": "string", "x-kubernetes-validations": [rule]}}));
        assert_eq!(
            errors(&schema, &object(&json!({"name": "a"})), None),
            [r#"spec.name: Invalid value: "a": not a"#]
        );
    }
}

#[test]
fn functions_in_namespaces_and_field_names_with_underscores_work_in_rules() {
    let holds = |rule: &str, spec: &Value| errors_of_rules(&[rule.to_owned()], spec).is_empty();
    let spec = json!({"max_surge": 3, "x-y": "b", "list": ["a", "b"], "in": 1});
    for rule in [
        "self.max_surge == 3",
        "self.x__dash__y == 'b'",
        "self.__in__ == 1",
        "sets.contains(self.list, [self.x__dash__y])",
        "format.dns1123Label().validate(self.x__dash__y) == optional.none()",
        "quantity('1Gi').isGreaterThan(quantity('1Mi')) && isURL('https://example.com')",
    ] {
        assert!(holds(rule, &spec), "{rule}: {:?}", errors_of_rules(&[rule.to_owned()], &spec));
    }
    assert_eq!(
        errors_of_rules(&["self.gone == 1".to_owned()], &spec),
        [r#"spec: Invalid value: "object": no such key: gone evaluating rule: self.gone == 1"#]
    );
}

#[test]
fn rules_read_optional_fields_and_use_macros_of_two_variables() {
    let schema = |rule: &str| {
        crd(&json!({"inner": {
            "type": "object", "properties": {"port": {"type": "integer"}, "namespace": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": rule}]
        }}))
    };
    let holds =
        |rule: &str, inner: Value| errors(&schema(rule), &object(&json!({"inner": inner})), None).is_empty();
    for rule in [
        "self.?port.orValue(80) == 80",
        "self.?port.optMap(port, port > 79).orValue(true)",
        "self.?namespace.hasValue() == has(self.namespace)",
        "[?self.?port].all(i, port, i == 0 && port == 80)",
    ] {
        assert!(holds(rule, json!({"port": 80})) && holds(rule, json!({})), "{rule}");
        assert!(!holds(rule, json!({"port": 8, "namespace": "a"})) || rule.contains("namespace"), "{rule}");
    }
}

#[test]
fn fields_named_like_keywords_can_be_selected_by_either_name() {
    let rule = "self.items.all(i, !has(i.namespace) || i.namespace == i.__namespace__) && self.package == 'p' \
                && !has(self.labels.package) && self.labels.namespace == 'n'";
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "x-kubernetes-validations": [{"rule": rule}],
        "properties": {
            "package": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "items": {"type": "array", "items": {"type": "object", "properties": {"namespace": {"type": "string"}}}}
        }
    }}});
    let schema = Schema::from_crd(&schema).expect("the checker knows the fields");
    let spec = |package: &str| {
        object(&json!({
            "package": package, "items": [{"namespace": "a"}, {}], "labels": {"namespace": "n", "__package__": "x"}
        }))
    };
    assert_eq!(errors(&schema, &spec("p"), None), Vec::<String>::new());
    assert_eq!(errors(&schema, &spec("q"), None).len(), 1);
}

#[test]
fn values_have_the_types_of_their_format() {
    let schema = crd(&json!({
        "at": {"type": "string", "format": "date-time", "x-kubernetes-validations": [{"rule": "self.getFullYear() == 2026"}]},
        "wait": {"type": "string", "format": "duration", "x-kubernetes-validations": [{"rule": "self < duration('1h')"}]},
        "data": {"type": "string", "format": "byte", "x-kubernetes-validations": [{"rule": "self.size() == 3"}]},
        "port": {"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [{"rule": "self == 'http' || self == 80"}]},
    }));
    let valid = json!({"at": "2026-01-01T00:00:00Z", "wait": "30m", "data": "YWJj", "port": 80});
    assert_eq!(errors(&schema, &object(&valid), None), Vec::<String>::new());
}

#[test]
fn whole_numbers_of_type_number_are_doubles() {
    let schema = crd(&json!({"share": {
        "type": "object",
        "properties": {
            "a": {"type": "number"}, "b": {"type": "number"}, "n": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "number"}}
        },
        "x-kubernetes-validations": [
            {"rule": "self.a + self.b <= 1.5"}, {"rule": "self.a / 2.0 == 0.5"}, {"rule": "self.n / 2 == 1"},
            {"rule": "self.list.all(x, x * 0.5 < 2.0)"}
        ]
    }}));
    let share = json!({"a": 1, "b": 0.5, "n": 3, "list": [1, 2.5]});
    assert_eq!(errors(&schema, &object(&json!({"share": share})), None), Vec::<String>::new());
}

/// A rule above and a rule below read the same converted value.
#[test]
fn rules_at_several_levels_read_the_members_of_one_value() {
    let rule = |text: &str| json!([{"rule": text}]);
    let schema = crd(&json!({"groups": {
        "type": "object", "x-kubernetes-validations": rule("self.all(k, self[k].size() == 2)"),
        "additionalProperties": {
            "type": "array", "x-kubernetes-validations": rule("self[0].a_b == 1"),
            "items": {
                "type": "object", "properties": {"a_b": {"type": "integer"}},
                "x-kubernetes-validations": rule("self.a_b < 3")
            }
        }
    }}));
    let spec = |last: u32| json!({"groups": {"x-y": [{"a_b": 1}, {"a_b": last}]}});
    assert_eq!(errors(&schema, &object(&spec(2)), None), Vec::<String>::new());
    assert_eq!(
        errors(&schema, &object(&spec(3)), None),
        ["spec.groups[x-y][1]: Invalid value: failed rule: self.a_b < 3"]
    );
}

/// Lists whose items have keys or are unique are checked in linear time. These would take minutes if each item was compared with each other.
#[test]
fn large_lists_with_keys_and_large_sets_are_checked() {
    let schema = crd(&json!({
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size"}]
            }
        }
    }));
    let spec = |size: usize| {
        let names = (0..100_000).map(|number| format!("item-{number}"));
        let items: Vec<_> = names.clone().map(|name| json!({"name": name, "size": size})).collect();
        let mut spec = json!({"set": names.collect::<Vec<_>>(), "map": items});
        spec["map"][99_999]["size"] = 1.into();
        object(&spec)
    };
    assert_eq!(
        errors(&schema, &spec(2), Some(&spec(1))),
        Vec::<String>::new(),
        "each item costs a few units of the limit"
    );
    let found = errors(&schema, &spec(1), Some(&spec(2)));
    assert_eq!(found.len(), 99_999);
    let mut duplicate = spec(1);
    duplicate["spec"]["set"][1] = "item-0".into();
    assert_eq!(errors(&schema, &duplicate, None), [r#"spec.set[1]: Duplicate value: "item-0""#]);
}

#[test]
fn an_unchanged_value_may_fail_all_rules_but_transition_rules() {
    let schema = crd(&json!({
        "size": {"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [
            {"rule": "self.n > 0", "message": "too small"}]},
        "color": {"type": "string", "x-kubernetes-validations": [
            {"rule": "oldSelf == '' && self == oldSelf", "message": "frozen"}]},
        "other": {"type": "string"},
    }));
    let old = object(&json!({"size": {"n": 0}, "color": "red", "other": "a"}));
    let mut new = old.clone();
    new["spec"]["other"] = json!("b");
    let mut tolerated = Vec::new();
    let causes = schema.validate_with(&new, Some(&old), Vec::new(), &mut tolerated);
    let messages = |causes: &[crate::status::Cause]| {
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>()
    };
    assert_eq!(messages(&causes), [r#"spec.color: Invalid value: "red": frozen"#]);
    assert_eq!(messages(&tolerated), ["spec.size: Invalid value: too small"]);
    new["spec"]["size"]["n"] = json!(-1);
    assert_eq!(
        errors(&schema, &new, Some(&old)),
        [r#"spec.color: Invalid value: "red": frozen"#, "spec.size: Invalid value: too small"],
        "the object with the rule has changed"
    );
}
