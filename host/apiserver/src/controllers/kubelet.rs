//! Simulated kubelets: Pods of simulated Nodes start and become ready, those of Jobs succeed, and Pods that are being deleted
//! end.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::cluster::Cluster;
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{
    Condition, after_seconds, is_deleting, is_true, items, set_condition, time, time_text, until,
};
use super::stage::Stages;
use super::{node, pod};

/// The name of the controller.
pub(super) const NAME: &str = "kubelet";

/// How long the containers of a Job's Pod run.
const JOB_SECONDS: i64 = 1;

/// Returns the controller of Pods that are assigned to a Node. It leaves Pods that match a stage to that stage.
pub(super) fn controller(stages: Stages) -> KindController {
    KindController::new(Kind::Pod, move |cluster, pod| reconcile(cluster, &stages, pod))
        .manager("kubelet")
        .only(pod::is_assigned)
        .triggers(&[(Kind::Node, Trigger::All)])
}

fn reconcile(cluster: &Cluster<'_>, stages: &Stages, pod: &Value) -> Plan {
    if stages.find(Kind::Pod, pod).is_some() {
        return Plan::default();
    }
    let node = pod["spec"]["nodeName"].as_str().and_then(|name| cluster.get(Kind::Node, "", name));
    // The number of writes so far makes collisions of addresses rare.
    plan(pod, node.as_ref(), cluster.state.storage.revision(), cluster.now)
}

/// Decides what happens to a Pod next. `number` selects its address.
fn plan(pod: &Value, node: Option<&Value>, number: u64, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if is_deleting(pod) {
        // Also on a Node that nobody simulates, because nothing else could end the Pod.
        plan.actions.push(Action::Remove);
        return plan;
    }
    let Some(node) = node.filter(|node| node::is_simulated(node)) else { return plan };
    match pod::phase(pod) {
        "" | "Pending" => plan.actions.push(Action::SetStatus(running(pod, node, number, now))),
        "Running" if runs_to_completion(pod) => {
            let started = time(&pod["status"]["startTime"]).unwrap_or(now);
            match until(after_seconds(started, JOB_SECONDS), now) {
                Some(delay) => plan.retry_after(delay),
                None => plan.actions.push(Action::SetStatus(succeeded(pod, now))),
            }
        }
        "Running" => {
            let mut status = pod["status"].clone();
            set_readiness(pod, &mut status, now);
            // A condition that a client wrote is left alone, unless readiness gates determine it.
            if !items(&pod["spec"]["readinessGates"]).is_empty() && status != pod["status"] {
                plan.actions.push(Action::SetStatus(status));
            }
        }
        _ => {}
    }
    plan
}

/// Whether the Pod belongs to a Job.
fn runs_to_completion(pod: &Value) -> bool {
    items(&pod["metadata"]["ownerReferences"])
        .iter()
        .any(|owner| owner["kind"] == "Job" && owner["controller"] == true)
}

/// Returns the status of a Pod whose containers have just started.
fn running(pod: &Value, node: &Value, number: u64, now: Timestamp) -> Value {
    let mut status = pod["status"].clone();
    let started = time_text(now);
    let host = items(&node["status"]["addresses"]).iter().find(|address| address["type"] == "InternalIP");
    let host = host.and_then(|address| address["address"].as_str()).unwrap_or("10.0.0.1");
    let address = if pod["spec"]["hostNetwork"] == true { host.to_owned() } else { pod_address(number) };
    status["phase"] = "Running".into();
    status["hostIP"] = host.into();
    status["hostIPs"] = json!([{"ip": host}]);
    status["podIP"] = address.as_str().into();
    status["podIPs"] = json!([{"ip": address}]);
    status["startTime"] = started.as_str().into();
    for kind in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady"] {
        set_condition(&mut status, Condition { kind, status: true, reason: "", message: "" }, &started);
    }
    let state = json!({"running": {"startedAt": started}});
    status["containerStatuses"] = containers(&pod["spec"]["containers"], &state, true);
    if !items(&pod["spec"]["initContainers"]).is_empty() {
        let ended = terminated(&started, &started);
        status["initContainerStatuses"] = items(&pod["spec"]["initContainers"])
            .iter()
            .map(|container| {
                // A sidecar keeps running.
                let is_sidecar = container["restartPolicy"] == "Always";
                container_status(container, if is_sidecar { &state } else { &ended }, true)
            })
            .collect();
    }
    set_readiness(pod, &mut status, now);
    status
}

/// Sets the condition `Ready`: true if all readiness gates are.
fn set_readiness(pod: &Value, status: &mut Value, now: Timestamp) {
    let gates = items(&pod["spec"]["readinessGates"]).iter();
    let mut closed =
        gates.filter_map(|gate| gate["conditionType"].as_str()).filter(|gate| !is_true(status, gate));
    let closed = closed.next().map(str::to_owned);
    let (reason, message) = match &closed {
        None => ("", String::new()),
        Some(gate) => (
            "ReadinessGatesNotReady",
            format!("corresponding condition of pod readiness gate \"{gate}\" does not exist."),
        ),
    };
    let ready = Condition { kind: "Ready", status: closed.is_none(), reason, message: &message };
    set_condition(status, ready, &time_text(now));
}

