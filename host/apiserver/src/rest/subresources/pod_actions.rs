//! The subresources of a Pod that are actions: binding and eviction, after `k8s.io/kubernetes/pkg/registry/core/pod/storage`.
//!
//! Admission decides about the Binding or the Eviction that the client sent, not about the writes that follow from it.

use pilothouse_model::LabelSelector;
use serde_json::{Map, Value, json};

use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::request::{Query, body};
use crate::rest::built_in_admission::topology_labels;
use crate::rest::verbs::delete::{DeleteOptions, check_preconditions, delete_unchecked};
use crate::rest::verbs::update::{ProposedUpdate, UpdateTarget, update_unchecked};
use crate::schema::field;
use crate::state::State;
use crate::status::{Cause, ResourceRef, Status};

/// The seconds after which an eviction is worth another attempt when the budget's status is outdated.
const RETRY_SECONDS: u32 = 10;

/// Assigns a Pod to the Node that a Binding names.
pub(in crate::rest) fn bind(
    state: &State,
    pods: &Endpoint,
    key: (&str, &str),
    mut binding: Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    body::check_type(&mut binding, pods, "v1", "Binding")?;
    let namespace = meta::text(&binding, "namespace");
    if !namespace.is_empty() && namespace != key.0 {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    check_name(&binding, key.1, "Binding")?;
    let causes = invalid_target(&binding["target"]);
    if !causes.is_empty() {
        let about = ResourceRef { group: "", plural: "bindings", kind: "Binding" };
        return Err(Status::invalid(about, key.1, causes));
    }
    if binding["target"]["kind"] == "Node" {
        let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
        topology_labels::copy(state, &node, &mut binding);
    }
    update_unchecked(state, pods, key, UpdateTarget::Binding, options, |old| {
        if let Some(problem) = unmet_precondition(old, &binding) {
            let root = if options.dry_run { "" } else { "/registry" };
            let problem = format!(
                "StorageError: invalid object, Code: 4, Key: {root}/pods/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: {problem}",
                key.0, key.1
            );
            return Err(Status::conflict(pods.resource_ref(), key.1, &problem));
        }
        let value = bound(old, &binding, &state.now()).map_err(|problem| {
            let about = ResourceRef { group: "", plural: "pods/binding", kind: "Pod" };
            Status::conflict(about, key.1, &problem)
        })?;
        // As in Kubernetes, no manager owns the fields.
        Ok(ProposedUpdate { value, applied: true, retry: true })
    })?;
    Ok(())
}

/// Deletes a Pod unless that violates its PodDisruptionBudget.
pub(in crate::rest) fn evict(
    state: &State,
    pods: &Endpoint,
    key: (&str, &str),
    mut eviction: Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    let version = match eviction["apiVersion"].as_str() {
        Some("policy/v1beta1") => "policy/v1beta1",
        _ => "policy/v1",
    };
    body::check_type(&mut eviction, pods, version, "Eviction")?;
    check_name(&eviction, key.1, "Eviction")?;
    let mut deletion = DeleteOptions::parse(&Query::default(), Some(&eviction["deleteOptions"]))?;
    deletion.dry_run |= options.dry_run;
    let (namespace, name) = key;
    let found = pods.resource.table.get(namespace, name);
    let found = found.ok_or_else(|| Status::not_found(pods.resource_ref(), name))?;
    let pod = found.value();
    if !is_always_evictable(&pod) {
        claim_disruption(state, &pod, deletion.dry_run)?;
        if !deletion.dry_run {
            check_preconditions(pods, &found, &deletion)?;
            // The changed Pod has another version.
            deletion.resource_version = None;
            let internal = WriteOptions::internal(&options.manager);
            update_unchecked(state, pods, key, UpdateTarget::Status, &internal, |old| {
                let value = with_condition(old, "DisruptionTarget", &state.now(), |condition| {
                    condition["reason"] = "EvictionByEvictionAPI".into();
                    condition["message"] = "Eviction API: evicting".into();
                });
                // As in Kubernetes, no manager owns the fields.
                Ok(ProposedUpdate { value, applied: true, retry: true })
            })?;
        }
    }
    delete_unchecked(state, pods, key, &deletion)?;
    Ok(())
}

/// Checks that an object in the body of a request has the name of the path.
fn check_name(value: &Value, name: &str, kind: &str) -> Result<(), Status> {
    match meta::text(value, "name") {
        found if found == name => Ok(()),
        _ => Err(Status::bad_request(format!("name in URL does not match name in {kind} object"))),
    }
}

/// Returns which precondition of a binding the Pod does not meet: the UID or the resource version that it names.
fn unmet_precondition(pod: &Value, binding: &Value) -> Option<String> {
    [("UID", "uid"), ("ResourceVersion", "resourceVersion")].into_iter().find_map(|(shown, name)| {
        let (expected, found) = (meta::text(binding, name), meta::text(pod, name));
        (!expected.is_empty() && expected != found)
            .then(|| format!("{shown} in precondition: {expected}, {shown} in object meta: {found}"))
    })
}

fn invalid_target(target: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !["", "Node"].contains(&target["kind"].as_str().unwrap_or_default()) {
        causes.push(field::not_supported("target.kind", &target["kind"], &["Node", "<empty>"]));
    }
    if target["name"].as_str().is_none_or(str::is_empty) {
        causes.push(field::required("target.name", ""));
    }
    causes
}

/// Returns the Pod with the Node, the annotations and the labels of a binding, or why it cannot be bound.
fn bound(pod: &Value, binding: &Value, now: &str) -> Result<Value, String> {
    let name = meta::text(pod, "name");
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return Err(format!("pod {name} is already assigned to node {node:?}"));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = with_condition(pod, "PodScheduled", now, |_| {});
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
        let annotations =
            meta::metadata_mut(&mut pod).entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        annotations[key] = value.clone();
    }
    for (label, value) in binding["metadata"]["labels"].as_object().into_iter().flatten() {
        topology_labels::set_label(&mut pod, label, value);
    }
    Ok(pod)
}

