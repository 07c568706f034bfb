//! Validation of ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings.

use std::collections::BTreeSet;

use pilothouse_cel::check::Type;
use serde_json::Value;

use super::shared::{Checker, items, trimmed};
use super::{annotations, params};
use crate::admission::environment::{Environment, ResultType};
use crate::schema::{field, subdomain_errors};

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// Words that CEL reserves.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The operations that a rule of a MutatingAdmissionPolicy can have.
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

pub(super) fn validate_policy(checker: &mut Checker, policy: &Value) {
    let spec = &policy["spec"];
    let environment = validate_common(checker, spec);
    let (validations, annotations) = (items(&spec["validations"]), items(&spec["auditAnnotations"]));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        checker.add(field::required("spec.validations", detail));
        checker.add(field::required("spec.auditAnnotations", detail));
    }
    for (index, validation) in validations.iter().enumerate() {
        validate_validation(checker, &field::index("spec.validations", index), validation, &environment);
    }
    annotations::validate(checker, policy, &environment);
}

pub(super) fn validate_mutating_policy(checker: &mut Checker, spec: &Value) {
    let environment = validate_common(checker, spec).constructing();
    validate_mutating_operations(checker, "spec.matchConstraints", &spec["matchConstraints"]);
    let mutations = items(&spec["mutations"]);
    if mutations.is_empty() {
        checker.add(field::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        validate_mutation(checker, &field::index("spec.mutations", index), mutation, &environment);
    }
    let policy = &spec["reinvocationPolicy"];
    if checker.required("spec.reinvocationPolicy", policy, "") {
        checker.one_of("spec.reinvocationPolicy", policy, &["IfNeeded", "Never"]);
    }
}

/// Checks that the rules of a MutatingAdmissionPolicy or its binding are for writes that it can change.
fn validate_mutating_operations(checker: &mut Checker, path: &str, resources: &Value) {
    let path = field::child(path, "resourceRules.operations");
    for operation in items(&resources["resourceRules"]).iter().flat_map(|rule| items(&rule["operations"])) {
        checker.one_of(&path, operation, &MUTATING_OPERATIONS);
    }
}

fn validate_mutation(checker: &mut Checker, path: &str, mutation: &Value, environment: &Environment) {
    let forms = [
        ("JSONPatch", "jsonPatch", ResultType::Patch),
        ("ApplyConfiguration", "applyConfiguration", ResultType::Object),
    ];
    let patch_type = field::child(path, "patchType");
    if !checker.required(&patch_type, &mutation["patchType"], "") {
        return;
    }
    if !forms.iter().any(|(name, ..)| mutation["patchType"] == *name) {
        checker.one_of(&patch_type, &mutation["patchType"], &["ApplyConfiguration", "JSONPatch"]);
        return;
    }
    let name = mutation["patchType"].as_str().unwrap_or_default();
    let (own, other): (Vec<_>, Vec<_>) = forms.into_iter().partition(|(of, ..)| *of == name);
    for (of, member, result) in own.into_iter().chain(other) {
        let at = field::child(path, member);
        match (of == name, mutation.get(member).filter(|form| form.is_object())) {
            (true, None) => {
                checker.add(field::required(&at, &format!("must be specified when patchType is {name}")));
            }
            (true, Some(form)) => {
                let at = field::child(&at, "expression");
                if checker.required(&at, &form["expression"], "") {
                    checker.expression(&at, &trimmed(&form["expression"]), (environment, result));
                }
            }
            (false, Some(_)) => {
                let detail = format!("must not be specified when patchType is {name}");
                checker.add(field::invalid(&at, &format!("{{{member}}}").into(), &detail));
            }
            (false, None) => {}
        }
    }
}

/// Checks what both kinds of policies have. Returns what their expressions can refer to.
fn validate_common(checker: &mut Checker, spec: &Value) -> Environment {
    checker.one_of("spec.failurePolicy", &spec["failurePolicy"], &["Fail", "Ignore"]);
    if let Some(kind) = spec.get("paramKind").filter(|kind| kind.is_object()) {
        params::validate_kind(checker, kind);
    }
    let constraints = &spec["matchConstraints"];
    if constraints.is_null() {
        checker.add(field::required("spec.matchConstraints", ""));
    } else {
        validate_match_resources(checker, "spec.matchConstraints", constraints);
        if items(&constraints["resourceRules"]).is_empty() {
            checker.add(field::required("spec.matchConstraints.resourceRules", ""));
        }
    }
    let of_conditions = Environment::of_conditions(spec["paramKind"].is_object());
    checker.conditions("spec.matchConditions", &spec["matchConditions"], &of_conditions);
    let mut environment = Environment::of_policy(spec);
    validate_variables(checker, &spec["variables"], &mut environment);
    environment
}

fn validate_match_resources(checker: &mut Checker, path: &str, resources: &Value) {
    let at = |name: &str| field::child(path, name);
    checker.one_of(&at("matchPolicy"), &resources["matchPolicy"], &["Equivalent", "Exact"]);
    checker.selector(&at("namespaceSelector"), &resources["namespaceSelector"]);
    checker.selector(&at("objectSelector"), &resources["objectSelector"]);
    checker.named_rules(&at("resourceRules"), &resources["resourceRules"]);
    checker.named_rules(&at("excludeResourceRules"), &resources["excludeResourceRules"]);
}

/// Checks the variables, each of which may use those before it.
fn validate_variables(checker: &mut Checker, variables: &Value, environment: &mut Environment) {
    for (index, variable) in items(variables).iter().enumerate() {
        let path = field::index("spec.variables", index);
        let name_path = field::child(&path, "name");
        if checker.required(&name_path, &variable["name"], "name is not specified") {
            let name = variable["name"].as_str().unwrap_or_default();
            if !is_identifier(name) {
                let detail = "must be a valid CEL identifier";
                checker.add(field::invalid(&name_path, &variable["name"], detail));
            }
        }
        let expression = field::child(&path, "expression");
        if checker.required(&expression, &variable["expression"], "expression is not specified") {
            let ty =
                checker.expression(&expression, &variable["expression"], (&*environment, ResultType::Any));
            environment.declare(variable["name"].as_str().unwrap_or_default(), ty.unwrap_or(Type::Dyn));
        }
    }
}

fn is_identifier(name: &str) -> bool {
    name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !RESERVED.contains(&name)
}

fn validate_validation(checker: &mut Checker, path: &str, validation: &Value, environment: &Environment) {
    let expression = field::child(path, "expression");
    if checker.required(&expression, &validation["expression"], "expression is not specified") {
        checker.expression(&expression, &validation["expression"], (environment, ResultType::Bool));
    }
    if let Some(text) = validation["messageExpression"].as_str().filter(|text| !text.is_empty()) {
        let path = field::child(path, "messageExpression");
        if text.trim().is_empty() {
            let detail = "must be non-empty if specified";
            checker.add(field::invalid(&path, &validation["messageExpression"], detail));
        } else {
            let environment = environment.without_authorizer();
            let expected = (&environment, ResultType::Text);
            checker.expression(&path, &validation["messageExpression"], expected);
        }
    }
    if let Some(text) = validation["message"].as_str().filter(|text| !text.is_empty()) {
        let path = field::child(path, "message");
        if text.trim().is_empty() {
            let detail = "must be non-empty if specified";
            checker.add(field::invalid(&path, &validation["message"], detail));
        } else if text.trim().contains(['\n', '\r']) {
            checker.add(field::invalid(&path, &validation["message"], "must not contain line breaks"));
        }
    }
    checker.one_of(&field::child(path, "reason"), &validation["reason"], &REASONS);
}

pub(super) fn validate_binding(checker: &mut Checker, spec: &Value) {
    if checker.required("spec.policyName", &spec["policyName"], "") {
        checker.name("spec.policyName", &spec["policyName"], subdomain_errors);
    }
    if let Some(reference) = spec.get("paramRef").filter(|reference| reference.is_object()) {
        params::validate_reference(checker, reference);
    }
    if let Some(resources) = spec.get("matchResources").filter(|resources| resources.is_object()) {
        validate_match_resources(checker, "spec.matchResources", resources);
    }
}

/// Checks the binding of a MutatingAdmissionPolicy.
pub(super) fn validate_mutating_binding(checker: &mut Checker, spec: &Value) {
    validate_binding(checker, spec);
    validate_mutating_operations(checker, "spec.matchResources", &spec["matchResources"]);
}

/// Checks the actions of the binding of a ValidatingAdmissionPolicy.
pub(super) fn validate_actions(checker: &mut Checker, spec: &Value) {
    let actions = items(&spec["validationActions"]);
    if actions.is_empty() {
        checker.add(field::required("spec.validationActions", "at least one validation action is required"));
    }
    let mut known = BTreeSet::new();
    for (index, action) in actions.iter().enumerate() {
        let path = field::index("spec.validationActions", index);
        checker.one_of(&path, action, &["Audit", "Deny", "Warn"]);
        if !known.insert(action.as_str()) {
            checker.add(field::duplicate(&path, action));
        }
    }
    if ["Deny", "Warn"].iter().all(|name| actions.iter().any(|action| action == name)) {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        checker.add(field::invalid("spec.validationActions", &spec["validationActions"], detail));
    }
}
