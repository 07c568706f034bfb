//! The status of PodDisruptionBudgets, after `k8s.io/kubernetes/pkg/controller/disruption`. Evictions use it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pilothouse_model::LabelSelector;
use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::cluster::Cluster;
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{
    Condition, after_seconds, int_or_percent, is_deleting, items, number, set_condition, time, time_text,
    until,
};
use super::pod;
use crate::meta;

/// How long an evicted Pod may stay until the eviction is considered failed, in seconds.
const EVICTION_TIMEOUT: i64 = 120;

/// Returns the controller of PodDisruptionBudgets.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::PodDisruptionBudget, reconcile).triggers(&[
        (Kind::Pod, Trigger::Namespace),
        (Kind::Deployment, Trigger::Namespace),
        (Kind::ReplicaSet, Trigger::Namespace),
        (Kind::ReplicationController, Trigger::Namespace),
        (Kind::StatefulSet, Trigger::Namespace),
    ])
}

fn reconcile(cluster: &Cluster<'_>, budget: &Value) -> Plan {
    let Ok(parsed) = LabelSelector::from_json(&budget["spec"]["selector"]) else { return Plan::default() };
    let namespace = meta::text(budget, "namespace");
    // No selector matches no Pod, an empty one matches all.
    let selects_none = budget["spec"]["selector"].is_null();
    let pods: Vec<Value> = cluster
        .select(Kind::Pod, namespace, |pod| !selects_none && parsed.matches(|name| pod.labels.get(name)))
        .iter()
        .map(|pod| pod.value())
        .filter(|pod| !pod::is_ended(pod))
        .collect();
    let expected = expected_pods(cluster, namespace, &pods);
    plan(budget, &pods, expected, cluster.now)
}

/// Returns the sum of the replicas of the workloads that control the Pods, or why it is not known.
fn expected_pods(cluster: &Cluster<'_>, namespace: &str, pods: &[Value]) -> Result<i64, String> {
    let mut replicas: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some((uid, count)) = scale_of_controller(cluster, namespace, pod, Kind::Pod)? else { continue };
        replicas.insert(uid, count);
    }
    Ok(replicas.values().fold(0, |sum, count| sum.saturating_add(*count)))
}

