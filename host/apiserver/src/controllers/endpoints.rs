//! EndpointSlices and Endpoints of Services, after `k8s.io/kubernetes/pkg/controller/endpointslice` and
//! `k8s.io/kubernetes/pkg/controller/endpoint`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use pilothouse_model::LabelSelector;
use serde_json::{Map, Value, json};

use super::action::{Action, Plan};
use super::cluster::Cluster;
use super::keyed::{Keyed, Trigger};
use super::kind::Kind;
use super::object::{Key, is_deleting, items, key, owner_reference};
use super::pod;
use crate::meta;
use crate::storage::StoredObject;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";
const MANAGED_BY: (&str, &str) =
    ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");
const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
const ENDPOINTS_MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The maximum number of endpoints of a slice, as in Kubernetes.
const SLICE_CAPACITY: usize = 100;
/// The maximum number of addresses of an Endpoints object, as in Kubernetes.
const ENDPOINTS_CAPACITY: usize = 1000;

/// Returns the controller of Endpoints.
pub(super) fn controller() -> Keyed {
    Keyed::new(Kind::Service, reconcile_endpoints)
        .triggers(&[(Kind::Pod, Trigger::Namespace), (Kind::Endpoints, Trigger::Name)])
        .on_missing(delete_endpoints)
}

/// Returns the controller of EndpointSlices.
pub(super) fn slice_controller() -> Keyed {
    Keyed::new(Kind::Service, reconcile_slices)
        .triggers(&[(Kind::Pod, Trigger::Namespace), (Kind::EndpointSlice, Trigger::Owners)])
}

/// The numbers of ports.
const PORTS: RangeInclusive<i64> = 1..=65535;

/// A Pod behind a Service.
struct Backend<'a> {
    pod: &'a Value,
    address: &'a str,
    is_ready: bool,
    /// The ports, with names resolved for this Pod.
    ports: Vec<Value>,
}

/// Returns the Pods that a Service selects, or `None` if it has no selector.
fn selected_pods(cluster: &Cluster<'_>, service: &Value) -> Option<Vec<Value>> {
    let labels = service["spec"]["selector"].as_object().filter(|labels| !labels.is_empty())?;
    if service["spec"]["type"] == "ExternalName" {
        return None;
    }
    let selector = LabelSelector::from_json(&json!({"matchLabels": labels})).ok()?;
    let is_selected = |pod: &StoredObject| selector.matches(|name| pod.labels.get(name));
    let pods = cluster.select(Kind::Pod, meta::text(service, "namespace"), is_selected);
    Some(pods.iter().map(|pod| pod.value()).collect())
}

/// Returns the Pods that have an address and have not ended, ordered by name.
fn backends<'a>(service: &Value, pods: &'a [Value]) -> Vec<Backend<'a>> {
    let publishes_all = service["spec"]["publishNotReadyAddresses"] == true;
    let mut backends: Vec<Backend<'a>> = pods
        .iter()
        .filter(|pod| !pod::is_ended(pod))
        .filter_map(|pod| {
            let address = pod["status"]["podIP"].as_str().filter(|address| !address.is_empty())?;
            let is_ready = publishes_all || (pod::is_ready(pod) && !is_deleting(pod));
            Some(Backend { pod, address, is_ready, ports: ports(service, pod) })
        })
        .collect();
    backends.sort_by_key(|backend| meta::text(backend.pod, "name").to_owned());
    backends
}

/// Returns the ports of a Service as a Pod serves them.
fn ports(service: &Value, pod: &Value) -> Vec<Value> {
    let mut ports = Vec::new();
    for port in items(&service["spec"]["ports"]) {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        let target = match &port["targetPort"] {
            Value::String(name) => pod::named_port(pod, name, protocol),
            Value::Number(number) if number.as_i64() != Some(0) => number.as_i64(),
            _ => port["port"].as_i64(),
        };
        // The numbers are not validated when Services and Pods are written.
        let Some(target) = target.filter(|target| PORTS.contains(target)) else { continue };
        let mut resolved = json!({
            "name": port["name"].as_str().unwrap_or_default(), "port": target, "protocol": protocol,
        });
        if let Some(application) = port["appProtocol"].as_str() {
            resolved["appProtocol"] = application.into();
        }
        ports.push(resolved);
    }
    ports
}

fn target_reference(pod: &Value) -> Value {
    json!({
        "kind": "Pod", "name": meta::text(pod, "name"), "namespace": meta::text(pod, "namespace"),
        "uid": meta::text(pod, "uid"),
    })
}

fn reconcile_slices(cluster: &Cluster<'_>, service: &Value) -> Plan {
    let Some(pods) = selected_pods(cluster, service) else { return Plan::default() };
    let namespace = meta::text(service, "namespace");
    let slices = cluster.controlled_by(Kind::EndpointSlice, namespace, meta::text(service, "uid"));
    plan_slices(service, &pods, &slices)
}

