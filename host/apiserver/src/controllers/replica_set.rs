//! ReplicaSets and ReplicationControllers, after `k8s.io/kubernetes/pkg/controller/replicaset`.

use std::time::Duration;

use jiff::Timestamp;
use pilothouse_model::LabelSelector;
use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::claim::claim;
use super::cluster::{Cluster, MAX_PODS};
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{
    Condition, has_labels, is_deleting, number, remove_condition, selector, set_condition, set_counter,
    time_text,
};
use super::pod;
use crate::meta;

/// The maximum number of Pods created or deleted in one step, as in Kubernetes.
const BURST: usize = 500;

/// When to try again to create Pods that were too many.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

const TRIGGERS: &[(Kind, Trigger)] = &[(Kind::Pod, Trigger::Owners)];

/// Returns the controller of ReplicaSets.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::ReplicaSet, |cluster, set| reconcile(cluster, Kind::ReplicaSet, set))
        .triggers(TRIGGERS)
}

/// Returns the controller of ReplicationControllers.
pub(super) fn replication_controller() -> KindController {
    let reconcile_controller =
        |cluster: &Cluster<'_>, set: &Value| reconcile(cluster, Kind::ReplicationController, set);
    KindController::new(Kind::ReplicationController, reconcile_controller).triggers(TRIGGERS)
}

fn reconcile(cluster: &Cluster<'_>, kind: Kind, set: &Value) -> Plan {
    let (template, own) = (&set["spec"]["template"], &set["spec"]["selector"]);
    let parsed = match kind {
        // The labels of the template are the default.
        Kind::ReplicationController if own.is_null() => {
            selector(&json!({"matchLabels": template["metadata"]["labels"]}), template)
        }
        Kind::ReplicationController => selector(&json!({"matchLabels": own}), template),
        _ => selector(own, template),
    };
    let Some(parsed) = parsed else { return Plan::default() };
    let claimed = claim(cluster, Kind::Pod, (kind, set), &parsed);
    let situation =
        Situation { pods: claimed.objects, pod_allowance: cluster.pod_allowance(), now: cluster.now };
    let mut plan = plan(kind, set, situation);
    plan.actions.splice(0..0, claimed.actions);
    plan
}

/// What the decision depends on besides the set.
struct Situation {
    pods: Vec<Value>,
    /// How many more Pods may exist.
    pod_allowance: usize,
    now: Timestamp,
}

/// Decides which Pods to create or delete, and the status.
fn plan(kind: Kind, set: &Value, situation: Situation) -> Plan {
    let Situation { pods, pod_allowance, now } = situation;
    let mut plan = Plan::default();
    let (mut active, mut surplus): (Vec<Value>, Vec<Value>) = (pods, Vec::new());
    active.retain(pod::is_active);
    let wanted = usize::try_from(number(&set["spec"]["replicas"], 1)).unwrap_or(0);
    let mut problem = None;
    if is_deleting(set) {
        // The garbage collector deletes the Pods.
    } else if active.len() < wanted {
        let missing = wanted - active.len();
        let count = missing.min(BURST).min(pod_allowance);
        for _ in 0..count {
            plan.actions
                .push(Action::Create(Kind::Pod, pod::from_template(&set["spec"]["template"], kind, set)));
        }
        if count == missing.min(BURST) && count < missing {
            plan.retry_after(super::STEP);
        } else if count < missing {
            let message = format!(
                "the embedded API server simulates at most {MAX_PODS} Pods; {missing} of {wanted} are missing"
            );
            plan.actions.push(Action::Event { warning: true, reason: "FailedCreate", message: cap_text() });
            plan.retry_after(RETRY_INTERVAL);
            problem = Some(message);
        }
    } else if active.len() > wanted {
        pod::sort_for_deletion(&mut active);
        surplus = active.drain(..(active.len() - wanted).min(BURST)).collect();
        plan.actions.extend(surplus.iter().map(|pod| Action::delete(Kind::Pod, pod)));
        if active.len() > wanted {
            plan.retry_after(super::STEP);
        }
    }
    // Pods that were just created or deleted are counted when that is observed.
    active.extend(surplus);
    let min_ready = number(&set["spec"]["minReadySeconds"], 0);
    for delay in active.iter().filter_map(|pod| pod::available_in(pod, min_ready, now)) {
        plan.retry_after(delay);
    }
    let new = status(set, &active, problem.as_deref(), now);
    if new != set["status"] {
        plan.actions.push(Action::SetStatus(new));
    }
    plan
}

fn cap_text() -> String {
    format!("Error creating: the embedded API server simulates at most {MAX_PODS} Pods")
}

