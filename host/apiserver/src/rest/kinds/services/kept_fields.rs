//! The allocated fields of a stored Service that an update keeps if it leaves them out.

use pilothouse_model::hash::{HashMap, HashSet};
use serde_json::{Value, json};

use super::type_fields::needs_health_check;
use crate::registry::node_port;

/// Copies the addresses and what belongs to them.
pub(super) fn keep_addresses(old: &Value, spec: &mut Value) {
    const FIELDS: [&str; 5] =
        ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"];
    if spec["type"] == "ExternalName" {
        return;
    }
    let (before, after) = (&old["clusterIP"], spec["clusterIP"].clone());
    let has_address = after.as_str().is_some_and(|ip| !ip.is_empty());
    if has_address && before.is_string() && *before != after && spec["clusterIPs"] == old["clusterIPs"] {
        // The list follows the single address, which the client changed.
        spec["clusterIPs"] = json!([after]);
    }
    for field in FIELDS {
        let absent = spec[field].as_str().is_none_or(str::is_empty)
            && spec[field].as_array().is_none_or(Vec::is_empty);
        if absent && let Some(before) = old.get(field) {
            spec[field] = before.clone();
        }
    }
}

/// Copies the node ports of ports that stay, which are known by their names.
pub(super) fn keep_node_ports(old: &Value, spec: &mut Value) {
    let needs_ports = |spec: &Value| {
        spec["type"] == "NodePort"
            || (spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != Value::Bool(false))
    };
    if !needs_ports(old) || !needs_ports(spec) {
        return;
    }
    let before = old["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let given: HashSet<u64> = spec["ports"].as_array().into_iter().flatten().filter_map(node_port).collect();
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    // The last one of equal names counts, as in Kubernetes.
    let numbers: HashMap<String, Option<u64>> =
        before.iter().map(|port| (name(port), node_port(port))).collect();
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = numbers.get(&name(port)).copied().flatten();
        if node_port(port).is_none()
            && let Some(number) = number.filter(|number| !given.contains(number))
        {
            port["nodePort"] = number.into();
        }
    }
}

/// Copies the port on which Nodes report their health.
pub(super) fn keep_health_check_port(old: &Value, spec: &mut Value) {
    const PORT: &str = "healthCheckNodePort";
    let needs_port = |spec: &Value| spec.as_object().is_some_and(needs_health_check);
    if needs_port(old) && needs_port(spec) && spec[PORT].as_i64().unwrap_or(0) == 0 && !old[PORT].is_null() {
        spec[PORT] = old[PORT].clone();
    }
}
