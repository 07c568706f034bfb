//! What controllers read of Pods, and how they build them from templates.

use std::borrow::Borrow;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kind::Kind;
use super::object::{
    after_seconds, condition, is_deleting, is_true, items, number, owner_reference, time, until,
};
use crate::meta;
use crate::storage::StoredObject;

/// The label with the hash of the template.
pub(super) const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";

/// The position of `spec.nodeName` in the selectable fields of Pods.
const NODE_NAME_FIELD: usize = 0;

/// Whether a stored Pod is assigned to a Node.
pub(super) fn is_assigned(pod: &StoredObject) -> bool {
    pod.fields.get(NODE_NAME_FIELD).is_some_and(|node| !node.is_empty())
}

/// Returns `status.phase`.
pub(super) fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

/// Whether the Pod has neither ended nor is being deleted.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_ended(pod) && !is_deleting(pod)
}

/// Whether the Pod's containers have ended.
pub(super) fn is_ended(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the Pod is ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    is_true(&pod["status"], "Ready")
}

/// Whether the Pod has been ready for `min_ready_seconds`.
pub(super) fn is_available(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> bool {
    is_ready(pod) && available_in(pod, min_ready_seconds, now).is_none()
}

/// Returns the time until a ready Pod is available; `None` if it is not ready, or available already.
pub(super) fn available_in(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> Option<Duration> {
    if min_ready_seconds <= 0 || !is_ready(pod) {
        return None;
    }
    let since = condition(&pod["status"], "Ready").and_then(|ready| time(&ready["lastTransitionTime"]));
    until(after_seconds(since.unwrap_or(now), min_ready_seconds), now)
}

/// Returns a new Pod of a template, in the namespace of its owner. Its name is generated from the owner's.
pub(super) fn from_template(template: &Value, owner_kind: Kind, owner: &Value) -> Value {
    let mut metadata = json!({
        "generateName": format!("{}-", meta::text(owner, "name")),
        "namespace": meta::text(owner, "namespace"),
        "ownerReferences": [owner_reference(owner_kind, owner)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// Orders Pods by which one is deleted first: unassigned, then pending, not ready, with a lower deletion cost, and younger
/// ones. After `ActivePodsWithRanks` in `k8s.io/kubernetes/pkg/controller`.
pub(super) fn sort_for_deletion(pods: &mut [impl Borrow<Value>]) {
    pods.sort_by_cached_key(|pod| {
        let pod = pod.borrow();
        let phase_rank = match phase(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost = pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"].as_str();
        let cost: i64 = cost.and_then(|cost| cost.parse().ok()).unwrap_or(0);
        let created = time(&pod["metadata"]["creationTimestamp"]).unwrap_or(Timestamp::MIN);
        let assigned = pod["spec"]["nodeName"].is_string();
        (
            assigned,
            phase_rank,
            is_ready(pod),
            cost,
            std::cmp::Reverse(created),
            meta::text(pod, "name").to_owned(),
        )
    });
}

/// Returns the number of a container port of a Pod by its name.
pub(super) fn named_port(pod: &Value, name: &str, protocol: &str) -> Option<i64> {
    let containers = items(&pod["spec"]["containers"]).iter();
    let mut ports = containers.flat_map(|container| items(&container["ports"]));
    let port =
        ports.find(|port| port["name"] == name && port["protocol"].as_str().unwrap_or("TCP") == protocol)?;
    Some(number(&port["containerPort"], 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::storage::{HistoryLimits, Storage};

    fn ready(name: &str, since: &str) -> Value {
        json!({
            "metadata": {"name": name, "creationTimestamp": since}, "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]},
        })
    }

    #[test]
    fn stored_pod_is_assigned_once_it_has_a_node() {
        let storage = Storage::new(HistoryLimits { events: 1, bytes: 1 }, 1);
        let registry = Registry::built_in(&storage);
        let pods = &registry.endpoint("", "v1", "pods").expect("served").resource;
        let stored = |spec: Value| StoredObject::unwritten(pods.draft(json!({"spec": spec})));
        assert!(is_assigned(&stored(json!({"nodeName": "n"}))));
        assert!(!is_assigned(&stored(json!({"schedulerName": "n"}))));
    }

    #[test]
    fn pod_is_available_after_the_minimum_ready_time() {
        let now = "2026-01-01T00:00:05Z".parse().expect("a time");
        let pod = ready("a", "2026-01-01T00:00:00Z");
        assert!(is_available(&pod, 5, now) && is_available(&pod, 0, now));
        assert!(!is_available(&pod, 8, now));
        assert_eq!(available_in(&pod, 8, now), Some(Duration::from_secs(3)));
    }

    #[test]
    fn unscheduled_unready_and_young_pods_are_deleted_first() {
        let old = ready("old", "2026-01-01T00:00:00Z");
        let young = ready("young", "2026-01-02T00:00:00Z");
        let unassigned = json!({"metadata": {"name": "unassigned"}, "status": {"phase": "Pending"}});
        let pending = json!({"metadata": {"name": "pending"}, "spec": {"nodeName": "n"}, "status": {"phase": "Pending"}});
        let mut cheap = old.clone();
        cheap["metadata"]["name"] = json!("cheap");
        cheap["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "-1"});
        let mut pods = [old, young, pending, cheap, unassigned];
        sort_for_deletion(&mut pods);
        let names: Vec<&str> = pods.iter().map(|pod| meta::text(pod, "name")).collect();
        assert_eq!(names, ["unassigned", "pending", "cheap", "young", "old"]);
    }
}
