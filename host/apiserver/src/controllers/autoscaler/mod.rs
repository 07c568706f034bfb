//! HorizontalPodAutoscalers, after `k8s.io/kubernetes/pkg/controller/podautoscaler`. The simulated cluster has no metrics, so they only keep the
//! replicas of their targets between `minReplicas` and `maxReplicas`, through the targets' subresource `scale`.

mod metrics;
mod rescale;
mod rivals;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) use self::rescale::Rescale;
use super::action::{Action, Plan, ScaleTarget};
use super::cluster::Cluster;
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{
    Condition, after_seconds, condition, items, number, set_condition, set_counter, time, time_text, until,
};
use crate::meta;
use crate::rest::subresources::scale;
use crate::status::Status;

/// How often a target is looked at without a change that the triggers report, as in Kubernetes. A custom resource may be a target, too.
const SYNC_PERIOD: Duration = Duration::from_secs(15);
/// The seconds between two changes of a target's replicas, so that an autoscaler and another client do not overwrite each other without a pause.
const RESCALE_INTERVAL: i64 = 1;

const ABLE_TO_SCALE: &str = "AbleToScale";
const SCALING_ACTIVE: &str = "ScalingActive";

/// Returns the controller of HorizontalPodAutoscalers.
pub(super) fn controller() -> KindController {
    let reconcile = |cluster: &Cluster<'_>, autoscaler: &Value| {
        let target = read_target(cluster, autoscaler).map(|target| find_rivals(cluster, autoscaler, target));
        plan(autoscaler, target, cluster.now)
    };
    KindController::new(Kind::HorizontalPodAutoscaler, reconcile).triggers(&[
        (Kind::Deployment, Trigger::Namespace),
        (Kind::ReplicaSet, Trigger::Namespace),
        (Kind::ReplicationController, Trigger::Namespace),
        (Kind::StatefulSet, Trigger::Namespace),
    ])
}

/// What an autoscaler scales, and the state of its scale.
#[derive(Debug)]
struct Target {
    target: ScaleTarget,
    replicas: i64,
    /// The selector of its Pods; empty if it is not known.
    selector: String,
    /// The message that other autoscalers scale its Pods, too.
    ambiguity: Option<String>,
}