/// Returns the status for the Pods that exist.
fn status(set: &Value, active: &[Value], problem: Option<&str>, now: Timestamp) -> Value {
    let mut status = set["status"].clone();
    let min_ready = number(&set["spec"]["minReadySeconds"], 0);
    let labels = json!({"matchLabels": set["spec"]["template"]["metadata"]["labels"]});
    let labels = LabelSelector::from_json(&labels).ok();
    let count = |keep: &dyn Fn(&Value) -> bool| {
        i64::try_from(active.iter().filter(|pod| keep(pod)).count()).unwrap_or(i64::MAX)
    };
    status["replicas"] = count(&|_| true).into();
    let labeled = count(&|pod| labels.as_ref().is_none_or(|labels| has_labels(pod, labels)));
    set_counter(&mut status, "fullyLabeledReplicas", labeled);
    set_counter(&mut status, "readyReplicas", count(&pod::is_ready));
    set_counter(&mut status, "availableReplicas", count(&|pod| pod::is_available(pod, min_ready, now)));
    status["observedGeneration"] = meta::generation(set).into();
    match problem {
        Some(message) => {
            let failure = Condition { kind: "ReplicaFailure", status: true, reason: "FailedCreate", message };
            set_condition(&mut status, failure, &time_text(now));
        }
        None => remove_condition(&mut status, "ReplicaFailure"),
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:10Z";

    fn set(replicas: i64) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "generation": 2},
            "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}},
            "status": {"replicas": 0},
        })
    }

    fn ready_pod(name: &str) -> Value {
        let since = "2026-01-01T00:00:00Z";
        json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"a": "b"}},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]},
        })
    }

    fn decide(set: &Value, pods: Vec<Value>, pod_allowance: usize) -> Plan {
        plan(Kind::ReplicaSet, set, Situation { pods, pod_allowance, now: NOW.parse().expect("a time") })
    }

    fn new_status(plan: &Plan) -> &Value {
        let status = plan.actions.iter().find_map(|action| match action {
            Action::SetStatus(status) => Some(status),
            _ => None,
        });
        status.expect("a status")
    }

    #[test]
    fn missing_pods_are_created_with_the_template_and_its_owner() {
        let plan = decide(&set(2), vec![ready_pod("a")], 100);
        let Action::Create(Kind::Pod, pod) = &plan.actions[0] else { panic!("{plan:?}") };
        assert_eq!(
            (&pod["metadata"]["generateName"], &pod["metadata"]["labels"]),
            (&json!("web-"), &json!({"a": "b"}))
        );
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert_eq!(
            *new_status(&plan),
            json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 2})
        );
    }

    #[test]
    fn surplus_pods_are_deleted() {
        let pending = json!({"metadata": {"name": "p", "uid": "p"}, "status": {"phase": "Pending"}});
        let plan = decide(&set(1), vec![ready_pod("a"), pending.clone()], 100);
        assert_eq!(plan.actions[0], Action::delete(Kind::Pod, &pending));
        assert_eq!(plan.actions.len(), 2, "{plan:?}");
    }

    #[test]
    fn number_of_pods_is_capped_with_a_condition_and_an_event() {
        let plan = decide(&set(1 << 31), Vec::new(), 3);
        let created = plan.actions.iter().filter(|action| matches!(action, Action::Create(..))).count();
        assert_eq!(created, 3);
        assert!(plan.actions.iter().any(|action| matches!(action, Action::Event { warning: true, .. })));
        let failure = &new_status(&plan)["conditions"][0];
        assert_eq!(
            (&failure["type"], &failure["reason"]),
            (&json!("ReplicaFailure"), &json!("FailedCreate"))
        );
        assert_eq!(plan.retry_after, Some(RETRY_INTERVAL));
        let large = decide(&set(1 << 31), Vec::new(), 10_000);
        assert!(large.actions.len() <= BURST + 1, "one step is bounded");
    }

    #[test]
    fn unchanged_set_is_not_written() {
        let mut set = set(1);
        set["status"] = new_status(&decide(&set, vec![ready_pod("a")], 9)).clone();
        assert_eq!(decide(&set, vec![ready_pod("a")], 9), Plan::default());
    }

    #[test]
    fn minimum_ready_time_delays_availability() {
        let mut set = set(1);
        set["spec"]["minReadySeconds"] = json!(30);
        let plan = decide(&set, vec![ready_pod("a")], 9);
        assert_eq!(new_status(&plan).get("availableReplicas"), None);
        assert_eq!(plan.retry_after, Some(Duration::from_secs(20)));
    }

    #[test]
    fn set_that_is_being_deleted_creates_no_pods() {
        let mut set = set(3);
        set["metadata"]["deletionTimestamp"] = json!(NOW);
        assert!(
            !decide(&set, Vec::new(), 9).actions.iter().any(|action| matches!(action, Action::Create(..)))
        );
    }
}