/// Returns the status of a Pod whose containers have ended without an error.
fn succeeded(pod: &Value, now: Timestamp) -> Value {
    let mut status = pod["status"].clone();
    let ended = time_text(now);
    status["phase"] = "Succeeded".into();
    let started = status["startTime"].as_str().unwrap_or(&ended).to_owned();
    status["containerStatuses"] =
        containers(&pod["spec"]["containers"], &terminated(&started, &ended), false);
    for kind in ["Ready", "ContainersReady"] {
        let condition = Condition { kind, status: false, reason: "PodCompleted", message: "" };
        set_condition(&mut status, condition, &ended);
    }
    status
}

fn terminated(started: &str, ended: &str) -> Value {
    json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": ended}})
}

fn containers(list: &Value, state: &Value, ready: bool) -> Value {
    items(list).iter().map(|container| container_status(container, state, ready)).collect()
}

fn container_status(container: &Value, state: &Value, ready: bool) -> Value {
    json!({
        "name": container["name"], "image": container["image"].as_str().unwrap_or_default(), "imageID": "",
        "ready": ready, "started": ready, "restartCount": 0, "state": state, "lastState": {},
    })
}

/// Returns an address in 10.128.0.0/9.
fn pod_address(number: u64) -> String {
    let number = number % 0x7F_FFFE + 1;
    format!("10.{}.{}.{}", 128 + (number >> 16), (number >> 8) & 0xFF, number & 0xFF)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:10Z";

    fn simulated() -> Value {
        json!({"metadata": {"name": "n", "annotations": {"pilothouse.dev/simulated": "true"}}})
    }

    fn pending(spec: &Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}})
    }

    fn decide(pod: &Value, node: &Value) -> Plan {
        plan(pod, Some(node), 0x1_0203, NOW.parse().expect("a time"))
    }

    fn next_status(plan: &Plan) -> Value {
        let [Action::SetStatus(status)] = plan.actions.as_slice() else { panic!("{plan:?}") };
        status.clone()
    }

    #[test]
    fn pod_of_a_simulated_node_runs_and_is_ready() {
        let pod = pending(
            &json!({"containers": [{"name": "c", "image": "i"}], "initContainers": [{"name": "d", "image": "i"}]}),
        );
        let status = next_status(&decide(&pod, &simulated()));
        assert_eq!(
            (&status["phase"], &status["podIP"], &status["qosClass"]),
            (&json!("Running"), &json!("10.129.2.4"), &json!("BestEffort"))
        );
        assert!(is_true(&status, "Ready") && is_true(&status, "Initialized"));
        assert!(status["containerStatuses"][0]["state"]["running"].is_object());
        assert!(status["initContainerStatuses"][0]["state"]["terminated"].is_object());
        assert_eq!(
            decide(&pod, &json!({"metadata": {"name": "n"}})),
            Plan::default(),
            "a Node of somebody else"
        );
    }

    #[test]
    fn pod_with_a_closed_readiness_gate_is_not_ready() {
        let mut pod =
            pending(&json!({"containers": [], "readinessGates": [{"conditionType": "example.com/lb"}]}));
        pod["status"] = next_status(&decide(&pod, &simulated()));
        assert!(!is_true(&pod["status"], "Ready"));
        assert_eq!(decide(&pod, &simulated()), Plan::default());
        let gate = Condition { kind: "example.com/lb", status: true, reason: "", message: "" };
        set_condition(&mut pod["status"], gate, NOW);
        assert!(is_true(&next_status(&decide(&pod, &simulated())), "Ready"));
    }

    #[test]
    fn pod_of_a_job_succeeds_after_a_second() {
        let mut pod = pending(&json!({"containers": [{"name": "c", "image": "i"}]}));
        pod["metadata"]["ownerReferences"] = json!([{"kind": "Job", "controller": true}]);
        pod["status"] = next_status(&decide(&pod, &simulated()));
        assert_eq!(decide(&pod, &simulated()).retry_after, Some(Duration::from_secs(1)));
        pod["status"]["startTime"] = json!("2026-01-01T00:00:09Z");
        let status = next_status(&decide(&pod, &simulated()));
        assert_eq!(status["phase"], "Succeeded");
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    }

    #[test]
    fn pod_that_is_being_deleted_ends_on_any_node() {
        let mut pod = pending(&json!({}));
        pod["metadata"]["deletionTimestamp"] = json!(NOW);
        assert_eq!(plan(&pod, None, 1, Timestamp::UNIX_EPOCH).actions, [Action::Remove]);
    }

    #[test]
    fn readiness_that_a_client_wrote_is_left_alone() {
        let mut pod = pending(&json!({"containers": []}));
        pod["status"] = next_status(&decide(&pod, &simulated()));
        let failing = Condition { kind: "Ready", status: false, reason: "Test", message: "" };
        set_condition(&mut pod["status"], failing, NOW);
        assert_eq!(decide(&pod, &simulated()), Plan::default());
    }
}
