//! Why a metric has no value: the errors of the clients of the metrics APIs in a cluster that serves none of these APIs. Pure.

use serde_json::Value;

const NO_RESOURCE_METRICS: &str = "unable to fetch metrics from resource metrics API: the server could not find the requested \
                                   resource (get pods.metrics.k8s.io)";
const NO_CUSTOM_METRICS: &str = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) \
                                 registered";

/// Why a metric has no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The reason of the condition and of the Event.
    pub(super) reason: &'static str,
    /// The message of the Event, and the end of that of the condition.
    pub(super) problem: String,
    /// The error that is reported if all metrics fail.
    pub(super) summary: String,
}

/// Returns why a metric of an autoscaler in a namespace has no value.
pub(super) fn failure(metric: &Value, namespace: &str) -> Failure {
    match metric["type"].as_str().unwrap_or_default() {
        "ContainerResource" => {
            let source = &metric["containerResource"];
            let problem = resource_problem(source);
            let summary =
                format!("failed to get {} container metric value: {problem}", text(source, "container"));
            Failure { reason: "FailedGetContainerResourceMetric", problem, summary }
        }
        "Pods" => {
            let name = text(&metric["pods"]["metric"], "name");
            let problem = format!("unable to get metric {name}: {NO_CUSTOM_METRICS}");
            let summary = format!("failed to get pods metric value: {problem}");
            Failure { reason: "FailedGetPodsMetric", problem, summary }
        }
        "Object" => {
            let source = &metric["object"];
            let (name, object) = (text(&source["metric"], "name"), &source["describedObject"]);
            // Kubernetes has the values in this order.
            let problem = format!(
                "unable to get metric {name}: {} on {namespace} {}/{NO_CUSTOM_METRICS}",
                text(object, "kind"),
                text(object, "name")
            );
            let wrapped = match has_average_value(source) {
                true => format!("failed to get {name} object metric: {problem}"),
                false => problem.clone(),
            };
            let summary = format!("failed to get object metric value: {wrapped}");
            Failure { reason: "FailedGetObjectMetric", problem, summary }
        }
        "External" => {
            let source = &metric["external"];
            let name = text(&source["metric"], "name");
            let problem = format!(
                "unable to get external metric {namespace}/{name}/{}: unable to fetch metrics from external metrics API: the \
                 server could not find the requested resource (get {name}.external.metrics.k8s.io)",
                selector(&source["metric"]["selector"])
            );
            let wrapped = match has_average_value(source) {
                true => format!("failed to get {name} external metric: {problem}"),
                false => format!("failed to get external metric {name}: {problem}"),
            };
            let summary = format!("failed to get {name} external metric value: {wrapped}");
            Failure { reason: "FailedGetExternalMetric", problem, summary }
        }
        _ => {
            let source = &metric["resource"];
            let problem = resource_problem(source);
            let summary = format!("failed to get {} resource metric value: {problem}", text(source, "name"));
            Failure { reason: "FailedGetResourceMetric", problem, summary }
        }
    }
}

fn resource_problem(source: &Value) -> String {
    let name = text(source, "name");
    let what = if has_average_value(source) { "usage" } else { "utilization" };
    format!("failed to get {name} {what}: unable to get metrics for resource {name}: {NO_RESOURCE_METRICS}")
}

fn has_average_value(source: &Value) -> bool {
    !source["target"]["averageValue"].is_null()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Returns a label selector without expressions as Go prints it.
fn selector(selector: &Value) -> String {
    if selector.is_null() {
        return "nil".into();
    }
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut labels: Vec<String> =
        labels.map(|(name, value)| format!("{name}: {},", value.as_str().unwrap_or_default())).collect();
    labels.sort_unstable();
    let labels = labels.concat();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_type_of_metric_has_its_reason_and_message() {
        let value = json!({"type": "AverageValue", "averageValue": "1"});
        for (metric, reason, problem, summary) in [
            (
                json!({"type": "Resource", "resource": {"name": "memory", "target": value}}),
                "FailedGetResourceMetric",
                "failed to get memory usage: unable to get metrics for resource memory: unable to fetch",
                "failed to get memory resource metric value: failed to get memory usage: ",
            ),
            (
                json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {}}}),
                "FailedGetContainerResourceMetric",
                "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch",
                "failed to get c container metric value: failed to get cpu utilization: ",
            ),
            (
                json!({"type": "Pods", "pods": {"metric": {"name": "p"}, "target": value}}),
                "FailedGetPodsMetric",
                "unable to get metric p: unable to fetch metrics from custom metrics API: ",
                "failed to get pods metric value: unable to get metric p: ",
            ),
            (
                json!({"type": "Object", "object": {
                    "metric": {"name": "m"}, "describedObject": {"kind": "Ingress", "name": "i"}, "target": value,
                }}),
                "FailedGetObjectMetric",
                "unable to get metric m: Ingress on n i/unable to fetch metrics from custom metrics API: ",
                "failed to get object metric value: failed to get m object metric: unable to get metric m: ",
            ),
            (
                json!({"type": "External", "external": {
                    "metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}}, "target": {"value": "1"},
                }}),
                "FailedGetExternalMetric",
                "unable to get external metric n/q/&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}: ",
                "failed to get q external metric value: failed to get external metric q: unable to get external metric n/q/",
            ),
        ] {
            let failure = failure(&metric, "n");
            assert_eq!(failure.reason, reason);
            assert!(failure.problem.starts_with(problem), "{}", failure.problem);
            assert!(failure.summary.starts_with(summary), "{}", failure.summary);
        }
    }
}
