//! FlowSchemas and PriorityLevelConfigurations.

use serde_json::Value;

use super::{has, items, names, push_invalid, text};
use crate::schema::field;
use crate::status::Causes;

/// The name of the schema and of the level that exempt requests from flow control.
const EXEMPT: &str = "exempt";
const MAX_PRECEDENCE: i64 = 10_000;
const MAX_QUEUES: i64 = 10_000_000;
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub(super) fn validate_schema(schema: &Value, causes: &mut Causes) {
    let spec = &schema["spec"];
    let precedence = spec["matchingPrecedence"].as_i64().unwrap_or(0);
    let at = "spec.matchingPrecedence";
    if precedence <= 0 {
        causes.push(field::invalid(at, &precedence.into(), "must be a positive value"));
    }
    if precedence > MAX_PRECEDENCE {
        let detail = format!("must not be greater than {MAX_PRECEDENCE}");
        causes.push(field::invalid(at, &precedence.into(), &detail));
    }
    if precedence == 1 && text(&schema["metadata"], "name") != EXEMPT {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        causes.push(field::invalid(at, &precedence.into(), detail));
    }
    if let Some(method) = spec.get("distinguisherMethod")
        && !["ByNamespace", "ByUser"].contains(&text(method, "type"))
    {
        let shown = format!("{{\"Type\":\"{}\"}}", text(method, "type"));
        let path = "spec.distinguisherMethod.type";
        causes.push(field::not_supported_shown(path, &shown, &["ByNamespace", "ByUser"]));
    }
    let at = "spec.priorityLevelConfiguration.name";
    match text(&spec["priorityLevelConfiguration"], "name") {
        "" => causes.push(field::required(at, "must reference a priority level")),
        name => push_invalid(causes, at, name, names::subdomain_errors(name)),
    }
    for (index, rule) in items(&spec["rules"]).iter().enumerate() {
        validate_rule(rule, &field::index("spec.rules", index), causes);
    }
}

fn validate_rule(rule: &Value, at: &str, causes: &mut Causes) {
    let (path, subjects) = (field::child(at, "subjects"), items(&rule["subjects"]));
    if subjects.is_empty() {
        causes.push(field::required(&path, "subjects must contain at least one value"));
    }
    for (index, subject) in subjects.iter().enumerate() {
        validate_subject(subject, &field::index(&path, index), causes);
    }
    let (resources, others) = (items(&rule["resourceRules"]), items(&rule["nonResourceRules"]));
    if resources.is_empty() && others.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        causes.push(field::required(at, detail));
    }
    let path = field::child(at, "resourceRules");
    for (index, rule) in resources.iter().enumerate() {
        let at = field::index(&path, index);
        validate_verbs(rule, &at, causes);
        validate_list(
            rule,
            "apiGroups",
            &at,
            "resource rules must supply at least one api group",
            "api groups",
            causes,
        );
        validate_list(
            rule,
            "resources",
            &at,
            "resource rules must supply at least one resource",
            "resources",
            causes,
        );
        if rule["clusterScope"] != true || !items(&rule["namespaces"]).is_empty() {
            let detail = "resource rules that are not cluster scoped must supply at least one namespace";
            validate_list(rule, "namespaces", &at, detail, "namespaces", causes);
        }
    }
    let path = field::child(at, "nonResourceRules");
    for (index, rule) in others.iter().enumerate() {
        let at = field::index(&path, index);
        validate_verbs(rule, &at, causes);
        let detail = "nonResourceURLs must contain at least one value";
        validate_list(rule, "nonResourceURLs", &at, detail, "non-resource URLs", causes);
    }
}

fn validate_subject(subject: &Value, at: &str, causes: &mut Causes) {
    const MEMBERS: [(&str, &str); 3] =
        [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = text(subject, "kind");
    let Some((_, member)) = MEMBERS.iter().find(|(name, _)| *name == kind) else {
        let path = field::child(at, "kind");
        causes.push(field::not_supported(&path, &kind.into(), &["Group", "ServiceAccount", "User"]));
        return;
    };
    let path = field::child(at, member);
    if has(subject, member) {
        if text(&subject[*member], "name").is_empty() {
            causes.push(field::required(&field::child(&path, "name"), ""));
        }
        if kind == "ServiceAccount" && text(&subject[*member], "namespace").is_empty() {
            let detail = "must specify namespace for service account";
            causes.push(field::required(&field::child(&path, "namespace"), detail));
        }
    } else {
        causes.push(field::required(&path, &format!("{member} is required when subject kind is '{kind}'")));
    }
    for (name, other) in MEMBERS {
        if other != *member && has(subject, other) {
            let detail = format!("{other} is forbidden when subject kind is not '{name}'");
            causes.push(field::forbidden(&field::child(at, other), &detail));
        }
    }
}

fn validate_verbs(rule: &Value, at: &str, causes: &mut Causes) {
    validate_list(rule, "verbs", at, "verbs must contain at least one value", "verbs", causes);
    let verbs = items(&rule["verbs"]);
    let known = |verb: &Value| verb.as_str().is_some_and(|verb| verb == "*" || VERBS.contains(&verb));
    if !verbs.iter().all(known) {
        causes.push(field::not_supported(&field::child(at, "verbs"), &rule["verbs"], &VERBS));
    }
}

/// Checks that a list has items, and that `*` is its only one.
fn validate_list(rule: &Value, name: &str, at: &str, required: &str, noun: &str, causes: &mut Causes) {
    let (path, list) = (field::child(at, name), items(&rule[name]));
    if list.is_empty() {
        causes.push(field::required(&path, required));
    } else if list.len() > 1 && list.iter().any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {noun}");
        causes.push(field::invalid(&path, &rule[name], &detail));
    }
}

