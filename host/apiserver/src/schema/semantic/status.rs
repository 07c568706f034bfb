//! The status of built-in kinds, which controllers and the kubelet write.

use std::net::IpAddr;

use serde_json::Value;

use super::{
    autoscaling, device_status, entries, ip, items, job_status, names, pod_status, policy_status,
    push_invalid, quantity, quota, text, validate_non_negative,
};
use crate::go;
use crate::schema::builtin::BuiltinKind;
use crate::schema::field;
use crate::status::Causes;

/// Checks the status of an updated object, which differs from that of `old`.
pub(super) fn validate(kind: BuiltinKind, new: &Value, old: &Value, causes: &mut Causes) {
    let status = new.get("status").unwrap_or(&Value::Null);
    match (kind.group, kind.kind) {
        ("apps", "Deployment") => {
            let counts =
                ["observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
            validate_counts(status, &counts, causes);
            validate_counts(
                status,
                &["unavailableReplicas", "terminatingReplicas", "collisionCount"],
                causes,
            );
            validate_replicas(status, &["updatedReplicas", "readyReplicas", "availableReplicas"], causes);
            validate_available(status, "readyReplicas", causes);
        }
        ("apps", "ReplicaSet") | ("", "ReplicationController") => {
            let counts = [
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            ];
            validate_counts(status, &counts, causes);
            let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
            validate_replicas(status, &parts, causes);
            validate_available(status, "readyReplicas", causes);
        }
        ("apps", "StatefulSet") => {
            let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
            validate_counts(status, &["replicas"], causes);
            validate_counts(status, &parts, causes);
            validate_counts(status, &["observedGeneration", "collisionCount"], causes);
            validate_replicas(status, &parts, causes);
            validate_available(status, "status.readyReplicas", causes);
        }
        ("apps", "DaemonSet") => {
            let counts = [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ];
            validate_counts(status, &counts, causes);
        }
        ("batch", "Job") => job_status::validate(new, old, causes),
        ("", "Pod") => {
            pod_status::validate(status, old, causes);
            validate_pod(status, causes);
            pod_status::validate_users(status, causes);
        }
        ("", "ResourceQuota") => quota::validate_status(status, causes),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            validate_counts(status, &["currentReplicas", "desiredReplicas"], causes);
        }
        ("resource.k8s.io", "ResourceClaim") => device_status::validate(new, old, causes),
        ("policy", "PodDisruptionBudget") => autoscaling::validate_budget_status(status, causes),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            policy_status::validate(status, causes);
        }
        ("", "Service") => validate_load_balancer(new, old, causes),
        ("networking.k8s.io", "Ingress") => validate_points(new, old, false, causes),
        ("", "PersistentVolumeClaim") => {
            validate_allocation(status, causes);
            for (name, amount) in entries(status.get("capacity")) {
                if quantity::nanos(amount).is_some_and(|nanos| nanos < 0) {
                    let shown = quantity::canonical(amount).unwrap_or_default();
                    let path = field::key("status.capacity", name);
                    causes.push(field::invalid_shown(&path, &shown, "must be a valid resource quantity"));
                }
            }
        }
        _ => {}
    }
}

/// Checks what a claim says about the resources that it was given.
fn validate_allocation(status: &Value, causes: &mut Causes) {
    const STATES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    for (name, state) in entries(status.get("allocatedResourceStatuses")) {
        const PATH: &str = "status.allocatedResourceStatuses";
        validate_claim_resource(name, PATH, causes);
        // As in Kubernetes, the value is the name of the resource.
        if state.as_str().is_none_or(|state| !STATES.contains(&state)) {
            causes.push(field::not_supported(PATH, &name.as_str().into(), &STATES));
        }
    }
    for (name, _) in entries(status.get("allocatedResources")) {
        validate_claim_resource(name, "status.allocatedResources", causes);
    }
}

/// Checks the name of a resource that a claim can have: `storage`, or one with a domain.
fn validate_claim_resource(name: &str, path: &str, causes: &mut Causes) {
    let errors = names::qualified_name_errors(name);
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    if errors.is_empty() && is_native && name != "storage" {
        causes.push(field::not_supported(path, &name.into(), &["storage"]));
    }
    push_invalid(causes, path, name, errors);
}

fn validate_counts(status: &Value, names: &[&str], causes: &mut Causes) {
    for name in names {
        validate_non_negative(status, name, "status", causes);
    }
}

/// Checks that no count of Pods is greater than that of all of them.
fn validate_replicas(status: &Value, names: &[&str], causes: &mut Causes) {
    let all = count(status, "replicas");
    for name in names.iter().filter(|name| count(status, name) > all) {
        let value = count(status, name).into();
        let path = field::child("status", name);
        causes.push(field::invalid(&path, &value, "cannot be greater than status.replicas"));
    }
}

