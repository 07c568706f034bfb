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
    json!({"metadata": {"name": "p"}, "spec": {
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
            "/spec/validations/0/messageExpression",
            json!("authorizer.path('/').check('get').reason()"),
            "spec.validations[0].messageExpression: Invalid value: \"authorizer.path('/').check('get').reason()\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer'",
        ),
        (
            "/spec/validations/0/message",
            json!("a\nb"),
            "spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (
            "/spec/validations/0/reason",
            json!("Unauthorized"),
            "spec.validations[0].reason: Unsupported value: \"Unauthorized\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
        ),
        (
            "/spec/variables/0/name",
            json!("if"),
            "spec.variables[0].name: Invalid value: \"if\": must be a valid CEL identifier",
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
    let detail = "Required value: validations or auditAnnotations must contain at least one item";
    assert_eq!(found, [format!("spec.validations: {detail}"), format!("spec.auditAnnotations: {detail}")]);
    let many: Vec<Value> =
        (0..21).map(|index| json!({"key": format!("k{index}"), "valueExpression": "'a'"})).collect();
    let found =
        problems("validatingadmissionpolicies", &with(policy(), "/spec/auditAnnotations", many.into()));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].starts_with(
            "spec.auditAnnotations: Invalid value: [{\"Key\":\"k0\",\"ValueExpression\":\"'a'\"}"
        )
    );
    assert!(found[0].ends_with("]: must not have more than 20 auditAnnotations"), "{found:#?}");
}

#[test]
fn invalid_names_in_policies_are_reported_with_their_fields() {
    for (pointer, value, expected) in [
        (
            "/spec/paramKind",
            json!({"apiVersion": "a/b/c", "kind": "A"}),
            "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        ),
        (
            "/spec/paramKind",
            json!({"apiVersion": "a/", "kind": "A"}),
            "spec.paramKind.apiVersion: Invalid value: \"a/\": version must be specified",
        ),
        (
            "/spec/paramKind",
            json!({"apiVersion": "A/v1", "kind": "A"}),
            "spec.paramKind.apiVersion: Invalid value: \"A\": a lowercase RFC 1123 subdomain must",
        ),
        (
            "/spec/paramKind",
            json!({"apiVersion": "v1", "kind": "1"}),
            "spec.paramKind.kind: Invalid value: \"1\": may have mixed case, but should otherwise match: a DNS-1035 label must",
        ),
        (
            "/spec/matchConstraints/resourceRules/0/resourceNames",
            json!(["a", "a"]),
            "spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: \"a\"",
        ),
        (
            "/spec/matchConstraints/resourceRules/0/resourceNames",
            json!(["a/b"]),
            "spec.matchConstraints.resourceRules[0].resourceNames[0]: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            "/spec/auditAnnotations",
            json!([{"key": "k", "valueExpression": "'a'"}, {"key": "k", "valueExpression": "'b'"}]),
            "spec.auditAnnotations[1].key: Duplicate value: \"k\"",
        ),
        (
            "/spec/auditAnnotations",
            json!([{"key": "k/l", "valueExpression": "'a'"}]),
            "spec.auditAnnotations[0].key: Invalid value: \"p/k/l\": a valid label key must consist of",
        ),
        (
            "/spec/auditAnnotations",
            json!([{"key": "k", "valueExpression": "'".repeat(6000)}]),
            "spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length",
        ),
    ] {
        let found = problems("validatingadmissionpolicies", &with(policy(), pointer, value));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with(expected), "{} does not start with {expected}", found[0]);
    }
}

#[test]
fn policies_that_kubernetes_accepts_are_valid() {
    for (pointer, value) in [
        ("/spec/validations", json!([{"expression": "true ||\nfalse"}])),
        ("/spec/validations", json!([{"expression": "true ||\nfalse", "messageExpression": "'a'"}])),
        (
            "/spec/variables",
            json!([{"name": "a", "expression": "1"}, {"name": "a", "expression": "object.spec"}]),
        ),
        ("/spec/paramKind", json!({"apiVersion": "example.com/v1", "kind": "Limit"})),
        ("/spec/auditAnnotations", json!([{"key": "k", "valueExpression": "null"}])),
    ] {
        let found = problems("validatingadmissionpolicies", &with(policy(), pointer, value));
        assert_eq!(found, Vec::<String>::new(), "{pointer}");
    }
}

