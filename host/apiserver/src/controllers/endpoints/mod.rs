//! EndpointSlices and Endpoints of Services, after `k8s.io/kubernetes/pkg/controller/endpointslice` and
//! `k8s.io/kubernetes/pkg/controller/endpoint`.
//!
//! Both have a controller, `slices` and `endpoints_object`. They share how the Pods behind a Service are found.

mod endpoints_object;
mod slices;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use pilothouse_model::LabelSelector;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::kind::Kind;
use super::object::{is_deleting, items};
use super::pod;
use crate::meta;
use crate::storage::StoredObject;

pub(super) use endpoints_object::controller;
pub(super) use slices::controller as slice_controller;

const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

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

/// Returns the host name of a Pod in a headless Service.
fn hostname<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let is_in_subdomain = pod["spec"]["subdomain"] == *meta::text(service, "name");
    pod["spec"]["hostname"].as_str().filter(|hostname| is_in_subdomain && !hostname.is_empty())
}
