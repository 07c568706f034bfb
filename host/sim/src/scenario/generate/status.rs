//! Statuses of built-in kinds, as the components of a cluster write them that the world does not have: the kubelet, and the controllers of workloads.

use serde_json::{Value, json};

/// A step of an object's life, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It runs, and is ready.
    Runs,
    /// It has done its work. What runs until it is stopped is stopped.
    Ends,
    /// It fails, or is not ready any more.
    Fails,
}

impl Stage {
    /// Returns the word for the step that brings an object to the stage.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Runs => "start",
            Self::Ends => "finish",
            Self::Fails => "fail",
        }
    }
}

/// Whether the status of objects of a kind repeats a part of their specification.
pub(super) fn follows_from_specification(kind: &str) -> bool {
    matches!(kind, "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
}

/// Returns the stages of the first and of the second object of a kind.
pub(super) fn stages(kind: &str) -> [&'static [Stage]; 2] {
    use Stage::{Ends, Fails, Runs};
    match kind {
        "Pod" | "Job" => [&[Runs, Ends], &[Runs, Fails]],
        "Node" => [&[Runs, Fails], &[Runs]],
        kind if follows_from_specification(kind) => [&[Runs], &[Runs]],
        _ => [&[], &[]],
    }
}

/// Returns the merge patch that brings an object to a stage; `None` if it cannot come to it now. `now` is the time in RFC 3339.
pub(super) fn patch(kind: &str, object: &Value, stage: Stage, now: &str) -> Option<Value> {
    let status = match kind {
        "Pod" => pod(object, stage, now),
        "Job" => job(object, stage, now),
        "Node" => node(object, stage, now),
        kind if follows_from_specification(kind) => workload(kind, object, stage, now),
        _ => None,
    }?;
    Some(json!({ "status": status }))
}

fn condition(name: &str, status: &str, reason: &str, now: &str) -> Value {
    let mut condition = json!({"type": name, "status": status, "lastTransitionTime": now});
    if !reason.is_empty() {
        condition["reason"] = reason.into();
    }
    condition
}

fn pod(pod: &Value, stage: Stage, now: &str) -> Option<Value> {
    let phase = pod["status"]["phase"].as_str().unwrap_or("Pending");
    let expected = if stage == Stage::Runs { "Pending" } else { "Running" };
    if phase != expected {
        return None;
    }
    let containers = |is_ready: bool, state: &Value| -> Vec<Value> {
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let status = |container: &Value| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
                "ready": is_ready, "started": is_ready, "state": state,
            })
        };
        containers.map(status).collect()
    };
    let conditions = |ready: &str, reason: &str| {
        let first = ["PodScheduled", "Initialized"].map(|name| condition(name, "True", "", now));
        let last = ["ContainersReady", "Ready"].map(|name| condition(name, ready, reason, now));
        Value::from([first, last].concat())
    };
    if stage == Stage::Runs {
        let state = json!({"running": {"startedAt": now}});
        return Some(json!({
            "phase": "Running", "startTime": now, "conditions": conditions("True", ""),
            "containerStatuses": containers(true, &state),
        }));
    }
    // The kubelet starts the containers of such a Pod again, so it ends only if the kubelet evicts it.
    let is_restarted = pod["spec"]["restartPolicy"].as_str().unwrap_or("Always") == "Always";
    let has_succeeded = stage == Stage::Ends && !is_restarted;
    let (phase, code, reason) =
        if has_succeeded { ("Succeeded", 0, "Completed") } else { ("Failed", 1, "Error") };
    let ready = if has_succeeded { "PodCompleted" } else { "PodFailed" };
    let state =
        json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}});
    let mut status = json!({
        "phase": phase, "conditions": conditions("False", ready), "containerStatuses": containers(false, &state),
    });
    if is_restarted {
        status["reason"] = "Evicted".into();
        status["message"] = "The node was low on resource: memory.".into();
    }
    Some(status)
}

fn job(job: &Value, stage: Stage, now: &str) -> Option<Value> {
    let has_started = job["status"]["startTime"].is_string();
    let is_finished = job["status"]["conditions"].as_array().is_some_and(|conditions| !conditions.is_empty());
    if is_finished || has_started == (stage == Stage::Runs) || job["spec"]["suspend"] == true {
        return None;
    }
    Some(match stage {
        Stage::Runs => json!({"active": 1, "ready": 1, "startTime": now}),
        Stage::Ends => json!({
            "active": null, "ready": 0, "succeeded": 1, "completionTime": now,
            "conditions": [
                condition("SuccessCriteriaMet", "True", "CompletionsReached", now),
                condition("Complete", "True", "CompletionsReached", now),
            ],
        }),
        Stage::Fails => json!({
            "active": null, "ready": 0, "failed": 1,
            "conditions": [
                condition("FailureTarget", "True", "BackoffLimitExceeded", now),
                condition("Failed", "True", "BackoffLimitExceeded", now),
            ],
        }),
    })
}

