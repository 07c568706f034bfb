//! A scheduler, after the filters of `k8s.io/kubernetes/pkg/scheduler` that do not count resources.

use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::cluster::Cluster;
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{Condition, condition, is_true, items, key, set_condition};
use super::{pod, volumes};
use crate::meta;

/// The name of the controller.
pub(super) const NAME: &str = "scheduler";

/// The scheduler's name in the specification of Pods.
const SCHEDULER_NAME: &str = "default-scheduler";

/// Returns the controller that assigns Pods to Nodes.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::Pod, reconcile)
        .manager("kube-scheduler")
        .only(|pod| !pod::is_assigned(pod))
        .triggers(&[(Kind::Node, Trigger::All)])
}

fn reconcile(cluster: &Cluster<'_>, pod: &Value) -> Plan {
    let nodes: Vec<Value> = cluster.list(Kind::Node, None).iter().map(|node| node.value()).collect();
    let mut plan = plan(pod, &nodes, &cluster.now_text());
    if let [Action::Bind { node }] = plan.actions.as_slice() {
        let claims =
            waiting_claims(cluster, pod).map(|claim| select_node_of(&claim, node)).collect::<Vec<_>>();
        plan.actions.splice(0..0, claims);
    }
    plan
}

/// Returns the claims of a Pod that get a volume only when the Pod has a Node.
fn waiting_claims<'a>(cluster: &'a Cluster<'_>, pod: &'a Value) -> impl Iterator<Item = Value> + 'a {
    let namespace = meta::text(pod, "namespace");
    let names = items(&pod["spec"]["volumes"])
        .iter()
        .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    names.filter_map(move |name| cluster.get(Kind::PersistentVolumeClaim, namespace, name)).filter(|claim| {
        let class = cluster.get(Kind::StorageClass, "", volumes::class(claim));
        claim["spec"]["volumeName"].is_null() && volumes::waits_for_consumer(claim, class.as_ref())
    })
}

fn select_node_of(claim: &Value, node: &str) -> Action {
    let patch = json!({"metadata": {"annotations": {volumes::SELECTED_NODE: node}}});
    Action::Patch(Kind::PersistentVolumeClaim, key(claim), patch)
}

/// Decides where a Pod runs.
fn plan(pod: &Value, nodes: &[Value], now: &str) -> Plan {
    let mut plan = Plan::default();
    let spec = &pod["spec"];
    let is_mine = spec["schedulerName"].as_str().unwrap_or(SCHEDULER_NAME) == SCHEDULER_NAME;
    if !is_mine || spec["nodeName"].is_string() || !pod::is_active(pod) {
        return plan;
    }
    if !items(&spec["schedulingGates"]).is_empty() {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        report(pod, &mut plan, "SchedulingGated", message, now);
        return plan;
    }
    match select_node(pod, nodes) {
        Ok(node) => plan.actions.push(Action::Bind { node }),
        Err(problem) => {
            if report(pod, &mut plan, "Unschedulable", &problem, now) {
                plan.actions.push(Action::Event {
                    warning: true,
                    reason: "FailedScheduling",
                    message: problem,
                });
            }
        }
    }
    plan
}

/// Reports why the Pod has no Node. Returns whether that is news.
fn report(pod: &Value, plan: &mut Plan, reason: &str, message: &str, now: &str) -> bool {
    let before = condition(&pod["status"], "PodScheduled");
    if before.is_some_and(|before| before["reason"] == reason && before["message"] == message) {
        return false;
    }
    let mut status = pod["status"].clone();
    set_condition(&mut status, Condition { kind: "PodScheduled", status: false, reason, message }, now);
    plan.actions.push(Action::SetStatus(status));
    true
}

/// Selects one of the Nodes on which the Pod can run, by its UID, so that Pods are spread.
fn select_node(pod: &Value, nodes: &[Value]) -> Result<String, String> {
    let (mut possible, mut problems) = (Vec::new(), std::collections::BTreeMap::<&str, usize>::new());
    for node in nodes {
        match problem(pod, node) {
            None => possible.push(meta::text(node, "name")),
            Some(problem) => *problems.entry(problem).or_default() += 1,
        }
    }
    if !possible.is_empty() {
        let sum = meta::text(pod, "uid")
            .bytes()
            .fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        return Ok(possible[sum % possible.len()].to_owned());
    }
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".into());
    }
    let problems: Vec<String> =
        problems.iter().map(|(problem, count)| format!("{count} node(s) {problem}")).collect();
    Err(format!("0/{} nodes are available: {}.", nodes.len(), problems.join(", ")))
}

/// Returns why the Pod cannot run on the Node.
fn problem(pod: &Value, node: &Value) -> Option<&'static str> {
    let tolerations = items(&pod["spec"]["tolerations"]);
    let is_tolerated = |key: &str, value: &str, effect: &str| {
        tolerations.iter().any(|one| tolerates(one, key, value, effect))
    };
    if node["spec"]["unschedulable"] == true
        && !is_tolerated("node.kubernetes.io/unschedulable", "", "NoSchedule")
    {
        return Some("were unschedulable");
    }
    let has_untolerated_taint = items(&node["spec"]["taints"]).iter().any(|taint| {
        let text = |name: &str| taint[name].as_str().unwrap_or_default();
        text("effect") != "PreferNoSchedule" && !is_tolerated(text("key"), text("value"), text("effect"))
    });
    if has_untolerated_taint {
        return Some("had untolerated taint(s)");
    }
    if !is_true(&node["status"], "Ready") && !is_tolerated("node.kubernetes.io/not-ready", "", "NoSchedule") {
        return Some("were not ready");
    }
    (!matches_node(pod, node)).then_some("didn't match Pod's node affinity/selector")
}

