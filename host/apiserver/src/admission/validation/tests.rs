//! Tests of what is refused, and where.

use serde_json::{Value, json};

use super::validate;
use crate::admission::GROUP;

/// Returns the fields and messages of what is invalid.
fn problems(plural: &str, object: &Value) -> Vec<String> {
    let causes = validate(GROUP, plural, object);
    causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

/// Returns a valid object with one value replaced.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    object.pointer_mut(parent).expect("a parent")[name] = value;
    object
}

fn webhooks() -> Value {
    json!({"webhooks": [{
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:9443/validate"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    }]})
}

fn policy() -> Value {
    json!({"spec": {
        "matchConstraints": {"resourceRules": [{
            "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
        }]},
        "variables": [{"name": "a", "expression": "object.spec"}],
        "validations": [{"expression": "has(variables.a.nodeName)", "message": "m"}],
    }})
}

fn binding() -> Value {
    json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}})
}

#[test]
fn valid_objects_and_other_groups_have_no_problems() {
    for (plural, object) in [
        ("validatingwebhookconfigurations", webhooks()),
        ("mutatingwebhookconfigurations", webhooks()),
        ("validatingadmissionpolicies", policy()),
        ("validatingadmissionpolicybindings", binding()),
    ] {
        assert_eq!(problems(plural, &object), Vec::<String>::new(), "{plural}");
    }
    assert!(validate("apps", "deployments", &json!({})).is_empty());
}

#[test]
fn invalid_webhooks_are_reported_with_their_fields() {
    let path = "/webhooks/0";
    for (pointer, value, expected) in [
        (
            "/name",
            json!("short"),
            "webhooks[0].name: Invalid value: \"short\": should be a domain with at least",
        ),
        ("/sideEffects", json!("Some"), "webhooks[0].sideEffects: Unsupported value: \"Some\""),
        ("/sideEffects", json!(null), "webhooks[0].sideEffects: Required value: must specify one of"),
        ("/timeoutSeconds", json!(31), "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value"),
        (
            "/failurePolicy",
            json!("X"),
            "webhooks[0].failurePolicy: Unsupported value: \"X\": supported values: \"Fail\"",
        ),
        (
            "/admissionReviewVersions",
            json!([]),
            "webhooks[0].admissionReviewVersions: Required value: must specify",
        ),
        (
            "/admissionReviewVersions",
            json!(["v9"]),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v9\"]",
        ),
        (
            "/clientConfig",
            json!({}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service",
        ),
        (
            "/clientConfig/url",
            json!("http://a/b"),
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https'",
        ),
        (
            "/clientConfig/url",
            json!("https://a/b?c"),
            "webhooks[0].clientConfig.url: Invalid value: \"c\": query",
        ),
        ("/rules/0/operations", json!([]), "webhooks[0].rules[0].operations: Required value"),
        (
            "/rules/0/operations",
            json!(["PUT"]),
            "webhooks[0].rules[0].operations[0]: Unsupported value: \"PUT\"",
        ),
        (
            "/rules/0/apiGroups",
            json!(["*", "a"]),
            "webhooks[0].rules[0].apiGroups: Invalid value: [\"*\",\"a\"]: if '*'",
        ),
        (
            "/rules/0/resources",
            json!(["*", "a"]),
            "webhooks[0].rules[0].resources: Invalid value: [\"*\",\"a\"]: if '*'",
        ),
        (
            "/rules/0/resources",
            json!(["a/*", "a/b"]),
            "webhooks[0].rules[0].resources[1]: Invalid value: \"a/b\": if 'a/*'",
        ),
        (
            "/matchConditions",
            json!([{"name": "c", "expression": "params.a"}]),
            "webhooks[0].matchConditions[0].expression: Invalid value: \"params.a\": compilation failed: ERROR: <input>:1:1: undeclared",
        ),
        (
            "/matchConditions",
            json!([{"name": "", "expression": "true"}]),
            "webhooks[0].matchConditions[0].name: Required value",
        ),
    ] {
        let object = with(webhooks(), &format!("{path}{pointer}"), value);
        let found = problems("validatingwebhookconfigurations", &object);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with(expected), "{} does not start with {expected}", found[0]);
    }
}

#[test]
fn names_of_webhooks_are_unique() {
    let mut object = webhooks();
    let webhook = object["webhooks"][0].clone();
    object["webhooks"].as_array_mut().expect("a list").push(webhook);
    let found = problems("validatingwebhookconfigurations", &object);
    assert_eq!(found, ["webhooks[1].name: Duplicate value: \"a.example.com\""]);
}

#[test]
fn invalid_policies_are_reported_with_their_fields() {
    for (pointer, value, expected) in [
        ("/spec/matchConstraints", json!(null), "spec.matchConstraints: Required value"),
        (
            "/spec/matchConstraints/resourceRules",
            json!([]),
            "spec.matchConstraints.resourceRules: Required value",
        ),
        (
            "/spec/validations/0/expression",
            json!(" "),
            "spec.validations[0].expression: Required value: expression is",
        ),
        (
            "/spec/validations/0/expression",
            json!("object.("),
            "spec.validations[0].expression: Invalid value: \"object.(\"",
        ),
        (
            "/spec/validations/0/expression",
            json!("authorizer.path('/').nothing()"),
            "spec.validations[0].expression: Invalid value: \"authorizer",
        ),
        (
            "/spec/validations/0/message",
            json!("a\nb"),
            "spec.validations[0].message: Invalid value: \"a\\nb\": message",
        ),
        ("/spec/validations/0/reason", json!("No"), "spec.validations[0].reason: Unsupported value: \"No\""),
        (
            "/spec/variables/0/name",
            json!("if"),
            "spec.variables[0].name: Invalid value: \"if\": name is not a valid",
        ),
        ("/spec/paramKind", json!({"kind": "A"}), "spec.paramKind.apiVersion: Required value"),
    ] {
        let found = problems("validatingadmissionpolicies", &with(policy(), pointer, value));
        // The validation uses the variable by its name before.
        let count = if pointer == "/spec/variables/0/name" { 2 } else { 1 };
        assert_eq!(found.len(), count, "{found:#?}");
        assert!(found[0].starts_with(expected), "{} does not start with {expected}", found[0]);
    }
    let found = problems("validatingadmissionpolicies", &with(policy(), "/spec/validations", json!([])));
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn invalid_bindings_are_reported_with_their_fields() {
    for (pointer, value, expected) in [
        ("/spec/policyName", json!(""), "spec.policyName: Required value"),
        ("/spec/validationActions", json!([]), "spec.validationActions: Required value: at least one"),
        (
            "/spec/validationActions",
            json!(["Deny", "Warn"]),
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]",
        ),
        (
            "/spec/validationActions",
            json!(["Deny", "Deny"]),
            "spec.validationActions[1]: Duplicate value: \"Deny\"",
        ),
        ("/spec/validationActions", json!(["No"]), "spec.validationActions[0]: Unsupported value: \"No\""),
        (
            "/spec/paramRef",
            json!({"parameterNotFoundAction": "Deny"}),
            "spec.paramRef: Required value: one of name or selector",
        ),
        ("/spec/paramRef", json!({"name": "a"}), "spec.paramRef.parameterNotFoundAction: Required value"),
    ] {
        let found = problems("validatingadmissionpolicybindings", &with(binding(), pointer, value));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with(expected), "{} does not start with {expected}", found[0]);
    }
}
