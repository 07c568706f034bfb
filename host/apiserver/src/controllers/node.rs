//! Simulated Nodes.
//!
//! A Node with the annotation [`ANNOTATION`], or with that of KWOK, is simulated: it is ready, and its Pods run without
//! containers. One such Node exists from the start. Other Nodes belong to whoever created them.

use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::cluster::Cluster;
use super::kind::Kind;
use super::kind_controller::KindController;
use super::object::{Condition, is_true, items, key, set_condition};
use crate::meta;
use crate::request::options::WriteOptions;
use crate::rest::verbs::create::create;
use crate::state::State;

/// The name of the controller.
pub(super) const NAME: &str = "node";

/// The annotation of a simulated Node.
const ANNOTATION: &str = "pilothouse.dev/simulated";

const KWOK_ANNOTATION: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

const NODE_NAME: &str = "simulated-node";
const KUBELET: &str = "kubelet";
const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";

/// Returns the controller that makes simulated Nodes ready.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::Node, reconcile).manager(KUBELET)
}

/// Creates the Node that exists from the start.
pub(super) fn create_simulated_node(state: &State) {
    let registry = state.registry();
    let Some(nodes) = registry.endpoint("", "v1", "nodes") else { return };
    if nodes.resource.table.get("", NODE_NAME).is_some() {
        return;
    }
    let labels = json!({
        "kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
    });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NODE_NAME, "labels": labels, "annotations": {ANNOTATION: "true"}},
        "spec": {},
    });
    if let Err(error) = create(state, nodes, None, node, &WriteOptions::internal(KUBELET)) {
        tracing::warn!(%error, "cannot create the simulated Node, so Pods stay pending");
    }
}

/// Whether a Node is simulated.
pub(super) fn is_simulated(node: &Value) -> bool {
    let annotations = &node["metadata"]["annotations"];
    annotations[ANNOTATION] == "true" || annotations[KWOK_ANNOTATION.0] == KWOK_ANNOTATION.1
}

fn reconcile(cluster: &Cluster<'_>, node: &Value) -> Plan {
    plan(node, &cluster.now_text())
}

/// Decides how a Node becomes ready.
fn plan(node: &Value, now: &str) -> Plan {
    let mut plan = Plan::default();
    if !is_simulated(node) {
        return plan;
    }
    if !is_true(&node["status"], "Ready") {
        plan.actions.push(Action::SetStatus(ready_status(node, now)));
    }
    let taints = items(&node["spec"]["taints"]);
    if taints.iter().any(|taint| taint["key"] == NOT_READY_TAINT) {
        let rest: Vec<&Value> = taints.iter().filter(|taint| taint["key"] != NOT_READY_TAINT).collect();
        let taints = if rest.is_empty() { Value::Null } else { json!(rest) };
        plan.actions.push(Action::Patch(Kind::Node, key(node), json!({"spec": {"taints": taints}})));
    }
    plan
}

fn ready_status(node: &Value, now: &str) -> Value {
    let mut status = node["status"].clone();
    let amounts = json!({"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "1000000"});
    let defaults = json!({
        "capacity": amounts, "allocatable": amounts,
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "Hostname", "address": meta::text(node, "name")},
        ],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "osImage": "simulated", "kernelVersion": "simulated",
            "containerRuntimeVersion": "simulated://1", "kubeletVersion": "v1.36.0", "kubeProxyVersion": "",
            "bootID": "", "machineID": "", "systemUUID": "",
        },
    });
    for (field, value) in defaults.as_object().into_iter().flatten() {
        if status[field].is_null() {
            status[field] = value.clone();
        }
    }
    for (kind, is_ok, reason, message) in [
        ("MemoryPressure", false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", true, "KubeletReady", "the Node is simulated"),
    ] {
        set_condition(&mut status, Condition { kind, status: is_ok, reason, message }, now);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_simulated_nodes_become_ready() {
        let mut node = json!({"metadata": {"name": "n"}, "spec": {}, "status": {}});
        assert_eq!(plan(&node, "t"), Plan::default());
        for (name, value) in [(ANNOTATION, "true"), KWOK_ANNOTATION] {
            node["metadata"]["annotations"] = json!({name: value});
            let plan = plan(&node, "t");
            let [Action::SetStatus(status)] = plan.actions.as_slice() else { panic!("{plan:?}") };
            assert!(is_true(status, "Ready") && !is_true(status, "DiskPressure"));
        }
    }

    #[test]
    fn ready_node_loses_the_taint_of_new_nodes_only() {
        let node = json!({
            "metadata": {"name": "n", "annotations": {ANNOTATION: "true"}},
            "spec": {"taints": [{"key": NOT_READY_TAINT, "effect": "NoSchedule"}, {"key": "mine"}]},
            "status": ready_status(&json!({}), "t"),
        });
        let patch = json!({"spec": {"taints": [{"key": "mine"}]}});
        assert_eq!(plan(&node, "t").actions, [Action::Patch(Kind::Node, key(&node), patch)]);
    }
}
