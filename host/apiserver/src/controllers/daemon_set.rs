//! DaemonSets, after `k8s.io/kubernetes/pkg/controller/daemon`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::claim::claim;
use super::cluster::{Cluster, MAX_PODS};
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{int_or_percent, is_deleting, items, number, selector, set_counter};
use super::pod_backoff::PodBackoff;
use super::{pod, revision, scheduler};
use crate::meta;

/// The maximum number of Pods created in one step.
const BURST: usize = 500;

/// Returns the controller of DaemonSets.
pub(super) fn controller() -> KindController {
    let mut backoff = PodBackoff::default();
    KindController::new(Kind::DaemonSet, move |cluster, set| reconcile(cluster, set, &mut backoff))
        .triggers(&[(Kind::Pod, Trigger::Owners), (Kind::Node, Trigger::All)])
}

fn reconcile(cluster: &Cluster<'_>, set: &Value, backoff: &mut PodBackoff) -> Plan {
    let Some(parsed) = selector(&set["spec"]["selector"], &set["spec"]["template"]) else {
        return Plan::default();
    };
    let claimed = claim(cluster, Kind::Pod, (Kind::DaemonSet, set), &parsed);
    let namespace = meta::text(set, "namespace");
    let situation = Situation {
        pods: claimed.objects,
        nodes: cluster.list(Kind::Node, None).iter().map(|node| node.value()).collect(),
        revisions: cluster.controlled_by(Kind::ControllerRevision, namespace, meta::text(set, "uid")),
        pod_allowance: cluster.pod_allowance(),
        now: cluster.now,
    };
    let mut plan = plan(set, situation, backoff);
    plan.actions.splice(0..0, claimed.actions);
    plan
}

/// What the decision depends on besides the DaemonSet.
struct Situation {
    pods: Vec<Value>,
    nodes: Vec<Value>,
    revisions: Vec<Value>,
    pod_allowance: usize,
    now: Timestamp,
}

/// Decides which Pods to create and delete, and the status.
fn plan(set: &Value, situation: Situation, backoff: &mut PodBackoff) -> Plan {
    let Situation { pods, nodes, revisions, pod_allowance, now } = situation;
    let mut plan = Plan::default();
    let current = revision::current(Kind::DaemonSet, set, &revisions);
    let hash = current.hash.clone();
    let mut by_node: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in &pods {
        by_node.entry(node_of(pod)).or_default().push(pod);
    }
    let eligible: BTreeSet<&str> =
        nodes.iter().filter(|node| is_eligible(set, node)).map(|node| meta::text(node, "name")).collect();
    if !is_deleting(set) {
        plan.actions.extend(current.actions);
        for (node, pods) in &by_node {
            // Pods of other Nodes, ended Pods, and all but the oldest Pod of a Node are superfluous.
            let mut keep = eligible.contains(node);
            for pod in pods.iter().filter(|pod| !is_deleting(pod)) {
                let is_failed = keep && pod::phase(pod) == "Failed";
                if is_failed && let Some(delay) = backoff.delay(&backoff_key(set, node), now) {
                    plan.retry_after(delay);
                } else if !keep || pod::is_ended(pod) {
                    if is_failed {
                        plan.actions.push(failed_pod_event(pod, node));
                    }
                    plan.actions.push(Action::delete(Kind::Pod, pod));
                } else {
                    keep = false;
                }
            }
        }
        let missing: Vec<&&str> = eligible.iter().filter(|node| !by_node.contains_key(**node)).collect();
        let count = missing.len().min(BURST).min(pod_allowance);
        for node in &missing[..count] {
            plan.actions.push(Action::Create(Kind::Pod, new_pod(set, node, &hash)));
        }
        if count < missing.len() {
            if count < BURST {
                let message =
                    format!("Error creating: the embedded API server simulates at most {MAX_PODS} Pods");
                plan.actions.push(Action::Event { warning: true, reason: "FailedCreate", message });
            }
            plan.retry_after(Duration::from_secs(5));
        }
        if missing.is_empty() {
            plan.actions.extend(rolling_update(set, &by_node, &eligible, &hash, now));
        }
        let in_use = BTreeSet::from([(meta::text(set, "namespace").into(), current.name.as_str().into())]);
        plan.actions.extend(revision::clean_up(set, &revisions, &in_use));
        let min_ready = number(&set["spec"]["minReadySeconds"], 0);
        for delay in pods.iter().filter_map(|pod| pod::available_in(pod, min_ready, now)) {
            plan.retry_after(delay);
        }
    }
    let status = status(set, &by_node, &eligible, &hash, now);
    if status != set["status"] {
        plan.actions.push(Action::SetStatus(status));
    }
    plan
}

/// Identifies the Pods of a Node that fail for the same reason. A new template starts without a delay.
fn backoff_key(set: &Value, node: &str) -> String {
    format!("{}/{}/{node}", meta::text(set, "uid"), meta::generation(set))
}

fn failed_pod_event(pod: &Value, node: &str) -> Action {
    let (namespace, name) = (meta::text(pod, "namespace"), meta::text(pod, "name"));
    let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
    Action::Event { warning: true, reason: "FailedDaemonPod", message }
}

