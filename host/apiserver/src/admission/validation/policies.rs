//! Validation of ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings.

use std::collections::BTreeSet;

use pilothouse_cel::check::Type;
use pilothouse_model::names::{is_dns_1035_label, is_dns_subdomain};
use serde_json::Value;

use super::shared::{Checker, items};
use crate::admission::environment::{Environment, ResultType};
use crate::schema::field;

const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

/// Words that CEL reserves.
const RESERVED: [&str; 19] = [
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
];

/// The operations that a MutatingAdmissionPolicy can be for.
const MUTATING_OPERATIONS: [&str; 2] = ["CREATE", "UPDATE"];

pub(super) fn validate_policy(checker: &mut Checker, spec: &Value) {
    let environment = validate_common(checker, spec);
    let (validations, annotations) = (items(&spec["validations"]), items(&spec["auditAnnotations"]));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must be non-empty; at least one must be specified";
        checker.add(field::required("spec.validations", detail));
        checker.add(field::required("spec.auditAnnotations", detail));
    }
    for (index, validation) in validations.iter().enumerate() {
        validate_validation(checker, &field::index("spec.validations", index), validation, &environment);
    }
    for (index, annotation) in annotations.iter().enumerate() {
        let path = field::index("spec.auditAnnotations", index);
        checker.required(&field::child(&path, "key"), &annotation["key"], "");
        let expression = field::child(&path, "valueExpression");
        if checker.required(&expression, &annotation["valueExpression"], "valueExpression is not specified") {
            let expected = (&environment, ResultType::Annotation);
            checker.expression(&expression, &annotation["valueExpression"], expected);
        }
    }
}

