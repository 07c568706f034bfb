//! Which cluster IPs, IP families and node ports of a Service are refused.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use super::{NODE_PORTS, OtherServices, is_open};
use crate::registry::{node_port, protocol};
use crate::schema::field;
use crate::status::Cause;

/// Returns what is wrong with the specification of a Service. `old` is the stored one on updates.
pub(super) fn check(others: &OtherServices<'_>, spec: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    check_families(spec, &mut causes);
    check_cluster_ip(others, spec, old, &mut causes);
    for (index, port) in spec["ports"].as_array().into_iter().flatten().enumerate() {
        let Some(number) = node_port(port) else { continue };
        let path = field::child(&field::index("spec.ports", index), "nodePort");
        if !NODE_PORTS.contains(&number) {
            let detail = format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                NODE_PORTS.start(),
                NODE_PORTS.end()
            );
            causes.push(field::invalid(&path, &port["nodePort"], &detail));
        } else if others.has_port(number, &protocol(port)) {
            causes.push(field::invalid(&path, &port["nodePort"], "provided port is already allocated"));
        }
    }
    causes
}

/// Checks the families of a Service's addresses. The cluster has only IPv4 addresses.
fn check_families(spec: &Value, causes: &mut Vec<Cause>) {
    const PATH: &str = "spec.ipFamilyPolicy";
    if spec["type"] == "ExternalName" {
        return;
    }
    let policy = &spec["ipFamilyPolicy"];
    let families = spec["ipFamilies"].as_array().map_or(&[][..], Vec::as_slice);
    if policy == "SingleStack" {
        for (list, shown) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if spec[list].as_array().map_or(0, Vec::len) == 2 {
                let detail = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {shown} are specified"
                );
                causes.push(field::invalid(PATH, policy, &detail));
            }
        }
    }
    // Validation refuses families that do not fit each other or the address.
    let is_v4 = spec["clusterIP"].as_str().is_some_and(|ip| ip.parse::<Ipv4Addr>().is_ok());
    let is_refused = (families.len() > 1 && families[0] == families[1])
        || (is_v4 && families.first().is_some_and(|family| family == "IPv6"));
    if !causes.is_empty() || is_open(spec) || is_refused {
        return;
    }
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        causes.push(field::invalid(PATH, policy, detail));
    }
    for (index, family) in families.iter().enumerate().filter(|(_, family)| *family == "IPv6") {
        let at = field::index("spec.ipFamilies", index);
        causes.push(field::invalid(&at, family, "not configured on this cluster"));
    }
}

fn check_cluster_ip(others: &OtherServices<'_>, spec: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if spec["type"] == "ExternalName" {
        return;
    }
    let text = |spec: &Value| spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    let ip = text(spec);
    let before = old.filter(|old| old["type"] != "ExternalName").map(text).unwrap_or_default();
    if !before.is_empty() && before != ip {
        causes.push(field::invalid("spec.clusterIPs[0]", &spec["clusterIPs"], "may not change once set"));
        return;
    }
    if ip == "None" || ip.is_empty() || ip == before {
        return;
    }
    let refused = |problem: &str| {
        let detail = format!("failed to allocate IP {ip}: {problem}");
        field::invalid("spec.clusterIPs", &spec["clusterIPs"], &detail)
    };
    match ip.parse::<IpAddr>() {
        Err(_) => {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            causes.push(field::invalid("spec.clusterIPs[0]", &spec["clusterIP"], detail));
        }
        Ok(address) if !others.range.contains(address) => causes.push(refused(&format!(
            "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {}",
            others.range
        ))),
        Ok(_) if others.has_ip(&ip) => causes.push(refused("provided IP is already allocated")),
        Ok(_) => {}
    }
}