/// Deletes Pods of old templates, as many as may be unavailable.
fn rolling_update(
    set: &Value,
    by_node: &BTreeMap<&str, Vec<&Value>>,
    eligible: &BTreeSet<&str>,
    hash: &str,
    now: Timestamp,
) -> Vec<Action> {
    let strategy = &set["spec"]["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        return Vec::new();
    }
    let total = i64::try_from(eligible.len()).unwrap_or(i64::MAX);
    let limit = match &strategy["rollingUpdate"]["maxUnavailable"] {
        Value::Null => 1,
        value => int_or_percent(value, total, true).max(1),
    };
    let min_ready = number(&set["spec"]["minReadySeconds"], 0);
    let is_available = |pod: &Value| !is_deleting(pod) && pod::is_available(pod, min_ready, now);
    let on_eligible = by_node.iter().filter(|(node, _)| eligible.contains(*node));
    let pods: Vec<&Value> = on_eligible.flat_map(|(_, pods)| pods.iter().copied()).collect();
    let unavailable = pods.iter().filter(|pod| !is_available(pod)).count();
    let mut allowed = limit.saturating_sub(i64::try_from(unavailable).unwrap_or(i64::MAX));
    let mut actions = Vec::new();
    for pod in pods.into_iter().filter(|pod| pod_hash(pod) != hash && !is_deleting(pod)) {
        // An old Pod that is unavailable anyway is replaced in any case.
        if is_available(pod) {
            if allowed <= 0 {
                continue;
            }
            allowed -= 1;
        }
        actions.push(Action::delete(Kind::Pod, pod));
    }
    actions
}

/// Whether a Pod of the set belongs on the Node.
fn is_eligible(set: &Value, node: &Value) -> bool {
    let mut pod = json!({"spec": set["spec"]["template"]["spec"]});
    pod["spec"]["tolerations"] = tolerations(set);
    scheduler::admits_daemon(&pod, node)
}

/// Returns the tolerations of the template and those that Pods of DaemonSets always have.
fn tolerations(set: &Value) -> Value {
    let own = items(&set["spec"]["template"]["spec"]["tolerations"]).iter().cloned();
    let tolerate = |name: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{name}"), "operator": "Exists", "effect": effect});
    let always = [
        tolerate("not-ready", "NoExecute"),
        tolerate("unreachable", "NoExecute"),
        tolerate("disk-pressure", "NoSchedule"),
        tolerate("memory-pressure", "NoSchedule"),
        tolerate("pid-pressure", "NoSchedule"),
        tolerate("unschedulable", "NoSchedule"),
    ];
    let always = always
        .into_iter()
        .filter(|one| !items(&set["spec"]["template"]["spec"]["tolerations"]).contains(one));
    own.chain(always).collect()
}

/// Returns the Pod of a Node. The scheduler assigns it, because of its affinity.
fn new_pod(set: &Value, node: &str, hash: &str) -> Value {
    let mut pod = pod::from_template(&set["spec"]["template"], Kind::DaemonSet, set);
    pod["metadata"]["labels"][revision::HASH_LABEL] = hash.into();
    let generation = meta::generation(set).to_string();
    pod["metadata"]["labels"]["pod-template-generation"] = generation.into();
    pod["spec"]["tolerations"] = tolerations(set);
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = required;
    pod
}

/// Returns the name of the Node that a Pod is assigned to, or is to be assigned to.
fn node_of(pod: &Value) -> &str {
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let wanted = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str();
    pod["spec"]["nodeName"].as_str().or(wanted).unwrap_or_default()
}

fn pod_hash(pod: &Value) -> &str {
    pod["metadata"]["labels"][revision::HASH_LABEL].as_str().unwrap_or_default()
}