/// Checks that not more Pods are available than ready; `ready` is the name of that count in the message.
fn validate_available(status: &Value, ready: &str, causes: &mut Causes) {
    let available = count(status, "availableReplicas");
    if available > count(status, "readyReplicas") {
        let detail = format!("cannot be greater than {ready}");
        causes.push(field::invalid("status.availableReplicas", &available.into(), &detail));
    }
}

fn count(status: &Value, name: &str) -> i64 {
    status[name].as_i64().unwrap_or(0)
}

fn validate_pod(status: &Value, causes: &mut Causes) {
    for list in ["podIPs", "hostIPs"] {
        let path = field::child("status", list);
        // The single address stands for the list if that is absent.
        let single = list.strip_suffix('s').map(|name| text(status, name)).filter(|ip| !ip.is_empty());
        let listed: Vec<&str> = items(&status[list]).iter().map(|item| text(item, "ip")).collect();
        // As in Kubernetes, the single address of the Node is not checked.
        let is_checked = list == "podIPs" || !listed.is_empty();
        let addresses = if listed.is_empty() { single.into_iter().collect() } else { listed };
        let single = text(status, list.strip_suffix('s').unwrap_or_default());
        if let Some(first) = addresses.first().filter(|first| list == "hostIPs" && **first != single) {
            let path = field::child(&field::index(&path, 0), "ip");
            causes.push(field::invalid(&path, &Value::from(*first), "must be equal to `hostIP`"));
        }
        for (index, address) in addresses.iter().enumerate().filter(|_| is_checked) {
            validate_ip(address, &field::index(&path, index), causes);
        }
        validate_families(&addresses, &path, causes);
    }
}

/// Checks that a Pod or its Node has at most one address of each family.
fn validate_families(addresses: &[&str], path: &str, causes: &mut Causes) {
    let parsed: Vec<IpAddr> = addresses.iter().filter_map(|address| address.parse().ok()).collect();
    let four = parsed.iter().filter(|address| address.is_ipv4()).count();
    // Malformed addresses have causes of their own.
    if parsed.len() == addresses.len() && (four > 1 || parsed.len() - four > 1) {
        let shown: Vec<String> =
            addresses.iter().map(|ip| format!(r#"{{"IP":{}}}"#, go::json_text(ip))).collect();
        let detail = "may specify no more than one IP for each IP family";
        causes.push(field::invalid_shown(path, &format!("[{}]", shown.join(",")), detail));
    }
}

fn validate_load_balancer(new: &Value, old: &Value, causes: &mut Causes) {
    const PATH: &str = "status.loadBalancer.ingress";
    let ingress = new.pointer("/status/loadBalancer/ingress").unwrap_or(&Value::Null);
    let kind = new.pointer("/spec/type").and_then(Value::as_str).unwrap_or_default();
    let is_changed = old.pointer("/status/loadBalancer/ingress") != Some(ingress);
    if !items(ingress).is_empty() && kind != "LoadBalancer" && is_changed {
        causes.push(field::forbidden(PATH, "may only be used when `spec.type` is 'LoadBalancer'"));
        return;
    }
    validate_points(new, old, true, causes);
}

/// Checks the addresses of a load balancer. An address that the old object has is not checked again. `have_modes` is true for Services.
fn validate_points(new: &Value, old: &Value, have_modes: bool, causes: &mut Causes) {
    const POINTER: &str = "/status/loadBalancer/ingress";
    let [points, before] = [new, old].map(|object| items(object.pointer(POINTER).unwrap_or(&Value::Null)));
    for (index, point) in points.iter().enumerate() {
        let at = field::index("status.loadBalancer.ingress", index);
        let ip = text(point, "ip");
        let is_stored = before.iter().any(|point| text(point, "ip") == ip);
        if !ip.is_empty() && !is_stored {
            validate_ip(ip, &field::child(&at, "ip"), causes);
        }
        if have_modes {
            validate_mode(point, &at, causes);
        }
        let (name, at_name) = (text(point, "hostname"), field::child(&at, "hostname"));
        if !name.is_empty() {
            push_invalid(causes, &at_name, name, names::subdomain_errors(name));
            if name.parse::<IpAddr>().is_ok() {
                let detail = "must be a DNS name, not an IP address";
                causes.push(field::invalid(&at_name, &name.into(), detail));
            }
        }
    }
}

fn validate_mode(point: &Value, at: &str, causes: &mut Causes) {
    let (mode, path) = (&point["ipMode"], field::child(at, "ipMode"));
    match mode.as_str() {
        Some(_) if text(point, "ip").is_empty() => {
            causes.push(field::forbidden(&path, "may not be specified when `ip` is not set"));
        }
        Some("Proxy" | "VIP") | None => {}
        Some(_) => causes.push(field::not_supported(&path, mode, &["Proxy", "VIP"])),
    }
}

fn validate_ip(address: &str, path: &str, causes: &mut Causes) {
    if let Some(problem) = ip::address_error(address) {
        causes.push(field::invalid(path, &Value::from(address), problem));
    }
}
