//! The metrics and the behavior of HorizontalPodAutoscalers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{NOT_NEGATIVE, autoscaling, has, items, names, push_invalid, quantity, quota, text};
use crate::schema::field;
use crate::status::Causes;

/// The sources, in the order in which kube-apiserver checks them.
const SOURCES: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const MAX_WINDOW: i64 = 3600;
const MAX_PERIOD: i64 = 1800;

pub(super) fn validate_metrics(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    const PATH: &str = "spec.metrics";
    let metrics = items(&spec["metrics"]);
    // A stored autoscaler may describe objects with a malformed version.
    let checks_versions =
        !old.is_some_and(|old| items(&old["spec"]["metrics"]).iter().any(has_malformed_version));
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(metric, &field::index(PATH, index), checks_versions, causes);
    }
    let can_start = metrics.iter().any(|metric| ["Object", "External"].contains(&text(metric, "type")));
    if spec["minReplicas"] == 0 && !can_start {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.push(field::forbidden(PATH, detail));
    }
}

/// Whether a metric is about an object whose `apiVersion` is malformed.
fn has_malformed_version(metric: &Value) -> bool {
    let version = text(&metric["object"]["describedObject"], "apiVersion");
    text(metric, "type") == "Object" && autoscaling::version_problem(version, true).is_some()
}

fn validate_metric(metric: &Value, at: &str, checks_versions: bool, causes: &mut Causes) {
    let (kind, at_type) = (text(metric, "type"), field::child(at, "type"));
    if kind.is_empty() {
        causes.push(field::required(&at_type, "must specify a metric source type"));
    }
    if !TYPES.contains(&kind) {
        causes.push(field::not_supported(&at_type, &kind.into(), &TYPES));
    }
    let mut present: BTreeSet<&str> = SOURCES.into_iter().filter(|source| has(metric, source)).collect();
    if let Some(first) = SOURCES.into_iter().find(|source| present.contains(source)) {
        let at = field::child(at, first);
        if first == "object" {
            let (object, at) = (&metric[first]["describedObject"], field::child(&at, "describedObject"));
            autoscaling::validate_reference(object, &at, causes);
            if checks_versions {
                autoscaling::validate_version(object, &at, true, causes);
            }
        }
        validate_source(first, &metric[first], &at, causes);
    }
    let expected = match kind {
        "Object" => "object",
        "External" => "external",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => {
            causes.push(field::not_supported(&at_type, &kind.into(), &TYPES));
            ""
        }
    };
    if !expected.is_empty() && !present.contains(expected) {
        let detail = "must populate information for the given metric source";
        causes.push(field::required(&field::child(at, expected), detail));
    }
    if present.len() != 1 {
        present.remove(expected);
        for other in present {
            let detail = "must populate the given metric source only";
            causes.push(field::forbidden(&field::child(at, other), detail));
        }
    }
}

fn validate_source(kind: &str, source: &Value, at: &str, causes: &mut Causes) {
    if matches!(kind, "object" | "external" | "pods") {
        let (path, name) = (field::child(at, "metric.name"), text(&source["metric"], "name"));
        if name.is_empty() {
            causes.push(field::required(&path, "must specify a metric name"));
        } else {
            push_invalid(causes, &path, name, names::path_segment_errors(name));
        }
    } else {
        let (path, name) = (field::child(at, "name"), text(source, "name"));
        if name.is_empty() {
            causes.push(field::required(&path, "must specify a resource name"));
        } else if kind == "containerResource" {
            quota::validate_container_resource(name, &path, causes);
        }
    }
    if kind == "containerResource" {
        let (path, name) = (field::child(at, "container"), text(source, "container"));
        if name.is_empty() {
            causes.push(field::required(&path, "must specify a container"));
        } else {
            push_invalid(causes, &path, name, names::label_errors(name));
        }
    }
    validate_target(kind, &source["target"], &field::child(at, "target"), causes);
}

