//! HorizontalPodAutoscalers are stored as autoscaling/v2 and also served as autoscaling/v1.
//!
//! v1 has fields for CPU utilization only. As in Kubernetes, everything else is converted to annotations that hold the
//! JSON of the v2 fields.

use k8s_openapi::api::autoscaling::v2;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::meta;

/// The parent and name of each v2 field that v1 holds in an annotation, and the annotation.
const ANNOTATED_FIELDS: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("status", "currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
    ("status", "conditions", "autoscaling.alpha.kubernetes.io/conditions"),
];

/// The default target CPU utilization of v2, in percent of the requested CPU.
const DEFAULT_CPU_UTILIZATION: i64 = 80;

/// Converts from autoscaling/v2 to autoscaling/v1.
pub(crate) fn to_v1(autoscaler: &mut Value) {
    let target = take_cpu(autoscaler.pointer_mut("/spec/metrics"), "target");
    let current = take_cpu(autoscaler.pointer_mut("/status/currentMetrics"), "current");
    for (parent, field, annotation) in ANNOTATED_FIELDS {
        let found =
            autoscaler.get_mut(parent).and_then(Value::as_object_mut).and_then(|parent| parent.remove(field));
        if let Some(value) = found.filter(|value| !is_empty(value)) {
            let annotations =
                meta::metadata_mut(autoscaler).entry("annotations").or_insert_with(|| json!({}));
            annotations[annotation] = value.to_string().into();
        }
    }
    if let Some(target) = target {
        autoscaler["spec"]["targetCPUUtilizationPercentage"] = target;
    }
    let Some(Value::Object(status)) = autoscaler.get_mut("status") else { return };
    status.entry("currentReplicas").or_insert(json!(0));
    if let Some(current) = current {
        status.insert("currentCPUUtilizationPercentage".into(), current);
    }
}

/// Converts from autoscaling/v1 to autoscaling/v2.
pub(crate) fn to_v2(autoscaler: &mut Value) {
    for (parent, field, annotation) in ANNOTATED_FIELDS {
        let Some(Value::Object(annotations)) = autoscaler.pointer_mut("/metadata/annotations") else { break };
        let parsed = annotations.get(annotation).and_then(Value::as_str).map(serde_json::from_str::<Value>);
        // Clients can write any annotation: a value that is not of the field's type stays an annotation.
        if let Some(Ok(value)) = parsed
            && is_valid(field, &value)
        {
            annotations.remove(annotation);
            autoscaler[parent][field] = value;
        }
    }
    if autoscaler["metadata"]["annotations"].as_object().is_some_and(Map::is_empty) {
        meta::metadata_mut(autoscaler).remove("annotations");
    }
    let mut take = |parent: &str, field: &str| {
        autoscaler.get_mut(parent).and_then(Value::as_object_mut).and_then(|parent| parent.remove(field))
    };
    let target = take("spec", "targetCPUUtilizationPercentage");
    let current = take("status", "currentCPUUtilizationPercentage");
    let metrics = &mut autoscaler["spec"]["metrics"];
    let target = target.or_else(|| is_empty(metrics).then(|| json!(DEFAULT_CPU_UTILIZATION)));
    if let Some(target) = target {
        put_cpu(metrics, "target", &json!({"type": "Utilization", "averageUtilization": target}));
    }
    if let Some(status) = autoscaler.get_mut("status").filter(|status| status.is_object()) {
        // `currentReplicas` has `omitempty` in v2 only.
        if status["currentReplicas"] == 0
            && let Some(status) = status.as_object_mut()
        {
            status.remove("currentReplicas");
        }
        // `currentMetrics` has no `omitempty` in v2: it is null when absent.
        let metrics = &mut status["currentMetrics"];
        if let Some(current) = current {
            put_cpu(metrics, "current", &json!({"averageUtilization": current}));
        }
    }
}

/// Whether a value has the type of the v2 field.
fn is_valid(field: &str, value: &Value) -> bool {
    fn reads<T: DeserializeOwned>(value: &Value) -> bool {
        T::deserialize(value).is_ok()
    }
    match field {
        "metrics" => reads::<Vec<v2::MetricSpec>>(value),
        "behavior" => reads::<v2::HorizontalPodAutoscalerBehavior>(value),
        "currentMetrics" => reads::<Vec<v2::MetricStatus>>(value),
        "conditions" => reads::<Vec<v2::HorizontalPodAutoscalerCondition>>(value),
        _ => false,
    }
}

/// Removes the CPU utilization from a list of metrics and returns it.
fn take_cpu(metrics: Option<&mut Value>, side: &str) -> Option<Value> {
    let list = metrics?.as_array_mut()?;
    let utilization = |metric: &Value| {
        let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
        metric["resource"][side].get("averageUtilization").filter(|_| is_cpu).cloned()
    };
    let (index, value) =
        list.iter().enumerate().find_map(|(index, metric)| Some((index, utilization(metric)?)))?;
    list.remove(index);
    Some(value)
}

/// Inserts the CPU utilization at the start of a list of metrics.
fn put_cpu(metrics: &mut Value, side: &str, value: &Value) {
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", side: value}});
    match metrics.as_array_mut() {
        Some(list) => list.insert(0, metric),
        None => *metrics = json!([metric]),
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(side: &str, value: &Value) -> Value {
        json!({"type": "Resource", "resource": {"name": "cpu", side: value}})
    }

    #[test]
    fn converting_to_v1_and_back_preserves_the_autoscaler() {
        let memory = json!({"type": "Resource", "resource": {
            "name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"},
        }});
        let v2 = json!({
            "metadata": {"name": "h", "annotations": {"mine": "1"}},
            "spec": {
                "maxReplicas": 3, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
                "metrics": [cpu("target", &json!({"type": "Utilization", "averageUtilization": 50})), memory],
            },
            "status": {
                "currentReplicas": 1, "desiredReplicas": 2, "conditions": [{"type": "AbleToScale", "status": "True"}],
                "currentMetrics": [cpu("current", &json!({"averageUtilization": 30}))],
            },
        });
        let mut value = v2.clone();
        to_v1(&mut value);
        assert_eq!(value["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        assert_eq!(
            value["status"],
            json!({"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 30})
        );
        to_v2(&mut value);
        assert_eq!(value, v2);
    }

    #[test]
    fn v1_without_a_target_gets_the_default_of_v2() {
        let mut value = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3}});
        to_v2(&mut value);
        assert_eq!(value["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
    }

    #[test]
    fn annotation_of_the_wrong_type_stays_an_annotation() {
        let annotation = "autoscaling.alpha.kubernetes.io/metrics";
        for text in ["{", "\"cpu\"", "[1]"] {
            let mut value = json!({"metadata": {"annotations": {annotation: text}}, "spec": {}});
            to_v2(&mut value);
            assert_eq!(value["metadata"]["annotations"][annotation], text);
            assert_eq!(value["spec"]["metrics"][0]["type"], "Resource");
        }
    }
}