/// Decides which EndpointSlices to create, update and delete.
fn plan_slices(service: &Value, pods: &[Value], slices: &[Value]) -> Plan {
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

/// Returns the host name of a Pod in a headless Service.
fn hostname<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let is_in_subdomain = pod["spec"]["subdomain"] == *meta::text(service, "name");
    pod["spec"]["hostname"].as_str().filter(|hostname| is_in_subdomain && !hostname.is_empty())
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
fn plan_endpoints(service: &Value, pods: &[Value], current: Option<&Value>) -> Plan {
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

/// Returns a port without an empty name, which Endpoints omit.
fn endpoints_port(port: &Value) -> Value {
    let mut port = port.clone();
    if port["name"] == ""
        && let Some(port) = port.as_object_mut()
    {
        port.remove("name");
    }
    port
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "s", "labels": {"a": "b"}},
            "spec": {"clusterIP": "10.96.0.9", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
        })
    }

    fn pod(number: usize, ready: bool) -> Value {
        let ready = if ready { "True" } else { "False" };
        json!({
            "metadata": {"name": format!("p{number:03}"), "namespace": "n", "uid": format!("u{number}")},
            "spec": {"nodeName": "node", "containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {
                "phase": "Running", "podIP": format!("10.128.0.{number}"),
                "conditions": [{"type": "Ready", "status": ready}],
            },
        })
    }

    #[test]
    fn slice_has_the_addresses_conditions_and_resolved_ports() {
        let plan = plan_slices(&service(), &[pod(1, true), pod(2, false)], &[]);
        let [Action::Create(Kind::EndpointSlice, slice)] = plan.actions.as_slice() else {
            panic!("{plan:?}")
        };
        assert_eq!(slice["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
        assert_eq!(slice["endpoints"][0]["addresses"], json!(["10.128.0.1"]));
        assert_eq!(
            slice["endpoints"][1]["conditions"],
            json!({"ready": false, "serving": false, "terminating": false})
        );
        assert_eq!(
            slice["metadata"]["labels"],
            json!({"a": "b", SERVICE_LABEL: "web", MANAGED_BY.0: MANAGED_BY.1})
        );
        let settled = plan_slices(&service(), &[pod(1, true), pod(2, false)], std::slice::from_ref(slice));
        assert_eq!(settled, Plan::default());
    }

    #[test]
    fn target_port_that_is_no_port_number_is_left_out() {
        let mut service = service();
        for target in [-5, 65536] {
            service["spec"]["ports"] = json!([{"port": 80, "targetPort": target}]);
            assert_eq!(ports(&service, &pod(1, true)), [Value::Null; 0]);
            let plan = plan_endpoints(&service, &[pod(1, true)], None);
            assert!(matches!(plan.actions.as_slice(), [Action::Create(Kind::Endpoints, _)]), "{plan:?}");
        }
    }

    #[test]
    fn large_services_have_several_slices_and_superfluous_ones_are_deleted() {
        let pods: Vec<Value> = (0..250).map(|number| pod(number, true)).collect();
        let plan = plan_slices(&service(), &pods, &[]);
        let sizes: Vec<usize> = plan
            .actions
            .iter()
            .map(|action| match action {
                Action::Create(_, slice) => items(&slice["endpoints"]).len(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sizes, [100, 100, 50]);
        let slices: Vec<Value> = plan
            .actions
            .into_iter()
            .enumerate()
            .map(|(number, action)| match action {
                Action::Create(_, mut slice) => {
                    slice["metadata"]["name"] = format!("web-{number}").into();
                    slice
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let fewer = plan_slices(&service(), &pods[..100], &slices);
        assert_eq!(fewer.actions.len(), 2, "{fewer:?}");
        assert!(fewer.actions.iter().all(|action| matches!(action, Action::Delete { .. })));
    }

    #[test]
    fn endpoints_separate_ready_and_unready_addresses() {
        let pods = [pod(1, true), pod(2, false)];
        let plan = plan_endpoints(&service(), &pods, None);
        let [Action::Create(Kind::Endpoints, endpoints)] = plan.actions.as_slice() else {
            panic!("{plan:?}")
        };
        let subset = &endpoints["subsets"][0];
        assert_eq!(
            (&subset["addresses"][0]["ip"], &subset["notReadyAddresses"][0]["ip"], &subset["ports"]),
            (&json!("10.128.0.1"), &json!("10.128.0.2"), &json!([{"port": 8080, "protocol": "TCP"}]))
        );
        assert_eq!(plan_endpoints(&service(), &pods, Some(endpoints)), Plan::default());
        let changed = plan_endpoints(&service(), &pods[..1], Some(endpoints));
        assert!(matches!(changed.actions.as_slice(), [Action::Patch(Kind::Endpoints, ..)]), "{changed:?}");
    }
}