pub(super) fn validate_mutating_policy(checker: &mut Checker, spec: &Value) {
    let environment = validate_common(checker, spec).constructing();
    let rules = items(&spec["matchConstraints"]["resourceRules"]);
    for operation in rules.iter().flat_map(|rule| items(&rule["operations"])) {
        let path = "spec.matchConstraints.resourceRules.operations";
        checker.one_of(path, operation, &MUTATING_OPERATIONS);
    }
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
    for (of, member, result) in forms {
        let at = field::child(path, member);
        match (of == name, mutation.get(member).filter(|form| form.is_object())) {
            (true, None) => {
                checker.add(field::required(&at, &format!("must be specified when patchType is {name}")));
            }
            (true, Some(form)) => {
                let at = field::child(&at, "expression");
                if checker.required(&at, &form["expression"], "") {
                    checker.expression(&at, &form["expression"], (environment, result));
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
        validate_param_kind(checker, kind);
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

fn validate_param_kind(checker: &mut Checker, kind: &Value) {
    checker.required("spec.paramKind.apiVersion", &kind["apiVersion"], "");
    if checker.required("spec.paramKind.kind", &kind["kind"], "") {
        let name = kind["kind"].as_str().unwrap_or_default();
        if !is_dns_1035_label(&name.to_lowercase()) {
            let detail = "may have mixed case, but should otherwise match a DNS-1035 label";
            checker.add(field::invalid("spec.paramKind.kind", &kind["kind"], detail));
        }
    }
}

fn validate_match_resources(checker: &mut Checker, path: &str, resources: &Value) {
    let at = |name: &str| field::child(path, name);
    checker.one_of(&at("matchPolicy"), &resources["matchPolicy"], &["Equivalent", "Exact"]);
    checker.selector(&at("namespaceSelector"), &resources["namespaceSelector"]);
    checker.selector(&at("objectSelector"), &resources["objectSelector"]);
    checker.rules(&at("resourceRules"), &resources["resourceRules"]);
    checker.rules(&at("excludeResourceRules"), &resources["excludeResourceRules"]);
}

/// Checks the variables, each of which may use those before it.
fn validate_variables(checker: &mut Checker, variables: &Value, environment: &mut Environment) {
    let mut names = BTreeSet::new();
    for (index, variable) in items(variables).iter().enumerate() {
        let path = field::index("spec.variables", index);
        let name_path = field::child(&path, "name");
        if checker.required(&name_path, &variable["name"], "name is not specified") {
            let name = variable["name"].as_str().unwrap_or_default();
            if !is_identifier(name) {
                let detail = "name is not a valid CEL identifier";
                checker.add(field::invalid(&name_path, &variable["name"], detail));
            }
            if !names.insert(name) {
                checker.add(field::duplicate(&name_path, &variable["name"]));
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
            let expected = (environment, ResultType::Text);
            checker.expression(&path, &validation["messageExpression"], expected);
        }
    }
    let has_line_break = |text: &str| text.contains(['\n', '\r']);
    if let Some(text) = validation["message"].as_str().filter(|text| !text.is_empty()) {
        let path = field::child(path, "message");
        if text.trim().is_empty() {
            let detail = "message must be non-empty if specified";
            checker.add(field::invalid(&path, &validation["message"], detail));
        } else if has_line_break(text.trim()) {
            let detail = "message must not contain line breaks";
            checker.add(field::invalid(&path, &validation["message"], detail));
        }
    } else if validation["expression"].as_str().is_some_and(|text| has_line_break(text.trim())) {
        let detail = "message must be specified if expression contains line breaks";
        checker.add(field::required(&field::child(path, "message"), detail));
    }
    checker.one_of(&field::child(path, "reason"), &validation["reason"], &REASONS);
}

pub(super) fn validate_binding(checker: &mut Checker, spec: &Value) {
    if checker.required("spec.policyName", &spec["policyName"], "") {
        let name = spec["policyName"].as_str().unwrap_or_default();
        if !is_dns_subdomain(name) {
            let detail = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                          and must start and end with an alphanumeric character";
            checker.add(field::invalid("spec.policyName", &spec["policyName"], detail));
        }
    }
    if let Some(reference) = spec.get("paramRef").filter(|reference| reference.is_object()) {
        validate_param_ref(checker, reference);
    }
    if let Some(resources) = spec.get("matchResources").filter(|resources| resources.is_object()) {
        validate_match_resources(checker, "spec.matchResources", resources);
    }
}

/// Checks the actions of the binding of a ValidatingAdmissionPolicy.
pub(super) fn validate_actions(checker: &mut Checker, spec: &Value) {
    let actions = items(&spec["validationActions"]);
    if actions.is_empty() {
        checker.add(field::required("spec.validationActions", "at least one validation action is required"));
    }
    for (index, action) in actions.iter().enumerate() {
        let path = field::index("spec.validationActions", index);
        checker.one_of(&path, action, &["Audit", "Deny", "Warn"]);
        if actions[..index].contains(action) {
            checker.add(field::duplicate(&path, action));
        }
    }
    if ["Deny", "Warn"].iter().all(|name| actions.iter().any(|action| action == name)) {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        checker.add(field::invalid("spec.validationActions", &spec["validationActions"], detail));
    }
}

fn validate_param_ref(checker: &mut Checker, reference: &Value) {
    let has_name = reference["name"].as_str().is_some_and(|name| !name.is_empty());
    let has_selector = reference["selector"].is_object();
    if has_name && has_selector {
        checker.add(field::forbidden("spec.paramRef.name", "name and selector are mutually exclusive"));
        checker.add(field::forbidden("spec.paramRef.selector", "name and selector are mutually exclusive"));
    }
    if !has_name && !has_selector {
        checker.add(field::required("spec.paramRef", "one of name or selector must be specified"));
    }
    checker.selector("spec.paramRef.selector", &reference["selector"]);
    let action = "spec.paramRef.parameterNotFoundAction";
    if checker.required(action, &reference["parameterNotFoundAction"], "") {
        checker.one_of(action, &reference["parameterNotFoundAction"], &["Allow", "Deny"]);
    }
}