/// Whether a Pod of a DaemonSet, which tolerates Nodes that are not ready, belongs on the Node.
pub(super) fn admits_daemon(pod: &Value, node: &Value) -> bool {
    let tolerations = items(&pod["spec"]["tolerations"]);
    let is_tolerated = |taint: &Value| {
        let text = |name: &str| taint[name].as_str().unwrap_or_default();
        text("effect") == "PreferNoSchedule"
            || text("key") == "node.kubernetes.io/not-ready"
            || tolerations.iter().any(|one| tolerates(one, text("key"), text("value"), text("effect")))
    };
    items(&node["spec"]["taints"]).iter().all(is_tolerated) && matches_node(pod, node)
}

fn tolerates(toleration: &Value, key: &str, value: &str, effect: &str) -> bool {
    let text = |name: &str| toleration[name].as_str().unwrap_or_default();
    let has_key = text("key").is_empty() || text("key") == key;
    let has_effect = text("effect").is_empty() || text("effect") == effect;
    has_key
        && has_effect
        && (text("operator") == "Exists" || (text("value") == value && !text("key").is_empty()))
}

/// Whether the Node meets the Pod's `nodeSelector` and required node affinity.
fn matches_node(pod: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let mut selected = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    if selected.any(|(name, value)| labels[name.as_str()] != *value) {
        return false;
    }
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if required.is_null() {
        return true;
    }
    items(&required["nodeSelectorTerms"]).iter().any(|term| {
        let expressions = items(&term["matchExpressions"]);
        let fields = items(&term["matchFields"]);
        let label = |expression: &Value| labels[expression["key"].as_str().unwrap_or_default()].as_str();
        (!expressions.is_empty() || !fields.is_empty())
            && expressions.iter().all(|one| requirement_holds(one, label(one)))
            && fields.iter().all(|one| requirement_holds(one, Some(meta::text(node, "name"))))
    })
}

fn requirement_holds(requirement: &Value, found: Option<&str>) -> bool {
    let values = items(&requirement["values"]);
    let is_listed = || found.is_some_and(|found| values.iter().any(|value| value == found));
    let numbers = || {
        let bound: i64 = values.first()?.as_str()?.parse().ok()?;
        Some((found?.parse::<i64>().ok()?, bound))
    };
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => numbers().is_some_and(|(found, bound)| found > bound),
        "Lt" => numbers().is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(spec: &Value, labels: &Value) -> Value {
        json!({
            "metadata": {"name": "n", "labels": labels}, "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn pod(spec: &Value) -> Value {
        json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": {"phase": "Pending"}})
    }

    #[test]
    fn pod_is_bound_to_a_node_that_it_can_run_on() {
        let nodes = [node(&json!({"unschedulable": true}), &json!({})), node(&json!({}), &json!({}))];
        assert_eq!(plan(&pod(&json!({})), &nodes, "t").actions, [Action::Bind { node: "n".into() }]);
        for spec in [json!({"nodeName": "x"}), json!({"schedulerName": "mine"})] {
            assert_eq!(plan(&pod(&spec), &nodes, "t"), Plan::default());
        }
    }

    #[test]
    fn reasons_for_which_a_node_is_excluded_are_reported_once() {
        let tainted =
            node(&json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}), &json!({}));
        let nodes = [tainted, node(&json!({"unschedulable": true}), &json!({}))];
        let mut waiting = pod(&json!({}));
        let first = plan(&waiting, &nodes, "t");
        let [Action::SetStatus(status), Action::Event { message, .. }] = first.actions.as_slice() else {
            panic!("{first:?}")
        };
        assert_eq!(
            message,
            "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
        );
        waiting["status"] = status.clone();
        assert_eq!(plan(&waiting, &nodes, "later"), Plan::default());
        assert_eq!(select_node(&waiting, &[]).expect_err("none"), "no nodes available to schedule pods");
    }

    #[test]
    fn tolerations_admit_tainted_nodes() {
        let node = node(&json!({"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}), &json!({}));
        for (toleration, tolerated) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "value": "v"}), true),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), true),
            (json!({"key": "k", "value": "w"}), false),
            (json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), false),
        ] {
            let pod = pod(&json!({"tolerations": [toleration]}));
            assert_eq!(problem(&pod, &node).is_none(), tolerated, "{pod}");
        }
    }

    #[test]
    fn node_selector_and_affinity_exclude_other_nodes() {
        let node = node(&json!({}), &json!({"disk": "ssd", "cores": "8"}));
        let affinity = |term: Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            }}})
        };
        let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (spec, matches) in [
            (json!({"nodeSelector": {"disk": "ssd"}}), true),
            (json!({"nodeSelector": {"disk": "hdd"}}), false),
            (affinity(expression("disk", "In", json!(["ssd"]))), true),
            (affinity(expression("disk", "NotIn", json!(["ssd"]))), false),
            (affinity(expression("cores", "Gt", json!(["4"]))), true),
            (affinity(expression("cores", "Lt", json!(["4"]))), false),
            (
                affinity(
                    json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}),
                ),
                false,
            ),
            (affinity(json!({})), false),
        ] {
            let pod = pod(&spec);
            assert_eq!(matches_node(&pod, &node), matches, "{pod}");
        }
    }
}