/// Returns the target of an autoscaler, or why it has no scale.
fn read_target(cluster: &Cluster<'_>, autoscaler: &Value) -> Result<Target, String> {
    let reference = &autoscaler["spec"]["scaleTargetRef"];
    let text = |name: &str| reference[name].as_str().unwrap_or_default();
    let (api_version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if version.contains('/') {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    }
    let endpoint = cluster
        .scalable_endpoint(group, kind)
        .ok_or_else(|| format!("no matches for kind \"{kind}\" in group \"{group}\""))?;
    let paths = endpoint.scale.as_ref().ok_or("the server could not find the requested resource")?;
    let namespace = meta::text(autoscaler, "namespace");
    let found = endpoint.resource.table.get(namespace, name);
    let found = found.ok_or_else(|| Status::not_found(endpoint.resource_ref(), name).message)?;
    let scale = scale::from_object(&endpoint, paths, &endpoint.served_value(&found));
    let target =
        ScaleTarget { group: group.to_owned(), kind: kind.to_owned(), key: (namespace.into(), name.into()) };
    Ok(Target {
        target,
        replicas: number(&scale["spec"]["replicas"], 0),
        selector: scale["status"]["selector"].as_str().unwrap_or_default().to_owned(),
        ambiguity: None,
    })
}

/// Adds to a target whether other autoscalers scale its Pods, too.
fn find_rivals(cluster: &Cluster<'_>, autoscaler: &Value, mut target: Target) -> Target {
    let namespace = meta::text(autoscaler, "namespace");
    let autoscalers = cluster.list(Kind::HorizontalPodAutoscaler, Some(namespace));
    if target.selector.is_empty() || autoscalers.len() < 2 {
        return target;
    }
    let selectors: Vec<(String, String)> = autoscalers
        .iter()
        .filter_map(|other| {
            Some((other.name.to_string(), read_target(cluster, &other.value()).ok()?.selector))
        })
        .collect();
    let pods = cluster.list(Kind::Pod, Some(namespace));
    target.ambiguity =
        rivals::problem(namespace, &target.selector, pods.iter().map(|pod| &pod.labels), &selectors);
    target
}

/// Decides the replicas of the target and the status of the autoscaler.
fn plan(autoscaler: &Value, target: Result<Target, String>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    plan.retry_after(SYNC_PERIOD);
    let mut status = StatusUpdate { before: &autoscaler["status"], new: autoscaler["status"].clone(), now };
    if !status.new.is_object() {
        status.new = json!({});
    }
    let target = match target {
        Ok(target) => target,
        Err(problem) => {
            let message =
                format!("the HPA controller was unable to get the target's current scale: {problem}");
            if status.set(ABLE_TO_SCALE, false, "FailedGetScale", &message) {
                plan.actions.push(warning("FailedGetScale", problem));
            }
            return status.write(plan);
        }
    };
    let able = "the HPA controller was able to get the target's current scale";
    status.set(ABLE_TO_SCALE, true, "SucceededGetScale", able);
    let current = target.replicas;
    match bound(&autoscaler["spec"], current) {
        Some((desired, reason)) => {
            let last = time(&status.before["lastScaleTime"]);
            if let Some(delay) = last.and_then(|last| until(after_seconds(last, RESCALE_INTERVAL), now)) {
                plan.retry_after(delay);
                return plan;
            }
            let known = number(&status.before["desiredReplicas"], 0);
            status.set_replicas(current, known, Value::Null);
            let unscaled = status.new.clone();
            status.set_replicas(current, desired, Value::Null);
            status.new["lastScaleTime"] = time_text(now).into();
            let rescale =
                Rescale { target: target.target, replicas: desired, reason, scaled: status.new, unscaled };
            plan.actions.push(Action::Scale(Box::new(rescale)));
            return plan;
        }
        None if current == 0 => {
            let message = "scaling is disabled since the replica count of the target is zero";
            status.set(SCALING_ACTIVE, false, "ScalingDisabled", message);
            status.set_replicas(0, 0, Value::Null);
        }
        None => {
            for (reason, message) in status.fail_metrics(autoscaler, &target) {
                plan.actions.push(warning(reason, message));
            }
            let desired = number(&status.before["desiredReplicas"], 0);
            // As in Kubernetes, each metric without a value is an empty status.
            let metrics = items(&autoscaler["spec"]["metrics"]).iter();
            let metrics = if target.selector.is_empty() || target.ambiguity.is_some() {
                Value::Null
            } else {
                metrics.map(|_| json!({"type": ""})).collect()
            };
            status.set_replicas(current, desired, metrics);
        }
    }
    status.write(plan)
}

/// Returns the replicas that a target gets because it has too few or too many, and the reason. A target without replicas is not scaled.
fn bound(spec: &Value, current: i64) -> Option<(i64, &'static str)> {
    let (least, most) = (number(&spec["minReplicas"], 1), number(&spec["maxReplicas"], 0));
    match current {
        0 => None,
        current if current > most => Some((most, "Current number of replicas above Spec.MaxReplicas")),
        current if current < least => Some((least, "Current number of replicas below Spec.MinReplicas")),
        _ => None,
    }
}

fn warning(reason: &'static str, message: String) -> Action {
    Action::Event { warning: true, reason, message }
}

/// The status of an autoscaler before and after a decision.
struct StatusUpdate<'a> {
    before: &'a Value,
    new: Value,
    now: Timestamp,
}