fn node(node: &Value, stage: Stage, now: &str) -> Option<Value> {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
    match stage {
        Stage::Runs if !is_ready => {
            Some(json!({"conditions": [condition("Ready", "True", "KubeletReady", now)]}))
        }
        Stage::Fails if is_ready => {
            Some(json!({"conditions": [condition("Ready", "Unknown", "NodeStatusUnknown", now)]}))
        }
        _ => None,
    }
}

fn workload(kind: &str, workload: &Value, stage: Stage, now: &str) -> Option<Value> {
    if stage != Stage::Runs {
        return None;
    }
    let replicas = workload["spec"]["replicas"].as_u64().unwrap_or(1);
    let generation = &workload["metadata"]["generation"];
    Some(match kind {
        "Deployment" => json!({
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [
                condition("Progressing", "True", "NewReplicaSetAvailable", now),
                condition("Available", "True", "MinimumReplicasAvailable", now),
            ],
        }),
        "DaemonSet" => json!({
            "observedGeneration": generation, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
            "updatedNumberScheduled": 1, "numberReady": 1, "numberAvailable": 1, "numberMisscheduled": 0,
        }),
        _ => json!({
            "observedGeneration": generation, "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::merge::merged;

    const NOW: &str = "2026-01-01T00:01:00Z";

    /// Returns the object after the stages; the stages that it cannot come to change nothing.
    fn after(kind: &str, object: &Value, stages: &[Stage]) -> Value {
        stages.iter().fold(object.clone(), |object, stage| {
            patch(kind, &object, *stage, NOW).map_or(object.clone(), |patch| merged(&object, &patch))
        })
    }

    #[test]
    fn a_pod_runs_before_it_ends() {
        let pod = |policy: &str| json!({"spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "a"}]}});
        let phase =
            |policy: &str, stages: &[Stage]| after("Pod", &pod(policy), stages)["status"]["phase"].clone();
        assert_eq!(phase("Never", &[Stage::Ends]), Value::Null);
        assert_eq!(phase("Never", &[Stage::Runs]), "Running");
        assert_eq!(phase("Never", &[Stage::Runs, Stage::Ends]), "Succeeded");
        assert_eq!(phase("OnFailure", &[Stage::Runs, Stage::Fails]), "Failed");
        assert_eq!(phase("Never", &[Stage::Runs, Stage::Ends, Stage::Runs, Stage::Fails]), "Succeeded");
        let evicted = after("Pod", &pod("Always"), &[Stage::Runs, Stage::Ends]);
        assert_eq!(
            (&evicted["status"]["phase"], &evicted["status"]["reason"]),
            (&json!("Failed"), &json!("Evicted"))
        );
        let running = after("Pod", &pod("Always"), &[Stage::Runs]);
        assert_eq!(running["status"]["containerStatuses"][0]["ready"], true);
    }

    #[test]
    fn a_job_ends_once_and_not_while_it_is_suspended() {
        let job = |suspend: bool| json!({"spec": {"suspend": suspend}});
        let complete = after("Job", &job(false), &[Stage::Runs, Stage::Ends, Stage::Fails]);
        assert_eq!(
            (&complete["status"]["succeeded"], &complete["status"]["failed"]),
            (&json!(1), &Value::Null)
        );
        assert_eq!(after("Job", &job(false), &[Stage::Ends]), job(false), "it has not started");
        assert_eq!(after("Job", &job(true), &[Stage::Runs, Stage::Ends]), job(true));
    }

    #[test]
    fn nodes_and_workloads_become_ready() {
        let node = after("Node", &json!({}), &[Stage::Runs, Stage::Fails]);
        assert_eq!(node["status"]["conditions"][0]["status"], "Unknown");
        for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
            let workload = json!({"metadata": {"generation": 3}, "spec": {"replicas": 2}});
            let status = &after(kind, &workload, stages(kind)[0])["status"];
            assert_eq!(
                (&status["readyReplicas"], &status["observedGeneration"]),
                (&json!(2), &json!(3)),
                "{kind}"
            );
        }
        assert_eq!(patch("Secret", &json!({}), Stage::Runs, NOW), None);
    }
}
