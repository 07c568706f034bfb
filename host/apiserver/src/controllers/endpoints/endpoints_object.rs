//! The controller of Endpoints.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Backend, HEADLESS_LABEL, backends, hostname, selected_pods, target_reference};
use crate::controllers::action::{Action, Plan};
use crate::controllers::cluster::Cluster;
use crate::controllers::kind::Kind;
use crate::controllers::kind_controller::{KindController, Trigger};
use crate::controllers::object::{Key, is_deleting, items, key};

const ENDPOINTS_MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The maximum number of addresses of an Endpoints object, as in Kubernetes.
const ENDPOINTS_CAPACITY: usize = 1000;

/// Returns the controller of Endpoints.
pub(in crate::controllers) fn controller() -> KindController {
    KindController::new(Kind::Service, reconcile_endpoints)
        .triggers(&[(Kind::Pod, Trigger::Namespace), (Kind::Endpoints, Trigger::Name)])
        .on_missing(delete_endpoints)
}

fn reconcile_endpoints(cluster: &Cluster<'_>, service: &Value) -> Plan {
    let Some(pods) = selected_pods(cluster, service) else { return Plan::default() };
    let (namespace, name) = key(service);
    let current = cluster.get(Kind::Endpoints, &namespace, &name);
    plan_endpoints(service, &pods, current.as_ref())
}

/// Deletes the Endpoints of a Service that was deleted.
fn delete_endpoints(cluster: &Cluster<'_>, (namespace, name): &Key) -> Vec<Action> {
    let found = cluster.get(Kind::Endpoints, namespace, name);
    // Those that a user created for a Service without a selector are left alone.
    let managed =
        found.filter(|found| found["metadata"]["labels"][ENDPOINTS_MANAGED_BY.0] == ENDPOINTS_MANAGED_BY.1);
    managed.iter().map(|endpoints| Action::delete(Kind::Endpoints, endpoints)).collect()
}

/// Decides how the Endpoints object of a Service changes.
pub(super) fn plan_endpoints(service: &Value, pods: &[Value], current: Option<&Value>) -> Plan {
    let mut plan = Plan::default();
    if is_deleting(service) {
        return plan;
    }
    let mut backends = backends(service, pods);
    let is_over_capacity = backends.len() > ENDPOINTS_CAPACITY;
    // Ready addresses are the last ones to be left out.
    backends.sort_by_key(|backend| !backend.is_ready);
    backends.truncate(ENDPOINTS_CAPACITY);
    let subsets = subsets(service, &backends);
    let mut labels: Map<String, Value> =
        service["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.insert(ENDPOINTS_MANAGED_BY.0.into(), ENDPOINTS_MANAGED_BY.1.into());
    if service["spec"]["clusterIP"] == "None" {
        labels.insert(HEADLESS_LABEL.into(), "".into());
    }
    let labels = Value::from(labels);
    let (namespace, name) = key(service);
    match current {
        None => {
            let mut endpoints = json!({
                "apiVersion": "v1", "kind": "Endpoints",
                "metadata": {"name": &*name, "namespace": &*namespace, "labels": labels},
                "subsets": subsets,
            });
            if is_over_capacity {
                endpoints["metadata"]["annotations"][OVER_CAPACITY] = "truncated".into();
            }
            plan.actions.push(Action::Create(Kind::Endpoints, endpoints));
        }
        Some(current) => {
            let was_over_capacity = !current["metadata"]["annotations"][OVER_CAPACITY].is_null();
            let is_current = items(&current["subsets"]) == subsets.as_slice()
                && current["metadata"]["labels"] == labels
                && was_over_capacity == is_over_capacity;
            if !is_current && !is_deleting(current) {
                let over = if is_over_capacity { "truncated".into() } else { Value::Null };
                let patch = json!({
                    "metadata": {"labels": labels, "annotations": {OVER_CAPACITY: over}}, "subsets": subsets,
                });
                plan.actions.push(Action::Patch(Kind::Endpoints, (namespace, name), patch));
            }
        }
    }
    plan
}

/// Returns the subsets of Endpoints: addresses with the same ports.
fn subsets(service: &Value, backends: &[Backend<'_>]) -> Vec<Value> {
    let mut groups: BTreeMap<String, Value> = BTreeMap::new();
    for backend in backends {
        let ports: Vec<Value> = backend.ports.iter().map(endpoints_port).collect();
        let group = groups
            .entry(Value::from(backend.ports.clone()).to_string())
            .or_insert_with(|| json!({"ports": ports}));
        let mut address = json!({"ip": backend.address, "targetRef": target_reference(backend.pod)});
        if let Some(node) = backend.pod["spec"]["nodeName"].as_str() {
            address["nodeName"] = node.into();
        }
        if let Some(hostname) = hostname(service, backend.pod) {
            address["hostname"] = hostname.into();
        }
        let list = if backend.is_ready { "addresses" } else { "notReadyAddresses" };
        match &mut group[list] {
            Value::Array(addresses) => addresses.push(address),
            other => *other = json!([address]),
        }
    }
    groups.into_values().collect()
}

/// Returns the port of a slice as Endpoints have it: without the name, if that is empty.
fn endpoints_port(port: &Value) -> Value {
    let mut port = port.clone();
    if port["name"] == ""
        && let Some(port) = port.as_object_mut()
    {
        port.remove("name");
    }
    port
}
