//! Chooses the cluster IP, the IP families and the node ports of a Service that has none.

use std::fmt;

use pilothouse_model::hash::{HashMap, HashSet};
use serde_json::{Value, json};

use super::type_fields::needs_health_check;
use super::{NODE_PORTS, OtherServices, is_open};
use crate::meta;
use crate::registry::{Endpoint, ReservedIp, node_port, protocol};
use crate::state::State;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Which fields of a Service are set if they are absent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Allocation {
    /// All.
    WithAddress,
    /// All but the cluster IP.
    WithoutAddress,
}

/// No cluster IP is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RangeIsFull;

impl fmt::Display for RangeIsFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("range is full")
    }
}

/// Sets the fields of a Service that are absent. Returns the reservation of its cluster IP, which must last until the Service is stored.
///
/// # Errors
/// Errors if no cluster IP is free.
pub(super) fn set_absent<'a>(
    state: &State,
    endpoint: &'a Endpoint,
    service: &mut Value,
    allocation: Allocation,
) -> Result<Option<ReservedIp<'a>>, RangeIsFull> {
    let Some(index) = &endpoint.resource.addresses else { return Ok(None) };
    let (namespace, name) =
        (meta::text(service, "namespace").to_owned(), meta::text(service, "name").to_owned());
    let key = (&*namespace, &*name);
    // Requests at the same time do not see each other's node ports, so they must not start at the same one.
    let (spec, start) = (&mut service["spec"], state.identifiers.number());
    let mut allocated = Ok(());
    let reserved = index.reserve(&endpoint.resource.table, key, |addresses| {
        let others = OtherServices { addresses, range: state.cluster_ips, except: key };
        allocated = allocate_beside(&others, spec, start, allocation);
        // Validation refuses one that another Service has.
        let ip = spec["clusterIP"].as_str().filter(|ip| !["", "None"].contains(ip) && !others.has_ip(ip));
        ip.map(str::to_owned)
    });
    allocated.map(|()| reserved)
}

/// Sets the fields that are absent. The search for a free address and free ports starts at the position `start`.
///
/// # Errors
/// Errors if no cluster IP is free.
pub(super) fn allocate_beside(
    others: &OtherServices<'_>,
    spec: &mut Value,
    start: u32,
    allocation: Allocation,
) -> Result<(), RangeIsFull> {
    let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
    if kind == "ExternalName" {
        return Ok(());
    }
    if allocation == Allocation::WithAddress {
        set_cluster_ip(others, spec, start)?;
    }
    set_ip_families(spec);
    if kind == "NodePort"
        || (kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != Value::Bool(false))
    {
        set_node_ports(others, spec, start);
    }
    let needs_port = spec.as_object().is_some_and(needs_health_check)
        && spec["healthCheckNodePort"].as_i64().unwrap_or(0) == 0;
    if needs_port {
        let own: HashSet<u64> =
            spec["ports"].as_array().into_iter().flatten().filter_map(node_port).collect();
        let is_free = |number: &u64| !own.contains(number) && !others.has_port(*number, "TCP");
        if let Some(number) = node_ports_from(start).find(is_free) {
            spec["healthCheckNodePort"] = number.into();
        }
    }
    Ok(())
}

/// Returns all node ports, beginning with the one at the position `start`.
fn node_ports_from(start: u32) -> impl Iterator<Item = u64> {
    let (first, count) = (*NODE_PORTS.start(), NODE_PORTS.end() - NODE_PORTS.start() + 1);
    (0..count).map(move |offset| first + (u64::from(start) + offset) % count)
}

fn set_cluster_ip(others: &OtherServices<'_>, spec: &mut Value, start: u32) -> Result<(), RangeIsFull> {
    if spec["clusterIP"].as_str().is_none_or(str::is_empty) {
        if spec["clusterIPs"].as_array().is_some_and(|list| !list.is_empty()) {
            // Validation refuses a list without the single address.
            return Ok(());
        }
        if spec["ipFamilies"][0] == "IPv6" {
            // Validation refuses the family.
            return Ok(());
        }
        let mut all = others.range.addresses_from(start).map(|ip| ip.to_string());
        spec["clusterIP"] = all.find(|ip| !others.has_ip(ip)).ok_or(RangeIsFull)?.into();
    }
    if spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
    Ok(())
}

fn set_ip_families(spec: &mut Value) {
    // As in Kubernetes, whoever manages the endpoints of a headless Service without a selector decides about their families.
    let is_open = is_open(spec);
    let is_dual = is_open && spec["ipFamilyPolicy"].is_null();
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = json!(if is_open { "RequireDualStack" } else { "SingleStack" });
    }
    match (spec["ipFamilies"].as_array().map_or(0, Vec::len), is_dual) {
        (0, true) => spec["ipFamilies"] = json!(["IPv4", "IPv6"]),
        (0, false) => spec["ipFamilies"] = json!(["IPv4"]),
        (1, true) => {
            let other = if spec["ipFamilies"][0] == "IPv4" { "IPv6" } else { "IPv4" };
            spec["ipFamilies"] = json!([spec["ipFamilies"][0], other]);
        }
        _ => {}
    }
}

fn set_node_ports(others: &OtherServices<'_>, spec: &mut Value, start: u32) {
    let given = spec["ports"].as_array().into_iter().flatten();
    let taken: HashSet<u64> = given.filter_map(node_port).collect();
    // A number that is not free for a protocol stays so: each protocol goes through the range once. Unknown protocols share one pass.
    let mut free: HashMap<String, _> = HashMap::default();
    let mut allocated: HashSet<u64> = HashSet::default();
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if node_port(port).is_some() {
            continue;
        }
        let protocol = protocol(port);
        let numbers = free
            .entry(if PROTOCOLS.contains(&&*protocol) { protocol.clone() } else { String::new() })
            .or_insert_with(|| node_ports_from(start));
        let is_free = |number: &u64| {
            !taken.contains(number) && !allocated.contains(number) && !others.has_port(*number, &protocol)
        };
        if let Some(number) = numbers.find(is_free) {
            allocated.insert(number);
            port["nodePort"] = number.into();
        }
    }
}
