//! Reports every workload as rolled out without creating Pods: all replicas exist and are updated, ready and available.
//!
//! It is for tests with more workloads than Pods can be simulated for, so it is not among the default controllers. Select it
//! instead of the controllers of the workloads.

use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::cluster::Cluster;
use super::kind::Kind;
use super::kind_controller::{ControllerGroup, KindController};
use super::object::{is_true, number, put_condition, set_counter};
use crate::meta;

/// The name of the controller.
pub(super) const NAME: &str = "workload-status";

/// Returns the controller of the status of Deployments, ReplicaSets, StatefulSets and ReplicationControllers.
pub(super) fn controller() -> ControllerGroup {
    let kinds = [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::ReplicationController];
    let controller_of = |kind: Kind| {
        KindController::new(kind, move |cluster: &Cluster<'_>, workload: &Value| {
            plan(kind, workload, &cluster.now_text())
        })
    };
    ControllerGroup(kinds.into_iter().map(controller_of).collect())
}

fn plan(kind: Kind, workload: &Value, now: &str) -> Plan {
    let mut plan = Plan::default();
    let status = status(kind, workload, now);
    if status != workload["status"] {
        plan.actions.push(Action::SetStatus(status));
    }
    plan
}

/// Returns the status of a workload that is rolled out.
fn status(kind: Kind, workload: &Value, now: &str) -> Value {
    let replicas = number(&workload["spec"]["replicas"], 1);
    let mut status = workload["status"].clone();
    status["observedGeneration"] = meta::generation(workload).into();
    let counters: &[&str] = match kind {
        Kind::Deployment => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        Kind::StatefulSet => &["updatedReplicas", "readyReplicas", "currentReplicas"],
        _ => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    };
    for counter in counters {
        set_counter(&mut status, counter, replicas);
    }
    match kind {
        Kind::Deployment => {
            set_counter(&mut status, "replicas", replicas);
            for (kind, reason, message) in [
                ("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
                ("Progressing", "NewReplicaSetAvailable", "Deployment has successfully progressed."),
            ] {
                if !is_true(&status, kind) {
                    let condition = json!({
                        "type": kind, "status": "True", "reason": reason, "message": message,
                        "lastUpdateTime": now, "lastTransitionTime": now,
                    });
                    put_condition(&mut status, condition);
                }
            }
        }
        Kind::StatefulSet => {
            let revision = format!("{}-1", meta::text(workload, "name"));
            status["replicas"] = replicas.into();
            status["availableReplicas"] = replicas.into();
            status["collisionCount"] = 0.into();
            status["currentRevision"] = revision.as_str().into();
            status["updateRevision"] = revision.into();
        }
        _ => status["replicas"] = replicas.into(),
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_replicas_are_available_and_times_stay() {
        let mut deployment = json!({"metadata": {"name": "a", "generation": 3}, "spec": {"replicas": 2}});
        let first = status(Kind::Deployment, &deployment, "t1");
        assert_eq!((&first["availableReplicas"], &first["observedGeneration"]), (&json!(2), &json!(3)));
        deployment["status"] = first;
        assert_eq!(plan(Kind::Deployment, &deployment, "t2"), Plan::default());
        let set = status(Kind::ReplicaSet, &json!({"metadata": {}, "spec": {"replicas": 0}}), "t");
        assert_eq!(set, json!({"replicas": 0, "observedGeneration": 0}));
    }
}