/// Returns the Pod with a condition that is true. `describe` sets its reason and message.
fn with_condition(pod: &Value, kind: &str, now: &str, describe: impl Fn(&mut Value)) -> Value {
    let mut pod = pod.clone();
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let before =
        conditions.iter().find(|condition| condition["type"] == kind && condition["status"] == "True");
    let since = before.map(|condition| condition["lastTransitionTime"].clone()).unwrap_or_default();
    let mut condition = json!({
        "type": kind, "status": "True", "lastProbeTime": null,
        "lastTransitionTime": if since.is_null() { Value::from(now) } else { since },
    });
    describe(&mut condition);
    conditions.retain(|other| other["type"] != kind);
    conditions.push(condition);
    pod["status"]["conditions"] = conditions.into();
    pod
}

/// Whether a Pod can be evicted whatever its budget is: it has ended, has not started or is being deleted.
fn is_always_evictable(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
        || pod["metadata"]["deletionTimestamp"].is_string()
}

/// What the PodDisruptionBudget of a Pod says to its eviction.
#[derive(Debug, PartialEq)]
enum Decision {
    /// The Pod can be evicted, and the budget does not change.
    Allowed,
    /// The Pod can be evicted, and this is the budget's status then.
    Counted(Value),
    /// The Pod cannot be evicted now.
    Refused { message: String, retry_seconds: u32 },
}