fn validate_target(kind: &str, target: &Value, at: &str, causes: &mut Causes) {
    let at_name = |name: &str| field::child(at, name);
    let ty = text(target, "type");
    if ty.is_empty() {
        causes.push(field::required(&at_name("type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&ty) {
        let detail = "must be either Utilization, Value, or AverageValue";
        causes.push(field::invalid(&at_name("type"), &ty.into(), detail));
    }
    for name in ["value", "averageValue"] {
        if quantity::nanos(&target[name]).is_some_and(|nanos| nanos <= 0) {
            causes.push(field::invalid(&at_name(name), &target[name], "must be positive"));
        }
    }
    let utilization = &target["averageUtilization"];
    if utilization.as_i64().is_some_and(|percent| percent < 1) {
        causes.push(field::invalid(&at_name("averageUtilization"), utilization, "must be greater than 0"));
    }
    let [value, average, percent] =
        ["value", "averageValue", "averageUtilization"].map(|name| has(target, name));
    match kind {
        "object" if !value && !average => {
            causes.push(field::required(
                &at_name("averageValue"),
                "must set either a target value or averageValue",
            ));
        }
        "external" if !value && !average => {
            let detail = "must set either a target value for metric or a per-pod target";
            causes.push(field::required(&at_name("averageValue"), detail));
        }
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            causes.push(field::forbidden(&at_name("value"), detail));
        }
        "pods" if !average => {
            let detail = "must specify a positive target averageValue";
            causes.push(field::required(&at_name("averageValue"), detail));
        }
        "resource" | "containerResource" if !percent && !average => {
            let detail = "must set either a target raw value or a target utilization";
            causes.push(field::required(&at_name("averageUtilization"), detail));
        }
        "resource" | "containerResource" if percent && average => {
            let detail = "may not set both a target raw value and a target utilization";
            causes.push(field::forbidden(&at_name("averageValue"), detail));
        }
        _ => {}
    }
}

pub(super) fn validate_behavior(behavior: &Value, causes: &mut Causes) {
    for name in ["scaleUp", "scaleDown"] {
        if has(behavior, name) {
            validate_rules(&behavior[name], &field::child("spec.behavior", name), causes);
        }
    }
}

fn validate_rules(rules: &Value, at: &str, causes: &mut Causes) {
    let (window, at_window) =
        (&rules["stabilizationWindowSeconds"], field::child(at, "stabilizationWindowSeconds"));
    match window.as_i64() {
        Some(seconds) if seconds < 0 => {
            causes.push(field::invalid(&at_window, window, "must be greater than or equal to zero"));
        }
        Some(seconds) if seconds > MAX_WINDOW => {
            let detail = format!("must be less than or equal to {MAX_WINDOW}");
            causes.push(field::invalid(&at_window, window, &detail));
        }
        _ => {}
    }
    let policies = ["Disabled", "Max", "Min"];
    if let Some(policy) = rules["selectPolicy"].as_str().filter(|policy| !policies.contains(policy)) {
        causes.push(field::not_supported(&field::child(at, "selectPolicy"), &policy.into(), &policies));
    }
    let path = field::child(at, "policies");
    if items(&rules["policies"]).is_empty() {
        causes.push(field::required(&path, "must specify at least one Policy"));
    }
    for (index, policy) in items(&rules["policies"]).iter().enumerate() {
        let at = field::index(&path, index);
        let types = ["Percent", "Pods"];
        if !types.contains(&text(policy, "type")) {
            let kind = text(policy, "type").into();
            causes.push(field::not_supported(&field::child(&at, "type"), &kind, &types));
        }
        for name in ["value", "periodSeconds"] {
            // Go reads an absent number as 0.
            let number = policy[name].as_i64().unwrap_or(0);
            if number <= 0 {
                let detail = "must be greater than zero";
                causes.push(field::invalid(&field::child(&at, name), &number.into(), detail));
            }
        }
        if policy["periodSeconds"].as_i64().is_some_and(|seconds| seconds > MAX_PERIOD) {
            let detail = format!("must be less than or equal to {MAX_PERIOD}");
            causes.push(field::invalid(
                &field::child(&at, "periodSeconds"),
                &policy["periodSeconds"],
                &detail,
            ));
        }
    }
    if quantity::nanos(&rules["tolerance"]).is_some_and(|nanos| nanos < 0) {
        let shown = Value::from(quantity::canonical(&rules["tolerance"]));
        causes.push(field::invalid(&field::child(at, "tolerance"), &shown, NOT_NEGATIVE));
    }
}