/// Returns the status for the Pods that exist.
fn status(
    set: &Value,
    by_node: &BTreeMap<&str, Vec<&Value>>,
    eligible: &BTreeSet<&str>,
    hash: &str,
    now: Timestamp,
) -> Value {
    let mut status = set["status"].clone();
    let min_ready = number(&set["spec"]["minReadySeconds"], 0);
    // The number of eligible Nodes with a Pod that meets a condition.
    let count = |keep: &dyn Fn(&Value) -> bool| {
        let pods = eligible.iter().filter_map(|node| by_node.get(node));
        let nodes = pods.filter(|pods| pods.iter().any(|pod| !is_deleting(pod) && keep(pod))).count();
        i64::try_from(nodes).unwrap_or(i64::MAX)
    };
    let desired = i64::try_from(eligible.len()).unwrap_or(i64::MAX);
    let misscheduled = by_node.keys().filter(|node| !node.is_empty() && !eligible.contains(**node)).count();
    let available = count(&|pod| pod::is_available(pod, min_ready, now));
    status["desiredNumberScheduled"] = desired.into();
    status["currentNumberScheduled"] = count(&|_| true).into();
    status["numberMisscheduled"] = misscheduled.into();
    status["numberReady"] = count(&pod::is_ready).into();
    set_counter(&mut status, "updatedNumberScheduled", count(&|pod| pod_hash(pod) == hash));
    set_counter(&mut status, "numberAvailable", available);
    set_counter(&mut status, "numberUnavailable", desired - available);
    status["observedGeneration"] = meta::generation(set).into();
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(image: &str) -> Value {
        json!({
            "metadata": {"name": "agent", "namespace": "n", "uid": "u", "generation": 1},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"image": image}]}}},
        })
    }

    fn node(name: &str, spec: &Value) -> Value {
        json!({
            "metadata": {"name": name}, "spec": spec, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn decide(set: &Value, nodes: &[Value], pods: &[Value], revisions: &[Value]) -> Plan {
        let situation = Situation {
            pods: pods.to_vec(),
            nodes: nodes.to_vec(),
            revisions: revisions.to_vec(),
            pod_allowance: 100,
            now: Timestamp::UNIX_EPOCH,
        };
        plan(set, situation, &mut PodBackoff::default())
    }

    /// Returns the Pods and revisions that a plan creates; the Pods are ready.
    fn created(plan: &Plan) -> (Vec<Value>, Vec<Value>) {
        let (mut pods, mut revisions) = (Vec::new(), Vec::new());
        for action in &plan.actions {
            match action {
                Action::Create(Kind::Pod, pod) => {
                    let mut pod = pod.clone();
                    pod["metadata"]["name"] = format!("agent-{}", node_of(&pod)).into();
                    pod["metadata"]["uid"] = pod["metadata"]["name"].clone();
                    pod["status"] =
                        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
                    pods.push(pod);
                }
                Action::Create(_, revision) => revisions.push(revision.clone()),
                _ => {}
            }
        }
        (pods, revisions)
    }

    fn deletions(plan: &Plan) -> usize {
        plan.actions.iter().filter(|action| matches!(action, Action::Delete { kind: Kind::Pod, .. })).count()
    }

    #[test]
    fn every_eligible_node_gets_a_pod() {
        let nodes = [
            node("a", &json!({})),
            node("b", &json!({"unschedulable": true})),
            node("c", &json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})),
        ];
        let (pods, revisions) = created(&decide(&set("1"), &nodes, &[], &[]));
        assert_eq!(pods.iter().map(node_of).collect::<Vec<_>>(), ["a", "b"]);
        let plan = decide(&set("1"), &nodes, &pods, &revisions);
        let [Action::SetStatus(status)] = plan.actions.as_slice() else { panic!("{plan:?}") };
        assert_eq!(
            *status,
            json!({
                "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2,
                "updatedNumberScheduled": 2, "numberAvailable": 2, "observedGeneration": 1,
            })
        );
    }

    #[test]
    fn pods_of_nodes_that_are_gone_are_deleted() {
        let nodes = [node("a", &json!({})), node("b", &json!({}))];
        let (pods, revisions) = created(&decide(&set("1"), &nodes, &[], &[]));
        let plan = decide(&set("1"), &nodes[..1], &pods, &revisions);
        assert_eq!(deletions(&plan), 1);
    }

    #[test]
    fn failed_pod_is_replaced_after_a_delay_that_grows() {
        let nodes = [node("a", &json!({}))];
        let (mut pods, revisions) = created(&decide(&set("1"), &nodes, &[], &[]));
        pods[0]["status"] = json!({"phase": "Failed"});
        let mut backoff = PodBackoff::default();
        let mut decide_at = |seconds: i64| {
            let situation = Situation {
                pods: pods.clone(),
                nodes: nodes.to_vec(),
                revisions: revisions.clone(),
                pod_allowance: 100,
                now: Timestamp::from_second(seconds).expect("a time"),
            };
            plan(&set("1"), situation, &mut backoff)
        };
        let first = decide_at(0);
        assert_eq!(deletions(&first), 1, "the first failure is repaired at once");
        let event = |action: &Action| matches!(action, Action::Event { reason: "FailedDaemonPod", .. });
        assert!(first.actions.iter().any(event));
        let second = decide_at(0);
        assert_eq!((deletions(&second), second.retry_after), (0, Some(Duration::from_secs(1))));
        assert_eq!(deletions(&decide_at(1)), 1);
        let third = decide_at(1);
        assert_eq!((deletions(&third), third.retry_after), (0, Some(Duration::from_secs(2))));
    }

    #[test]
    fn rolling_update_replaces_one_pod_at_a_time() {
        let nodes = [node("a", &json!({})), node("b", &json!({}))];
        let (pods, mut revisions) = created(&decide(&set("1"), &nodes, &[], &[]));
        let first = decide(&set("2"), &nodes, &pods, &revisions);
        assert_eq!(deletions(&first), 1);
        revisions.extend(created(&first).1);
        let mut unready = pods.clone();
        unready[0] = created(&decide(&set("2"), &nodes, &pods[1..], &revisions)).0.remove(0);
        unready[0]["status"] = json!({"phase": "Pending"});
        assert_eq!(
            deletions(&decide(&set("2"), &nodes, &unready, &revisions)),
            0,
            "one is unavailable already"
        );
    }
}
