//! What an indexed Job can have, which failures of Pods a Job counts, and which of its fields cannot change.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{has, items, job_success, names, push_invalid, text, validate_non_negative};
use crate::schema::field;
use crate::status::Causes;

const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
/// An indexed Job with more completions than this may have at most [`LARGE_JOB_LIMIT`] parallel Pods and failed indexes.
const LARGE_JOB_COMPLETIONS: i64 = 100_000;
const LARGE_JOB_LIMIT: i64 = 10_000;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const STATES: [&str; 3] = ["False", "True", "Unknown"];
const COMPLETION_MODES: [&str; 2] = ["Indexed", "NonIndexed"];
const MAX_RULES: usize = 20;
const MAX_PATTERNS: usize = 20;
const MAX_CODES: usize = 255;

/// Checks the Job specification at `path`, apart from its numbers and its template.
pub(super) fn validate(spec: &Value, path: &str, causes: &mut Causes) {
    let at = |name: &str| field::child(path, name);
    validate_non_negative(spec, "backoffLimitPerIndex", path, causes);
    validate_non_negative(spec, "maxFailedIndexes", path, causes);
    if has(spec, "maxFailedIndexes") && !has(spec, "backoffLimitPerIndex") {
        causes.push(field::required(&at("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        validate_manager(manager, &at("managedBy"), causes);
    }
    let mode = &spec["completionMode"];
    if mode.as_str().is_some_and(|mode| !COMPLETION_MODES.contains(&mode)) {
        causes.push(field::not_supported(&at("completionMode"), mode, &COMPLETION_MODES));
    }
    if mode == "Indexed" {
        validate_indexed(spec, path, causes);
    } else {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if has(spec, name) {
                causes.push(field::invalid(&at(name), &spec[name], "requires indexed completion mode"));
            }
        }
    }
    if has(spec, "podFailurePolicy") {
        validate_failure_policy(spec, &at("podFailurePolicy.rules"), causes);
    }
    job_success::validate(spec, path, causes);
    let replacement = &spec["podReplacementPolicy"];
    let supported: &[&str] =
        if has(spec, "podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if replacement.as_str().is_some_and(|policy| !supported.contains(&policy)) {
        causes.push(field::not_supported(&at("podReplacementPolicy"), replacement, supported));
    }
}

fn validate_manager(manager: &str, path: &str, causes: &mut Causes) {
    match manager.split_once('/') {
        _ if manager.is_empty() => causes.push(field::required(path, "")),
        Some((domain, name)) if !domain.is_empty() && !name.is_empty() => {
            push_invalid(causes, path, domain, names::subdomain_errors(domain));
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            causes.push(field::invalid(path, &manager.into(), detail));
        }
    }
}

fn validate_indexed(spec: &Value, path: &str, causes: &mut Causes) {
    let at = |name: &str| field::child(path, name);
    let [completions, parallelism, failed] =
        ["completions", "parallelism", "maxFailedIndexes"].map(|name| spec[name].as_i64());
    let mut limit = |name: &str, number: Option<i64>, most: i64, detail: &str| {
        if number.is_some_and(|number| number > most) {
            causes.push(field::invalid(&at(name), &spec[name], detail));
        }
    };
    let detail = format!("must be less than or equal to {MAX_PARALLELISM} when completion mode is Indexed");
    limit("parallelism", parallelism, MAX_PARALLELISM, &detail);
    if let Some(completions) = completions {
        limit("maxFailedIndexes", failed, completions, "must be less than or equal to completions");
    }
    let detail = format!("must be less than or equal to {MAX_FAILED_INDEXES}");
    limit("maxFailedIndexes", failed, MAX_FAILED_INDEXES, &detail);
    let has_many = completions.is_some_and(|completions| completions > LARGE_JOB_COMPLETIONS);
    if has_many && has(spec, "backoffLimitPerIndex") {
        let detail = format!(
            "must be less than or equal to {LARGE_JOB_LIMIT} when completions are above {LARGE_JOB_COMPLETIONS} and used with backoff limit per \
             index"
        );
        let is_missing = failed.is_none();
        limit("parallelism", parallelism.filter(|_| !is_missing), LARGE_JOB_LIMIT, &detail);
        limit("maxFailedIndexes", failed, LARGE_JOB_LIMIT, &detail);
        if is_missing {
            let required = format!("must be specified when completions is above {LARGE_JOB_COMPLETIONS}");
            causes.push(field::required(&at("maxFailedIndexes"), &required));
            if parallelism.is_some_and(|number| number > LARGE_JOB_LIMIT) {
                causes.push(field::invalid(&at("parallelism"), &spec["parallelism"], &detail));
            }
        }
    }
    if completions.is_none() {
        causes.push(field::required(&at("completions"), "when completion mode is Indexed"));
    }
}

fn validate_failure_policy(spec: &Value, path: &str, causes: &mut Causes) {
    let rules = items(&spec["podFailurePolicy"]["rules"]);
    if rules.len() > MAX_RULES {
        causes.push(field::too_many(path, rules.len(), MAX_RULES as u64));
    }
    let pod = &spec["template"]["spec"];
    let containers: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| items(&pod[*list]))
        .map(|container| text(container, "name"))
        .collect();
    for (index, rule) in rules.iter().enumerate() {
        let at = field::index(path, index);
        let (at_action, action) = (field::child(&at, "action"), text(rule, "action"));
        if action.is_empty() {
            causes.push(field::required(&at_action, &valid_values(&ACTIONS)));
        } else if action == "FailIndex" {
            if !has(spec, "backoffLimitPerIndex") {
                let detail = "requires the backoffLimitPerIndex to be set";
                causes.push(field::invalid(&at_action, &action.into(), detail));
            }
        } else if !ACTIONS.contains(&action) {
            causes.push(field::not_supported(&at_action, &action.into(), &ACTIONS));
        }
        if has(rule, "onExitCodes") {
            validate_codes(&rule["onExitCodes"], &containers, &field::child(&at, "onExitCodes"), causes);
        }
        let patterns = items(&rule["onPodConditions"]);
        validate_patterns(patterns, &field::child(&at, "onPodConditions"), causes);
        let detail = match (has(rule, "onExitCodes"), patterns.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        causes.push(field::invalid_omitted(&at, detail));
    }
}

fn validate_patterns(patterns: &[Value], path: &str, causes: &mut Causes) {
    if patterns.len() > MAX_PATTERNS {
        causes.push(field::too_many(path, patterns.len(), MAX_PATTERNS as u64));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let at = field::index(path, index);
        let (kind, status) = (text(pattern, "type"), text(pattern, "status"));
        push_invalid(causes, &field::child(&at, "type"), kind, names::qualified_name_errors(kind));
        let at = field::child(&at, "status");
        if status.is_empty() {
            causes.push(field::required(&at, &valid_values(&STATES)));
        } else if !STATES.contains(&status) {
            causes.push(field::not_supported(&at, &status.into(), &STATES));
        }
    }
}

fn validate_codes(codes: &Value, containers: &BTreeSet<&str>, path: &str, causes: &mut Causes) {
    const OPERATORS: [&str; 2] = ["In", "NotIn"];
    let (at_operator, operator) = (field::child(path, "operator"), text(codes, "operator"));
    if operator.is_empty() {
        causes.push(field::required(&at_operator, &valid_values(&OPERATORS)));
    } else if !OPERATORS.contains(&operator) {
        causes.push(field::not_supported(&at_operator, &operator.into(), &OPERATORS));
    }
    if codes["containerName"].as_str().is_some_and(|name| !containers.contains(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        causes.push(field::invalid(&field::child(path, "containerName"), &codes["containerName"], detail));
    }
    let (at, values) = (field::child(path, "values"), items(&codes["values"]));
    if values.is_empty() {
        causes.push(field::invalid(&at, &codes["values"], "at least one value is required"));
    } else if values.len() > MAX_CODES {
        causes.push(field::too_many(&at, values.len(), MAX_CODES as u64));
    }
    let numbers: Vec<i64> = values.iter().map(|value| value.as_i64().unwrap_or(0)).collect();
    let mut found = BTreeSet::new();
    for (index, number) in numbers.iter().enumerate() {
        let at = field::index(&at, index);
        if operator == "In" && *number == 0 {
            causes.push(field::invalid(&at, &(*number).into(), "must not be 0 for the In operator"));
        }
        if !found.insert(number) {
            causes.push(field::duplicate(&at, &(*number).into()));
        }
    }
    if !numbers.is_sorted() {
        causes.push(field::invalid(&at, &codes["values"], "must be ordered"));
    }
}

/// Returns the values as Go prints a list of texts.
fn valid_values(values: &[&str]) -> String {
    let shown: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", shown.join(" "))
}

/// Whether the Pods of a Job may get other Nodes and resources: while it is suspended and has none.
pub(super) fn is_template_mutable(job: &Value) -> bool {
    let (spec, status) = (&job["spec"], &job["status"]);
    let has_condition = || {
        let mut conditions = items(&status["conditions"]).iter();
        conditions.any(|condition| condition["type"] == "Suspended" && condition["status"] == "True")
    };
    spec["suspend"] == true
        && (status["startTime"].is_null() || has_condition())
        && status["active"].as_i64().unwrap_or(0) == 0
}

/// Whether an update changes the template of a Job beyond where its Pods run and what their containers request.
pub(super) fn is_fixed_part_changed(old: &Value, new: &Value) -> bool {
    let mut expected = new["spec"].clone();
    for list in ["containers", "initContainers"] {
        if let Some(containers) = expected.get_mut(list).and_then(Value::as_array_mut) {
            take_over_resources(&old["spec"][list], containers);
        }
    }
    without_scheduling(&old["spec"]) != without_scheduling(&expected)
}

/// Gives the containers the resources that they have in `old`, if both lists have as many. A container at another position keeps its own.
fn take_over_resources(old: &Value, containers: &mut [Value]) {
    let old = items(old);
    if old.len() != containers.len() {
        return;
    }
    for (before, container) in old.iter().zip(containers) {
        if before["name"] == container["name"]
            && let (Some(members), Some(before)) = (container.as_object_mut(), before.as_object())
        {
            members.remove("resources");
            members
                .extend(before.get("resources").map(|resources| ("resources".to_owned(), resources.clone())));
        }
    }
}

/// Returns the specification of a Pod without the fields that decide about its Node.
fn without_scheduling(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let Some(members) = pod.as_object_mut() else { return pod };
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        members.remove(name);
    }
    if let Some(affinity) = members.get_mut("affinity").and_then(Value::as_object_mut) {
        affinity.remove("nodeAffinity");
    }
    if members
        .get("affinity")
        .is_some_and(|affinity| affinity.as_object().is_none_or(serde_json::Map::is_empty))
    {
        members.remove("affinity");
    }
    pod
}

/// Checks that the labels and the selector of a new Job are the generated ones, unless it selects its Pods itself.
pub(super) fn validate_generated(job: &Value, causes: &mut Causes) {
    let spec = &job["spec"];
    let (uid, name) = (text(&job["metadata"], "uid"), text(&job["metadata"], "name"));
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    if spec["manualSelector"] == true || !spec["selector"].is_object() || !spec["template"].is_object() {
        return;
    }
    const PATH: &str = "spec.template.metadata.labels";
    let labels = &spec["template"]["metadata"]["labels"];
    for (key, value) in expected {
        let path = field::key(PATH, key);
        match labels[key].as_str() {
            None => causes.push(field::required(&path, &format!("must be '{value}'"))),
            Some(found) if found != value => {
                causes.push(field::invalid(&path, labels, &format!("must be '{value}'")));
            }
            Some(_) => {}
        }
    }
    let matches = pilothouse_model::LabelSelector::from_json(&spec["selector"]).is_ok_and(|selector| {
        selector.matches(|key| expected.iter().find(|(known, _)| *known == key).map(|(_, value)| *value))
    });
    if !matches {
        causes.push(field::invalid("spec.selector", &spec["selector"], "`selector` not auto-generated"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn template_of_a_suspended_job_without_pods_is_mutable() {
        let job = |suspend: bool, status: Value| json!({"spec": {"suspend": suspend}, "status": status});
        let start = "2026-01-01T00:00:00Z";
        let condition = json!([{"type": "Suspended", "status": "True"}]);
        for (job, is_mutable) in [
            (job(true, json!({})), true),
            (job(false, json!({})), false),
            (job(true, json!({"startTime": start})), false),
            (job(true, json!({"startTime": start, "conditions": condition})), true),
            (job(true, json!({"startTime": start, "conditions": condition, "active": 1})), false),
            (job(true, json!({"active": 1})), false),
        ] {
            assert_eq!(is_template_mutable(&job), is_mutable, "{job}");
        }
    }

    #[test]
    fn only_scheduling_and_resources_of_the_same_containers_may_change() {
        let template = |members: Value| {
            let mut pod = json!({"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]});
            for (name, value) in members.as_object().into_iter().flatten() {
                pod[name] = value.clone();
            }
            json!({"spec": pod})
        };
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        for (members, is_changed) in [
            (
                json!({"nodeSelector": {"a": "b"}, "tolerations": [{}], "schedulingGates": [{"name": "g"}]}),
                false,
            ),
            (json!({"affinity": {"nodeAffinity": {}}}), false),
            (json!({"affinity": {"nodeAffinity": {}, "podAffinity": {}}}), true),
            (json!({"affinity": {"podAntiAffinity": {}}}), true),
            (json!({"hostname": "h"}), true),
            (
                json!({"containers": [{"name": "a", "image": "i", "resources": cpu("1")}, {"name": "b", "image": "i"}]}),
                false,
            ),
            (
                json!({"containers": [{"name": "c", "image": "i", "resources": cpu("1")}, {"name": "b", "image": "i"}]}),
                true,
            ),
            (json!({"containers": [{"name": "a", "image": "i", "resources": cpu("1")}]}), true),
        ] {
            let new = template(members);
            assert_eq!(is_fixed_part_changed(&template(json!({})), &new), is_changed, "{new}");
        }
    }
}
