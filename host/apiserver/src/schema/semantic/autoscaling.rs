//! HorizontalPodAutoscalers, PodDisruptionBudgets and PriorityClasses.

use serde_json::Value;

use super::{
    autoscaling_metrics, has, push_invalid, text, validate_amount, validate_at_most_all,
    validate_label_selector, validate_one_of,
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
    if most < 1 {
        causes.push(field::required("spec.maxReplicas", "must be set and greater than 0"));
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        causes.push(field::invalid("spec.maxReplicas", &most.into(), detail));
    }
    let target = &spec["scaleTargetRef"];
    validate_reference(target, "spec.scaleTargetRef", causes);
    let version = text(target, "apiVersion");
    let before = old.and_then(|old| old.pointer("/spec/scaleTargetRef/apiVersion"));
    let is_controller = (version, text(target, "kind")) == ("v1", "ReplicationController");
    let is_unchanged = old.is_some() && before.and_then(Value::as_str).unwrap_or_default() == version;
    if version.matches('/').count() > 1 && !is_unchanged {
        let detail = format!("unexpected GroupVersion string: {version}");
        causes.push(field::invalid("spec.scaleTargetRef.apiVersion", &Value::from(version), &detail));
    }
    if !version.contains('/') && !is_controller && !is_unchanged {
        let detail = "apiVersion must specify API group";
        causes.push(field::invalid("spec.scaleTargetRef.apiVersion", &Value::from(version), detail));
    }
    autoscaling_metrics::validate_metrics(spec, causes);
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
