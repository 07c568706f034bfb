//! HorizontalPodAutoscalers, PodDisruptionBudgets and PriorityClasses.

use serde_json::Value;

use super::{
    autoscaling_metrics, has, policy_status, push_invalid, text, validate_amount, validate_at_most_all,
    validate_label_selector, validate_non_negative, validate_one_of,
};
use crate::schema::{field, names};
use crate::status::Causes;

/// The highest value of a PriorityClass that is not the system's.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;
/// The PriorityClasses of the system.
const SYSTEM_PRIORITY_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

pub(super) fn validate_autoscaler(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (least, most) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or(0));
    if least.is_some_and(|least| least < 1) {
        let detail = "must be greater than or equal to 1";
        causes.push(field::invalid("spec.minReplicas", &spec["minReplicas"], detail));
    }
    if most == 0 {
        causes.push(field::required("spec.maxReplicas", "must be set and greater than 0"));
    } else if most < 0 {
        let detail = "must be greater than or equal to 1";
        causes.push(field::invalid("spec.maxReplicas", &most.into(), detail));
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        causes.push(field::invalid("spec.maxReplicas", &most.into(), detail));
    }
    let target = &spec["scaleTargetRef"];
    validate_reference(target, "spec.scaleTargetRef", causes);
    let before = old.map(|old| &old["spec"]["scaleTargetRef"]);
    let is_unchanged = before
        .is_some_and(|old| ["apiVersion", "kind"].iter().all(|name| text(old, name) == text(target, name)));
    if !is_unchanged {
        // ReplicationControllers are the only kind without a group that scales.
        let may_lack_group = text(target, "kind") == "ReplicationController";
        validate_version(target, "spec.scaleTargetRef", may_lack_group, causes);
    }
    autoscaling_metrics::validate_metrics(spec, old, causes);
    autoscaling_metrics::validate_behavior(&spec["behavior"], causes);
}

/// Checks the kind and the name of a reference.
pub(super) fn validate_reference(reference: &Value, path: &str, causes: &mut Causes) {
    for name in ["kind", "name"] {
        let (at, value) = (field::child(path, name), text(reference, name));
        if value.is_empty() {
            causes.push(field::required(&at, ""));
        } else {
            push_invalid(causes, &at, value, names::path_segment_errors(value));
        }
    }
}

/// Checks the `apiVersion` of a reference.
pub(super) fn validate_version(reference: &Value, path: &str, may_lack_group: bool, causes: &mut Causes) {
    if let Some(problem) = version_problem(text(reference, "apiVersion"), may_lack_group) {
        let version = &text(reference, "apiVersion").into();
        causes.push(field::invalid(&field::child(path, "apiVersion"), version, &problem));
    }
}

/// Returns what is wrong with an `apiVersion` (`ValidateAPIVersion` of `pkg/apis/autoscaling/validation`).
pub(super) fn version_problem(version: &str, may_lack_group: bool) -> Option<String> {
    match version.matches('/').count() {
        0 | 1 => {
            let has_group = version.find('/').is_some_and(|length| length > 0);
            (!has_group && !may_lack_group).then(|| "apiVersion must specify API group".to_owned())
        }
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    }
}

pub(super) fn validate_budget(spec: &Value, causes: &mut Causes) {
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        let shown = format!(
            r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
            spec["minAvailable"],
            spec["selector"],
            spec["maxUnavailable"],
            spec["unhealthyPodEvictionPolicy"]
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        causes.push(field::invalid_shown("spec", &shown, detail));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        validate_amount(spec, name, "spec", causes);
        validate_at_most_all(spec, name, "spec", causes);
    }
    validate_label_selector(&spec["selector"], "spec.selector", causes);
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    validate_one_of(spec, "unhealthyPodEvictionPolicy", "spec", &policies, causes);
}

/// Checks the status of a budget (`ValidatePodDisruptionBudgetStatusUpdate` of `pkg/apis/policy/validation`).
pub(super) fn validate_budget_status(status: &Value, causes: &mut Causes) {
    policy_status::validate_conditions(&status["conditions"], "status.conditions", causes);
    for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        validate_non_negative(status, name, "status", causes);
    }
}

pub(super) fn validate_priority_class(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let name = new.get("metadata").map_or("", |metadata| text(metadata, "name"));
    let value = new["value"].as_i64().unwrap_or(0);
    if name.starts_with("system-") {
        if !SYSTEM_PRIORITY_CLASSES.contains(&name) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a \
                 known system priority class"
            );
            causes.push(field::forbidden("metadata.name", &detail));
        }
    } else if value > HIGHEST_USER_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        causes.push(field::forbidden("value", &detail));
    }
    validate_one_of(new, "preemptionPolicy", "", &["PreemptLowerPriority", "Never"], causes);
    let Some(old) = old else { return };
    if old["value"].as_i64().unwrap_or(0) != value {
        causes.push(field::forbidden("value", "may not be changed in an update."));
    }
    if old["preemptionPolicy"] != new["preemptionPolicy"] {
        causes.push(field::invalid("preemptionPolicy", &new["preemptionPolicy"], "field is immutable"));
    }
}
