//! The controller of EndpointSlices.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Backend, HEADLESS_LABEL, backends, hostname, selected_pods, target_reference};
use crate::controllers::action::{Action, Plan};
use crate::controllers::cluster::Cluster;
use crate::controllers::kind::Kind;
use crate::controllers::kind_controller::{KindController, Trigger};
use crate::controllers::object::{is_deleting, items, key, owner_reference};
use crate::controllers::pod;
use crate::meta;

pub(super) const SERVICE_LABEL: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: (&str, &str) =
    ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");

/// The maximum number of endpoints of a slice, as in Kubernetes.
const SLICE_CAPACITY: usize = 100;

/// Returns the controller of EndpointSlices.
pub(in crate::controllers) fn controller() -> KindController {
    KindController::new(Kind::Service, reconcile_slices)
        .triggers(&[(Kind::Pod, Trigger::Namespace), (Kind::EndpointSlice, Trigger::Owners)])
}

fn reconcile_slices(cluster: &Cluster<'_>, service: &Value) -> Plan {
    let Some(pods) = selected_pods(cluster, service) else { return Plan::default() };
    let namespace = meta::text(service, "namespace");
    let slices = cluster.controlled_by(Kind::EndpointSlice, namespace, meta::text(service, "uid"));
    plan_slices(service, &pods, &slices)
}

/// Decides which EndpointSlices to create, update and delete.
pub(super) fn plan_slices(service: &Value, pods: &[Value], slices: &[Value]) -> Plan {
    let mut plan = Plan::default();
    if is_deleting(service) {
        return plan;
    }
    // Pods that resolve the named ports differently are in different slices.
    let mut groups: BTreeMap<String, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for backend in backends(service, pods) {
        let ports = Value::from(backend.ports.clone()).to_string();
        let group = groups.entry(ports).or_insert_with(|| (backend.ports.clone(), Vec::new()));
        group.1.push(endpoint(service, &backend));
    }
    let mut desired: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    for (ports, endpoints) in groups.into_values() {
        desired.extend(endpoints.chunks(SLICE_CAPACITY).map(|chunk| (ports.clone(), chunk.to_vec())));
    }
    if desired.is_empty() {
        // A Service without Pods has one empty slice.
        desired.push((Vec::new(), Vec::new()));
    }
    let mut existing: Vec<&Value> = slices
        .iter()
        .filter(|slice| slice["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1 && !is_deleting(slice))
        .collect();
    existing.sort_by_key(|slice| meta::text(slice, "name").to_owned());
    let labels = slice_labels(service);
    for (index, (ports, endpoints)) in desired.iter().enumerate() {
        let Some(slice) = existing.get(index) else {
            plan.actions
                .push(Action::Create(Kind::EndpointSlice, new_slice(service, &labels, ports, endpoints)));
            continue;
        };
        let is_current = items(&slice["endpoints"]) == endpoints.as_slice()
            && items(&slice["ports"]) == ports.as_slice()
            && slice["metadata"]["labels"] == labels;
        if !is_current {
            let patch = json!({"metadata": {"labels": labels}, "endpoints": endpoints, "ports": ports});
            plan.actions.push(Action::Patch(Kind::EndpointSlice, key(slice), patch));
        }
    }
    let surplus = existing.iter().skip(desired.len());
    plan.actions.extend(surplus.map(|slice| Action::delete(Kind::EndpointSlice, slice)));
    plan
}

/// Returns the endpoint of a Pod in a slice.
fn endpoint(service: &Value, backend: &Backend<'_>) -> Value {
    let is_terminating = is_deleting(backend.pod);
    let mut endpoint = json!({
        "addresses": [backend.address],
        "conditions": {
            "ready": backend.is_ready, "serving": backend.is_ready || pod::is_ready(backend.pod),
            "terminating": is_terminating,
        },
        "targetRef": target_reference(backend.pod),
    });
    if let Some(node) = backend.pod["spec"]["nodeName"].as_str() {
        endpoint["nodeName"] = node.into();
    }
    if let Some(hostname) = hostname(service, backend.pod) {
        endpoint["hostname"] = hostname.into();
    }
    endpoint
}

fn slice_labels(service: &Value) -> Value {
    let mut labels: Map<String, Value> =
        service["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.insert(SERVICE_LABEL.into(), meta::text(service, "name").into());
    labels.insert(MANAGED_BY.0.into(), MANAGED_BY.1.into());
    if service["spec"]["clusterIP"] == "None" {
        labels.insert(HEADLESS_LABEL.into(), "".into());
    }
    labels.into()
}

fn new_slice(service: &Value, labels: &Value, ports: &[Value], endpoints: &[Value]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", meta::text(service, "name")), "namespace": meta::text(service, "namespace"),
            "labels": labels, "ownerReferences": [owner_reference(Kind::Service, service)],
        },
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    })
}