#[test]
fn expressions_of_validations_are_shown_with_their_white_space() {
    let found = |pointer: &str, value: Value| {
        problems("validatingadmissionpolicies", &with(policy(), pointer, value)).concat()
    };
    let validation = found("/spec/validations/0/expression", json!("\n  nothing\n"));
    assert!(validation.contains("Invalid value: \"\\n  nothing\\n\": "), "{validation}");
    assert!(validation.contains("ERROR: <input>:2:3: undeclared reference"), "{validation}");
    let condition = found("/spec/matchConditions", json!([{"name": "c", "expression": "\n  nothing\n"}]));
    assert!(condition.contains("Invalid value: \"nothing\": "), "{condition}");
    assert!(condition.contains("ERROR: <input>:1:1: undeclared reference"), "{condition}");
}

#[test]
fn mutating_policies_are_for_creations_and_updates() {
    let rules = |operation: &str| json!([{"operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]);
    let policy = |operation: &str| {
        json!({"spec": {
            "matchConstraints": {"resourceRules": rules(operation)}, "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/a'}]"}}],
        }})
    };
    let binding = |operation: &str| json!({"spec": {"policyName": "p", "matchResources": {"resourceRules": rules(operation)}}});
    for operation in ["*", "CONNECT", "CREATE", "UPDATE"] {
        assert_eq!(problems("mutatingadmissionpolicies", &policy(operation)), Vec::<String>::new());
        assert_eq!(problems("mutatingadmissionpolicybindings", &binding(operation)), Vec::<String>::new());
    }
    let detail = "resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"";
    let found = problems("mutatingadmissionpolicies", &policy("DELETE"));
    assert_eq!(found, [format!("spec.matchConstraints.{detail}")]);
    let found = problems("mutatingadmissionpolicybindings", &binding("DELETE"));
    assert_eq!(found, [format!("spec.matchResources.{detail}")]);
}

#[test]
fn path_of_a_service_may_end_with_a_slash() {
    let found = |service: Value| {
        let object = with(webhooks(), "/webhooks/0/clientConfig", json!({"service": service}));
        problems("validatingwebhookconfigurations", &object)
    };
    let path = |path: &str| found(json!({"name": "a", "namespace": "b", "path": path}));
    for valid in ["", "/", "/validate", "/validate/", "/a/b.c/"] {
        assert_eq!(path(valid), Vec::<String>::new(), "{valid}");
    }
    let at = "webhooks[0].clientConfig.service";
    assert_eq!(path("/a//b"), [format!("{at}.path: Invalid value: \"/a//b\": segment[1] may not be empty")]);
    assert_eq!(path("//"), [format!("{at}.path: Invalid value: \"//\": segment[0] may not be empty")]);
    let upper = path("/A");
    assert!(upper[0].contains(": segment[0]: a lowercase RFC 1123 subdomain must"), "{upper:?}");
    assert_eq!(found(json!({"name": "a"})), [format!("{at}.name: Required value")]);
    assert_eq!(found(json!({"namespace": "a"})), [format!("{at}.namespace: Required value")]);
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
            "/spec/policyName",
            json!("A"),
            "spec.policyName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must",
        ),
        (
            "/spec/paramRef",
            json!({"name": "a/b", "parameterNotFoundAction": "Deny"}),
            "spec.paramRef.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            "/spec/paramRef",
            json!({"name": "a", "parameterNotFoundAction": "No"}),
            "spec.paramRef.parameterNotFoundAction: Unsupported value: \"No\": supported values: \"Deny\", \"Allow\"",
        ),
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