/// Counts the eviction of a Pod in the status of its budget.
///
/// # Errors
/// 429 if the budget does not allow the eviction, 500 if the Pod has several budgets.
fn claim_disruption(state: &State, pod: &Value, dry_run: bool) -> Result<(), Status> {
    let registry = state.registry();
    let Some(endpoint) = registry.endpoint("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
    let namespace = meta::text(pod, "namespace");
    let budgets = endpoint.resource.table.list(Some(namespace)).0;
    let mut matching = budgets.iter().filter(|budget| selects(&budget.value()["spec"]["selector"], pod));
    let Some(budget) = matching.next() else { return Ok(()) };
    if matching.next().is_some() {
        return Err(Status::unclassified(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    let options = WriteOptions { dry_run, ..WriteOptions::internal("kube-apiserver") };
    let key = (&*budget.namespace, &*budget.name);
    update_unchecked(state, endpoint, key, UpdateTarget::Status, &options, |old| {
        let mut value = old.clone();
        match decide(old, pod, &state.now()) {
            Decision::Allowed => {}
            Decision::Counted(status) => value["status"] = status,
            Decision::Refused { message, retry_seconds } => {
                let refusal = "Cannot evict pod as it would violate the pod's disruption budget.";
                let mut status = Status::too_many_requests(refusal, retry_seconds);
                if let Some(details) = &mut status.details {
                    let reason = "DisruptionBudget".to_owned();
                    details.causes.push(Cause { field: String::new(), reason, message });
                }
                return Err(status);
            }
        }
        Ok(ProposedUpdate { value, applied: false, retry: true })
    })?;
    Ok(())
}

/// Whether a budget's selector selects a Pod. An empty selector selects all Pods, none selects no Pod.
fn selects(selector: &Value, pod: &Value) -> bool {
    let labels = &pod["metadata"]["labels"];
    selector.is_object()
        && LabelSelector::from_json(selector)
            .is_ok_and(|selector| selector.matches(|key| labels.get(key).and_then(Value::as_str)))
}

fn decide(budget: &Value, pod: &Value, now: &str) -> Decision {
    let (name, status) = (meta::text(budget, "name"), &budget["status"]);
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    if !is_ready(pod) {
        let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        let is_healthy = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
        if always || is_healthy {
            return Decision::Allowed;
        }
    }
    if number("observedGeneration") < meta::generation(budget) {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        return Decision::Refused { message, retry_seconds: RETRY_SECONDS };
    }
    let allowed = number("disruptionsAllowed");
    if allowed <= 0 {
        let (desired, current) = (number("desiredHealthy"), number("currentHealthy"));
        let message = if current <= desired {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        } else {
            format!("The disruption budget {name} does not allow evicting pods currently")
        };
        return Decision::Refused { message, retry_seconds: 0 };
    }
    let mut status = status.clone();
    status["disruptionsAllowed"] = (allowed - 1).into();
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][meta::text(pod, "name")] = now.into();
    if allowed == 1 {
        set_insufficient(&mut status, now);
    }
    Decision::Counted(status)
}

/// Sets the condition that the budget allows no disruption.
fn set_insufficient(status: &mut Value, now: &str) {
    const KIND: &str = "DisruptionAllowed";
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let before =
        conditions.iter().find(|condition| condition["type"] == KIND && condition["status"] == "False");
    let since = before.map_or_else(|| now.into(), |condition| condition["lastTransitionTime"].clone());
    conditions.retain(|condition| condition["type"] != KIND);
    conditions.push(json!({
        "type": KIND, "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": status["observedGeneration"], "lastTransitionTime": since,
    }));
    status["conditions"] = conditions.into();
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(ready: &str) -> Value {
        json!({"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": {},
               "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn budget(observed: i64, allowed: i64, policy: &str) -> Value {
        json!({
            "metadata": {"name": "b", "generation": 2},
            "spec": {"unhealthyPodEvictionPolicy": policy},
            "status": {"observedGeneration": observed, "disruptionsAllowed": allowed, "desiredHealthy": 2, "currentHealthy": 1},
        })
    }

    #[test]
    fn eviction_is_counted_until_the_budget_is_used_up() {
        let Decision::Counted(status) = decide(&budget(2, 1, ""), &pod("True"), "now") else {
            panic!("the budget allows one")
        };
        assert_eq!(
            (&status["disruptionsAllowed"], &status["disruptedPods"]),
            (&json!(0), &json!({"p": "now"}))
        );
        assert_eq!(
            decide(&budget(2, 0, ""), &pod("True"), "now"),
            Decision::Refused {
                message: "The disruption budget b needs 2 healthy pods and has 1 currently".into(),
                retry_seconds: 0
            }
        );
        let outdated = decide(&budget(1, 1, ""), &pod("True"), "now");
        assert!(matches!(outdated, Decision::Refused { retry_seconds: 10, .. }), "{outdated:?}");
    }

    #[test]
    fn pod_that_is_not_ready_is_evicted_if_the_policy_says_so() {
        assert_eq!(decide(&budget(2, 0, "AlwaysAllow"), &pod("False"), "now"), Decision::Allowed);
        assert_ne!(decide(&budget(2, 0, "IfHealthyBudget"), &pod("False"), "now"), Decision::Allowed);
        let mut healthy = budget(2, 0, "");
        healthy["status"]["currentHealthy"] = json!(2);
        assert_eq!(decide(&healthy, &pod("False"), "now"), Decision::Allowed);
    }

    #[test]
    fn empty_selector_selects_all_pods_and_none_selects_no_pod() {
        assert!(selects(&json!({}), &pod("True")));
        assert!(!selects(&Value::Null, &pod("True")));
        assert!(selects(&json!({"matchLabels": {"app": "a"}}), &pod("True")));
        assert!(!selects(&json!({"matchLabels": {"app": "b"}}), &pod("True")));
    }

    #[test]
    fn pod_is_bound_once_and_not_while_it_is_gated_or_deleted() {
        let binding = json!({"target": {"name": "n"}, "metadata": {"annotations": {"a": "b"}}});
        let value = bound(&pod("False"), &binding, "now").expect("bound");
        assert_eq!(
            (&value["spec"]["nodeName"], &value["metadata"]["annotations"]["a"]),
            (&json!("n"), &json!("b"))
        );
        assert_eq!(value["status"]["conditions"][1]["type"], "PodScheduled");
        assert_eq!(bound(&value, &binding, "now"), Err("pod p is already assigned to node \"n\"".to_owned()));
        let mut gated = pod("False");
        gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
        assert!(bound(&gated, &binding, "now").is_err());
        let mut deleted = pod("False");
        deleted["metadata"]["deletionTimestamp"] = json!("now");
        assert!(bound(&deleted, &binding, "now").is_err());
        assert_eq!(invalid_target(&json!({"kind": "Pod"})).len(), 2);
    }
}