/// Returns the UID and the replicas of the workload that controls an object, of the Deployment for its ReplicaSets.
fn scale_of_controller(
    cluster: &Cluster<'_>,
    namespace: &str,
    object: &Value,
    kind: Kind,
) -> Result<Option<(String, i64)>, String> {
    let unknown = || {
        let name = meta::text(object, "name");
        Err(format!("found no controllers for {} \"{name}\"", kind.name().to_lowercase()))
    };
    let owners = items(&object["metadata"]["ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
        return if kind == Kind::Pod { unknown() } else { Ok(None) };
    };
    let name = owner["name"].as_str().unwrap_or_default();
    let kinds = [Kind::ReplicaSet, Kind::Deployment, Kind::StatefulSet, Kind::ReplicationController];
    let Some(owner_kind) = kinds.into_iter().find(|kind| owner["kind"] == kind.name()) else {
        return unknown();
    };
    let found =
        cluster.get(owner_kind, namespace, name).filter(|found| meta::text(found, "uid") == owner["uid"]);
    let Some(found) = found else { return Ok(None) };
    if owner_kind == Kind::ReplicaSet
        && let Some(scale) = scale_of_controller(cluster, namespace, &found, owner_kind)?
    {
        return Ok(Some(scale));
    }
    Ok(Some((meta::text(&found, "uid").to_owned(), number(&found["spec"]["replicas"], 1))))
}

/// Decides the status of a budget for its Pods. `expected` is the number of Pods that their workloads are to have.
fn plan(budget: &Value, pods: &[Value], expected: Result<i64, String>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if is_deleting(budget) {
        return plan;
    }
    let mut status = budget["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let spec = &budget["spec"];
    let numbers = match (&spec["maxUnavailable"], &spec["minAvailable"]) {
        (Value::Null, Value::Null) => Ok((count, 0)),
        (Value::Null, minimum @ Value::Number(_)) => Ok((count, minimum.as_i64().unwrap_or(0))),
        (Value::Null, minimum) => {
            expected.map(|expected| (expected, int_or_percent(minimum, expected, true)))
        }
        (maximum, _) => expected.map(|expected| {
            (expected, expected.saturating_sub(int_or_percent(maximum, expected, true)).max(0))
        }),
    };
    let disrupted = still_disrupted(&status, pods, now, &mut plan);
    let is_healthy = |pod: &&Value| {
        pod::is_ready(pod) && !is_deleting(pod) && !disrupted.contains_key(meta::text(pod, "name"))
    };
    let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let (allowed, reason, message) = match numbers {
        Ok((expected, desired)) => {
            let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
            status["currentHealthy"] = healthy.into();
            status["desiredHealthy"] = desired.into();
            status["expectedPods"] = expected.into();
            (allowed, if allowed > 0 { "SufficientPods" } else { "InsufficientPods" }, String::new())
        }
        Err(problem) => (0, "SyncFailed", problem),
    };
    status["disruptionsAllowed"] = allowed.into();
    status["observedGeneration"] = meta::generation(budget).into();
    if disrupted.is_empty() {
        status.as_object_mut().map(|status| status.remove("disruptedPods"));
    } else {
        status["disruptedPods"] = json!(disrupted);
    }
    let condition = Condition { kind: "DisruptionAllowed", status: allowed > 0, reason, message: &message };
    set_condition(&mut status, condition, &time_text(now));
    let mut conditions = status["conditions"].as_array_mut().into_iter().flatten();
    if let Some(condition) = conditions.find(|one| one["type"] == "DisruptionAllowed") {
        // Required fields of this condition, even if they are empty.
        condition["observedGeneration"] = meta::generation(budget).into();
        condition["message"] = message.into();
    }
    if status != budget["status"] {
        plan.actions.push(Action::SetStatus(status));
    }
    plan
}

/// Returns the Pods that were evicted and still exist, with the time of the eviction.
fn still_disrupted(
    status: &Value,
    pods: &[Value],
    now: Timestamp,
    plan: &mut Plan,
) -> BTreeMap<String, Value> {
    let mut disrupted = BTreeMap::new();
    for (name, evicted) in status["disruptedPods"].as_object().into_iter().flatten() {
        let Some(at) = time(evicted) else { continue };
        let exists = pods.iter().any(|pod| meta::text(pod, "name") == name && !is_deleting(pod));
        if let (true, Some(delay)) = (exists, until(after_seconds(at, EVICTION_TIMEOUT), now)) {
            plan.retry_after(delay);
            disrupted.insert(name.clone(), evicted.clone());
        }
    }
    disrupted
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn pod(name: &str, ready: bool) -> Value {
        let ready = if ready { "True" } else { "False" };
        json!({"metadata": {"name": name}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn numbers(spec: &Value, expected: Result<i64, String>, disrupted: &Value) -> [i64; 4] {
        let budget = json!({"metadata": {"name": "b"}, "spec": spec, "status": {"disruptedPods": disrupted}});
        let pods = [pod("a", true), pod("b", true), pod("c", false)];
        let plan = plan(&budget, &pods, expected, NOW.parse().expect("a time"));
        let [Action::SetStatus(status)] = plan.actions.as_slice() else { panic!("{plan:?}") };
        ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
            .map(|name| number(&status[name], -1))
    }

    #[test]
    fn disruptions_are_allowed_down_to_the_minimum() {
        let none = json!({});
        assert_eq!(numbers(&json!({"minAvailable": 1}), Ok(4), &none), [3, 2, 1, 1]);
        assert_eq!(numbers(&json!({"minAvailable": "50%"}), Ok(4), &none), [4, 2, 2, 0]);
        assert_eq!(numbers(&json!({"maxUnavailable": 3}), Ok(4), &none), [4, 2, 1, 1]);
        assert_eq!(numbers(&json!({"maxUnavailable": 1}), Err("unknown".into()), &none), [-1, -1, -1, 0]);
    }

    #[test]
    fn evicted_pods_are_not_healthy_until_the_eviction_times_out() {
        let evicted = json!({"a": "2026-01-01T00:00:30Z"});
        assert_eq!(numbers(&json!({"minAvailable": 1}), Ok(3), &evicted), [3, 1, 1, 0]);
        let failed = json!({"a": "2025-12-31T23:00:00Z"});
        assert_eq!(numbers(&json!({"minAvailable": 1}), Ok(3), &failed), [3, 2, 1, 1]);
    }

    #[test]
    fn settled_budget_is_not_written() {
        let mut budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}});
        let decide = |budget: &Value| plan(budget, &[pod("a", true)], Ok(1), NOW.parse().expect("a time"));
        let first = decide(&budget);
        let [Action::SetStatus(status)] = first.actions.as_slice() else { panic!("{first:?}") };
        budget["status"] = status.clone();
        assert_eq!(decide(&budget), Plan::default());
    }
}