pub(super) fn validate_level(level: &Value, causes: &mut Causes) {
    let spec = &level["spec"];
    let kind = text(spec, "type");
    if (text(&level["metadata"], "name") == EXEMPT) != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        causes.push(field::invalid("spec.type", &kind.into(), detail));
    }
    match kind {
        "Exempt" => {
            if has(spec, "limited") {
                causes.push(field::forbidden("spec.limited", "must be nil if the type is not Limited"));
            }
            validate_shares(&spec["exempt"], "spec.exempt", causes);
            validate_lendable(&spec["exempt"], "spec.exempt", causes);
        }
        "Limited" => {
            if has(spec, "exempt") {
                causes.push(field::forbidden("spec.exempt", "must be nil if the type is Limited"));
            }
            if has(spec, "limited") {
                validate_limited(&spec["limited"], "spec.limited", causes);
            } else {
                causes.push(field::required("spec.limited", "must not be empty when type is Limited"));
            }
        }
        "" => causes.push(field::required("spec.type", "")),
        _ => causes.push(field::not_supported("spec.type", &kind.into(), &["Exempt", "Limited"])),
    }
}

fn validate_limited(limited: &Value, at: &str, causes: &mut Causes) {
    validate_shares(limited, at, causes);
    validate_response(&limited["limitResponse"], &field::child(at, "limitResponse"), causes);
    validate_lendable(limited, at, causes);
    if limited["borrowingLimitPercent"].as_i64().is_some_and(|percent| percent < 0) {
        let path = field::child(at, "borrowingLimitPercent");
        let detail = "if specified, must be a non-negative integer";
        causes.push(field::invalid(&path, &limited["borrowingLimitPercent"], detail));
    }
}

fn validate_response(response: &Value, at: &str, causes: &mut Causes) {
    let queuing = field::child(at, "queuing");
    match text(response, "type") {
        "Reject" => {
            if has(response, "queuing") {
                let detail = "must be nil if limited.limitResponse.type is not Limited";
                causes.push(field::forbidden(&queuing, detail));
            }
        }
        "Queue" if has(response, "queuing") => validate_queuing(&response["queuing"], &queuing, causes),
        "Queue" => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            causes.push(field::required(&queuing, detail));
        }
        "" => causes.push(field::required(&field::child(at, "type"), "")),
        other => {
            let path = field::child(at, "type");
            causes.push(field::not_supported(&path, &other.into(), &["Queue", "Reject"]));
        }
    }
}

fn validate_shares(level: &Value, at: &str, causes: &mut Causes) {
    let shares = &level["nominalConcurrencyShares"];
    if shares.as_i64().is_some_and(|shares| shares < 0) {
        let path = field::child(at, "nominalConcurrencyShares");
        causes.push(field::invalid(&path, shares, "must be a non-negative integer"));
    }
}

fn validate_lendable(level: &Value, at: &str, causes: &mut Causes) {
    let percent = &level["lendablePercent"];
    if percent.as_i64().is_some_and(|percent| !(0..=100).contains(&percent)) {
        let path = field::child(at, "lendablePercent");
        causes.push(field::invalid(&path, percent, "must be between 0 and 100, inclusive"));
    }
}

fn validate_queuing(queuing: &Value, at: &str, causes: &mut Causes) {
    let number = |name: &str| queuing[name].as_i64().unwrap_or(0);
    for name in ["queueLengthLimit", "queues", "handSize"] {
        if number(name) <= 0 {
            let path = field::child(at, name);
            causes.push(field::invalid(&path, &number(name).into(), "must be positive"));
        }
    }
    let (queues, hand) = (number("queues"), number("handSize"));
    if queues > MAX_QUEUES {
        let detail = format!("must not be greater than {MAX_QUEUES}");
        causes.push(field::invalid(&field::child(at, "queues"), &queues.into(), &detail));
    }
    if hand > queues {
        let detail = format!("should not be greater than queues ({queues})");
        causes.push(field::invalid(&field::child(at, "handSize"), &hand.into(), &detail));
    }
}