impl StatusUpdate<'_> {
    /// Sets a condition. Returns whether its reason or message is another one than before.
    fn set(&mut self, kind: &str, status: bool, reason: &str, message: &str) -> bool {
        set_condition(&mut self.new, Condition { kind, status, reason, message }, &time_text(self.now));
        condition(self.before, kind)
            .is_none_or(|before| before["reason"] != reason || before["message"] != message)
    }

    /// Sets the numbers of replicas, and the metrics, which are absent if they are `null`.
    fn set_replicas(&mut self, current: i64, desired: i64, metrics: Value) {
        set_counter(&mut self.new, "currentReplicas", current);
        self.new["desiredReplicas"] = desired.into();
        let Some(status) = self.new.as_object_mut() else { return };
        if metrics.is_null() {
            status.remove("currentMetrics");
        } else {
            status.insert("currentMetrics".into(), metrics);
        }
    }

    /// Sets the condition that no metric has a value. Returns the reasons and messages of Events, if this was not known before.
    fn fail_metrics(&mut self, autoscaler: &Value, target: &Target) -> Vec<(&'static str, String)> {
        if let Some(problem) = &target.ambiguity {
            const REASON: &str = "AmbiguousSelector";
            let is_new = self.set(SCALING_ACTIVE, false, REASON, problem);
            let events = vec![(REASON, problem.clone()), ("FailedComputeMetricsReplicas", problem.clone())];
            return if is_new { events } else { Vec::new() };
        }
        if target.selector.is_empty() {
            let message = "the HPA target's scale is missing a selector";
            let is_new = self.set(SCALING_ACTIVE, false, "InvalidSelector", message);
            let problem = || "selector is required".to_owned();
            let events = vec![("SelectorRequired", problem()), ("FailedComputeMetricsReplicas", problem())];
            return if is_new { events } else { Vec::new() };
        }
        let metrics = items(&autoscaler["spec"]["metrics"]);
        let Some(first) = metrics.first() else { return Vec::new() };
        let failure = metrics::failure(first, meta::text(autoscaler, "namespace"));
        let message = format!("the HPA was unable to compute the replica count: {}", failure.problem);
        if !self.set(SCALING_ACTIVE, false, failure.reason, &message) {
            return Vec::new();
        }
        let count = metrics.len();
        let summary =
            format!("invalid metrics ({count} invalid out of {count}), first error is: {}", failure.summary);
        vec![(failure.reason, failure.problem), ("FailedComputeMetricsReplicas", summary)]
    }

    /// Returns the plan with the write of the status, if it changes.
    fn write(self, mut plan: Plan) -> Plan {
        if self.new != *self.before {
            plan.actions.push(Action::SetStatus(self.new));
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn autoscaler(status: &Value) -> Value {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
        json!({
            "metadata": {"name": "h", "namespace": "n"},
            "spec": {"minReplicas": 2, "maxReplicas": 5, "metrics": [cpu], "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
            "status": status,
        })
    }

    fn target(replicas: i64) -> Target {
        let target =
            ScaleTarget { group: "apps".into(), kind: "Deployment".into(), key: ("n".into(), "web".into()) };
        Target { target, replicas, selector: "app=web".into(), ambiguity: None }
    }

    fn decide(status: &Value, target: Result<Target, String>) -> Plan {
        plan(&autoscaler(status), target, NOW.parse().expect("a time"))
    }

    fn status_of(plan: &Plan) -> &Value {
        match plan.actions.last() {
            Some(Action::SetStatus(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    fn events(plan: &Plan) -> Vec<(&'static str, &str)> {
        let actions = plan.actions.iter();
        let events = actions.filter_map(|action| match action {
            Action::Event { reason, message, .. } => Some((*reason, message.as_str())),
            _ => None,
        });
        events.collect()
    }

    fn reason<'a>(status: &'a Value, kind: &str) -> (&'a str, &'a str) {
        let found = condition(status, kind).unwrap_or_else(|| panic!("{kind}: {status}"));
        let text = |name: &str| found[name].as_str().unwrap_or_default();
        (text("status"), text("reason"))
    }

    #[test]
    fn replicas_are_kept_between_minimum_and_maximum() {
        for (replicas, desired, message) in [
            (9, 5, "New size: 5; reason: Current number of replicas above Spec.MaxReplicas"),
            (1, 2, "New size: 2; reason: Current number of replicas below Spec.MinReplicas"),
        ] {
            let mut plan = decide(&json!({}), Ok(target(replicas)));
            let Some(Action::Scale(rescale)) = plan.actions.pop() else { panic!("{plan:?}") };
            assert_eq!((&rescale.target, rescale.replicas), (&target(0).target, desired));
            plan.actions.extend(rescale.report(Ok(()), NOW));
            assert_eq!(events(&plan), [("SuccessfulRescale", message)]);
            let status = status_of(&plan);
            assert_eq!(reason(status, ABLE_TO_SCALE), ("True", "SucceededRescale"));
            assert_eq!(
                (&status["currentReplicas"], &status["desiredReplicas"]),
                (&json!(replicas), &json!(desired))
            );
            assert_eq!(status["lastScaleTime"], NOW);
        }
    }

    #[test]
    fn replicas_that_cannot_be_changed_are_reported() {
        let before = json!({"desiredReplicas": 4, "lastScaleTime": "2025-01-01T00:00:00Z"});
        let mut plan = decide(&before, Ok(target(9)));
        let Some(Action::Scale(rescale)) = plan.actions.pop() else { panic!("{plan:?}") };
        plan.actions.extend(rescale.report(Err("denied"), NOW));
        let message = "New size: 5; reason: Current number of replicas above Spec.MaxReplicas; error: denied";
        assert_eq!(events(&plan), [("FailedRescale", message)]);
        let status = status_of(&plan);
        assert_eq!(reason(status, ABLE_TO_SCALE), ("False", "FailedUpdateScale"));
        assert_eq!(
            condition(status, ABLE_TO_SCALE).expect("it is set")["message"],
            "the HPA controller was unable to update the target scale: denied"
        );
        assert_eq!((&status["currentReplicas"], &status["desiredReplicas"]), (&json!(9), &json!(4)));
        assert_eq!(status["lastScaleTime"], before["lastScaleTime"]);
    }

    #[test]
    fn autoscalers_of_the_same_pods_are_reported_once() {
        let problem = "pods by selector app=web are controlled by multiple HPAs: [{a n} {b n}]";
        let rival = || Target { ambiguity: Some(problem.to_owned()), ..target(3) };
        let first = decide(&json!({}), Ok(rival()));
        let status = status_of(&first);
        assert_eq!(reason(status, SCALING_ACTIVE), ("False", "AmbiguousSelector"));
        assert_eq!(
            events(&first),
            [("AmbiguousSelector", problem), ("FailedComputeMetricsReplicas", problem)]
        );
        assert!(decide(status, Ok(rival())).actions.is_empty());
    }

    #[test]
    fn missing_metrics_are_reported_once() {
        let first = decide(&json!({}), Ok(target(3)));
        let status = status_of(&first);
        assert_eq!(reason(status, ABLE_TO_SCALE), ("True", "SucceededGetScale"));
        assert_eq!(reason(status, SCALING_ACTIVE), ("False", "FailedGetResourceMetric"));
        assert_eq!((&status["currentReplicas"], &status["desiredReplicas"]), (&json!(3), &json!(0)));
        assert_eq!(status["currentMetrics"], json!([{"type": ""}]));
        let problem = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource \
                       metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";
        let summary = format!(
            "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {problem}"
        );
        assert_eq!(
            events(&first),
            [("FailedGetResourceMetric", problem), ("FailedComputeMetricsReplicas", summary.as_str())]
        );
        let second = decide(status, Ok(target(3)));
        assert_eq!((second.actions.as_slice(), second.retry_after), (&[][..], Some(SYNC_PERIOD)));
    }

    #[test]
    fn target_without_replicas_is_not_scaled() {
        let plan = decide(&json!({"currentReplicas": 3, "desiredReplicas": 3}), Ok(target(0)));
        let [Action::SetStatus(status)] = plan.actions.as_slice() else { panic!("{plan:?}") };
        assert_eq!(reason(status, SCALING_ACTIVE), ("False", "ScalingDisabled"));
        assert_eq!((status.get("currentReplicas"), &status["desiredReplicas"]), (None, &json!(0)));
    }

    #[test]
    fn target_that_cannot_be_read_is_reported() {
        let plan = decide(&json!({}), Err("deployments.apps \"web\" not found".into()));
        assert_eq!(events(&plan), [("FailedGetScale", "deployments.apps \"web\" not found")]);
        let status = status_of(&plan);
        assert_eq!(reason(status, ABLE_TO_SCALE), ("False", "FailedGetScale"));
        let missing = Target { selector: String::new(), ..target(3) };
        let plan = decide(&json!({}), Ok(missing));
        assert_eq!(reason(status_of(&plan), SCALING_ACTIVE), ("False", "InvalidSelector"));
        assert_eq!(events(&plan)[0], ("SelectorRequired", "selector is required"));
    }

    #[test]
    fn replicas_that_another_client_sets_again_are_not_changed_at_once() {
        let scaled = json!({"lastScaleTime": NOW});
        let plan = decide(&scaled, Ok(target(9)));
        assert_eq!((plan.actions.as_slice(), plan.retry_after), (&[][..], Some(Duration::from_secs(1))));
    }
}
