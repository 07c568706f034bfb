//! Services: the allocation of cluster IPs and node ports, with the messages of
//! `k8s.io/kubernetes/pkg/registry/core/service`.

mod type_fields;
pub(super) mod warnings;

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use pilothouse_model::hash::{HashMap, HashSet};
use serde_json::{Map, Value, json};

use crate::identifiers::Identifiers;
use crate::meta;
use crate::registry::{Addresses, Endpoint, node_port, protocol};
use crate::schema::field;
use crate::status::Cause;

/// The range of cluster IPs, kubeadm's default.
const IP_RANGE: &str = "10.96.0.0/12";
/// The network address of [`IP_RANGE`].
const FIRST_IP: u32 = u32::from_be_bytes([10, 96, 0, 0]);
/// The number of addresses in [`IP_RANGE`].
const IP_COUNT: u32 = 1 << 20;
/// The range of node ports, Kubernetes' default.
const NODE_PORTS: RangeInclusive<u64> = 30000..=32767;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// The addresses and ports of all Services but one.
struct OtherServices<'a> {
    addresses: &'a Addresses,
    /// The namespace and name of that one.
    except: (&'a str, &'a str),
}

impl OtherServices<'_> {
    fn has_ip(&self, ip: &str) -> bool {
        self.addresses.has_ip(ip, self.except)
    }

    fn has_port(&self, port: u64, protocol: &str) -> bool {
        self.addresses.has_port(port, protocol, self.except)
    }
}

/// Calls `query` with the addresses of all Services but the one in `namespace` with `name`.
fn with_other_services<T: Default>(
    endpoint: &Endpoint,
    except: (&str, &str),
    query: impl FnOnce(&OtherServices<'_>) -> T,
) -> T {
    let Some(index) = &endpoint.resource.addresses else { return T::default() };
    index.read(&endpoint.resource.table, |addresses| query(&OtherServices { addresses, except }))
}

/// Sets the cluster IP, its families and the node ports of a Service unless the client did.
pub(in crate::rest) fn allocate(endpoint: &Endpoint, service: &mut Value, identifiers: &Identifiers) {
    set_absent(endpoint, service, identifiers, Allocation::WithAddress);
}

/// Which fields of a Service are set if they are absent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allocation {
    /// All.
    WithAddress,
    /// All but the cluster IP.
    WithoutAddress,
}

fn set_absent(endpoint: &Endpoint, service: &mut Value, identifiers: &Identifiers, allocation: Allocation) {
    let (namespace, name) =
        (meta::text(service, "namespace").to_owned(), meta::text(service, "name").to_owned());
    // Requests at the same time do not see each other's Services, so they must not start at the same address.
    let (spec, start) = (&mut service["spec"], identifiers.number());
    with_other_services(endpoint, (&namespace, &name), |others| {
        allocate_beside(others, spec, start, allocation);
    });
}

/// Sets the allocated fields of the stored Service that an update leaves out. Returns what is invalid.
pub(super) fn prepare_update(endpoint: &Endpoint, old: &Value, service: &mut Value) -> Vec<Cause> {
    keep_addresses(&old["spec"], &mut service["spec"]);
    keep_node_ports(&old["spec"], &mut service["spec"]);
    keep_health_check_port(&old["spec"], &mut service["spec"]);
    type_fields::drop_fields(old, service);
    validate(endpoint, service, Some(old))
}

/// Allocates what an updated Service does not have yet.
pub(super) fn finish_update(
    endpoint: &Endpoint,
    old: &Value,
    service: &mut Value,
    identifiers: &Identifiers,
) {
    let (had_address, was_external) =
        (old["spec"]["clusterIP"].is_string(), old["spec"]["type"] == "ExternalName");
    // As in Kubernetes, one that was created through its status stays without addresses, and gets everything else.
    let allocation =
        if had_address || was_external { Allocation::WithAddress } else { Allocation::WithoutAddress };
    set_absent(endpoint, service, identifiers, allocation);
}

/// Copies the addresses and what belongs to them.
fn keep_addresses(old: &Value, spec: &mut Value) {
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
fn keep_node_ports(old: &Value, spec: &mut Value) {
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
fn keep_health_check_port(old: &Value, spec: &mut Value) {
    const PORT: &str = "healthCheckNodePort";
    let needs_port = |spec: &Value| spec.as_object().is_some_and(type_fields::needs_health_check);
    if needs_port(old) && needs_port(spec) && spec[PORT].as_i64().unwrap_or(0) == 0 && !old[PORT].is_null() {
        spec[PORT] = old[PORT].clone();
    }
}

/// Returns what is wrong with the cluster IP and the node ports of a Service. `old` is the stored one on updates.
pub(super) fn validate(endpoint: &Endpoint, service: &Value, old: Option<&Value>) -> Vec<Cause> {
    let key = (meta::text(service, "namespace"), meta::text(service, "name"));
    with_other_services(endpoint, key, |others| check(others, &service["spec"], old.map(|old| &old["spec"])))
}

/// Sets the fields that are absent. The search for a free address and free ports starts at the position `start`.
fn allocate_beside(others: &OtherServices<'_>, spec: &mut Value, start: u32, allocation: Allocation) {
    let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
    if kind == "ExternalName" {
        return;
    }
    if allocation == Allocation::WithAddress {
        set_cluster_ip(others, spec, start);
    }
    set_ip_families(spec);
    if kind == "NodePort"
        || (kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != Value::Bool(false))
    {
        set_node_ports(others, spec, start);
    }
    let needs_port = spec.as_object().is_some_and(type_fields::needs_health_check)
        && spec["healthCheckNodePort"].as_i64().unwrap_or(0) == 0;
    if needs_port {
        let own: HashSet<u64> =
            spec["ports"].as_array().into_iter().flatten().filter_map(node_port).collect();
        let is_free = |number: &u64| !own.contains(number) && !others.has_port(*number, "TCP");
        if let Some(number) = node_ports_from(start).find(is_free) {
            spec["healthCheckNodePort"] = number.into();
        }
    }
}

/// Returns all node ports, beginning with the one at the position `start`.
fn node_ports_from(start: u32) -> impl Iterator<Item = u64> {
    let (first, count) = (*NODE_PORTS.start(), NODE_PORTS.end() - NODE_PORTS.start() + 1);
    (0..count).map(move |offset| first + (u64::from(start) + offset) % count)
}

fn set_cluster_ip(others: &OtherServices<'_>, spec: &mut Value, start: u32) {
    if spec["clusterIP"].as_str().is_none_or(str::is_empty) {
        if spec["clusterIPs"].as_array().is_some_and(|list| !list.is_empty()) {
            // Validation refuses a list without the single address.
            return;
        }
        // The first address is that of the network and the last one is for broadcasts.
        let usable = IP_COUNT - 2;
        let address = |offset: u32| FIRST_IP + 1 + (start % usable + offset) % usable;
        let mut free = (0..usable).map(|offset| Ipv4Addr::from(address(offset)).to_string());
        spec["clusterIP"] = free.find(|ip| !others.has_ip(ip)).unwrap_or_default().into();
    }
    if spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
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

fn check(others: &OtherServices<'_>, spec: &Value, old: Option<&Value>) -> Vec<Cause> {
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

/// Whether somebody else manages the endpoints of a Service, and their families.
fn is_open(spec: &Value) -> bool {
    spec["clusterIP"] == "None" && spec["selector"].as_object().is_none_or(Map::is_empty)
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
        Ok(address) if !is_in_range(address) => causes.push(refused(&format!(
            "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {IP_RANGE}"
        ))),
        Ok(_) if others.has_ip(&ip) => causes.push(refused("provided IP is already allocated")),
        Ok(_) => {}
    }
}

fn is_in_range(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => u32::from(address).checked_sub(FIRST_IP).is_some_and(|n| n < IP_COUNT),
        IpAddr::V6(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{ObjectDraft, StoredObject};

    /// Calls `query` with one address and one port that are taken.
    fn with_taken<T>(query: impl FnOnce(&OtherServices<'_>) -> T) -> T {
        let value = json!({
            "metadata": {"namespace": "n", "name": "s"},
            "spec": {"ports": [{"nodePort": 30000, "protocol": "TCP"}]},
        });
        let fields: Box<[Box<str>]> = Box::new(["10.96.0.1".into(), "NodePort".into()]);
        let mut addresses = Addresses::default();
        addresses.put(&StoredObject::new(ObjectDraft { value, fields, schema: 0 }, 1));
        query(&OtherServices { addresses: &addresses, except: ("", "") })
    }

    fn allocate_in(spec: &mut Value, start: u32) {
        with_taken(|others| allocate_beside(others, spec, start, Allocation::WithAddress));
    }

    fn problems(spec: &Value, old: Option<&Value>) -> Vec<Cause> {
        with_taken(|others| check(others, spec, old))
    }

    #[test]
    fn free_address_and_ports_are_allocated() {
        let mut spec =
            json!({"type": "NodePort", "ports": [{"port": 1}, {"port": 2}, {"port": 3, "nodePort": 30001}]});
        allocate_in(&mut spec, 0);
        assert_eq!(spec["clusterIPs"], json!(["10.96.0.2"]));
        let ports: Vec<_> = spec["ports"].as_array().expect("ports").iter().filter_map(node_port).collect();
        assert_eq!(ports, [30002, 30003, 30001]);
        assert!(problems(&spec, None).is_empty());
        let mut headless = json!({"clusterIP": "None", "ports": [{"port": 1}]});
        allocate_in(&mut headless, 0);
        assert_eq!(headless["clusterIPs"], json!(["None"]));
        assert!(headless["ports"][0]["nodePort"].is_null());
    }

    #[test]
    fn a_service_that_was_created_through_its_status_gets_families_and_ports_and_no_address() {
        let mut spec = json!({"type": "NodePort", "ports": [{"port": 1}]});
        with_taken(|others| allocate_beside(others, &mut spec, 0, Allocation::WithoutAddress));
        assert_eq!((&spec["clusterIP"], &spec["clusterIPs"]), (&Value::Null, &Value::Null));
        assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
        assert!(spec["ports"][0]["nodePort"].is_number());
    }

    #[test]
    fn search_starts_at_a_position_and_wraps_around() {
        let allocated = |start: u32| {
            let mut spec = json!({"type": "NodePort", "ports": [{"port": 1}]});
            allocate_in(&mut spec, start);
            (spec["clusterIP"].clone(), spec["ports"][0]["nodePort"].clone())
        };
        assert_eq!(allocated(5), (json!("10.96.0.6"), json!(30005)));
        assert_eq!(allocated(2768).1, 30001);
        assert_eq!(allocated(IP_COUNT - 3).0, "10.111.255.254");
        assert_eq!(allocated(IP_COUNT - 2).0, "10.96.0.2");
    }

    #[test]
    fn taken_and_foreign_addresses_and_ports_are_refused() {
        let messages = |spec: Value| -> Vec<String> {
            problems(&spec, None).into_iter().map(|cause| cause.message).collect()
        };
        let ip = |ip: &str| json!({"clusterIP": ip, "clusterIPs": [ip]});
        assert_eq!(
            messages(ip("10.96.0.1")),
            [
                r#"Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated"#
            ]
        );
        assert!(messages(ip("1.2.3.4"))[0].ends_with("The range of valid IPs is 10.96.0.0/12"));
        assert!(messages(ip("x"))[0].contains("must be a valid IP address"));
        assert_eq!(
            messages(json!({"ports": [{"nodePort": 30000}, {"nodePort": 80}]})),
            [
                "Invalid value: 30000: provided port is already allocated",
                "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"
            ]
        );
        assert_eq!(messages(json!({"ports": [{"nodePort": 30000, "protocol": "UDP"}]})), [""; 0]);
    }

    #[test]
    fn update_keeps_node_ports_by_name() {
        let ports = json!([{"name": "a", "port": 80, "nodePort": 30005}, {"name": "b", "port": 53, "nodePort": 30006}]);
        let old = json!({"type": "NodePort", "ports": ports});
        let mut new =
            json!({"type": "NodePort", "ports": [{"name": "c", "port": 53}, {"name": "a", "port": 81}]});
        keep_node_ports(&old, &mut new);
        let kept = json!([{"name": "c", "port": 53}, {"name": "a", "port": 81, "nodePort": 30005}]);
        assert_eq!(new["ports"], kept);
        let mut taken =
            json!({"type": "NodePort", "ports": [{"name": "a"}, {"name": "d", "nodePort": 30005}]});
        keep_node_ports(&old, &mut taken);
        assert_eq!(taken["ports"][0], json!({"name": "a"}), "another port has it");
    }

    #[test]
    fn ports_beyond_the_range_look_at_each_number_once() {
        // With a search of the whole range for each port, this test would take minutes.
        let ports: Vec<Value> = (0..100_000).map(|_| json!({})).collect();
        let mut spec = json!({"type": "NodePort", "ports": ports});
        allocate_in(&mut spec, 7);
        let ports = spec["ports"].as_array().expect("ports");
        assert_eq!(ports.iter().filter_map(node_port).count(), 2767, "30000 is taken");
        let old = json!({"type": "NodePort", "ports": (0..50_000).map(|index| json!({"name": index.to_string(), "nodePort": 30005})).collect::<Vec<_>>()});
        let mut new = old.clone();
        new["ports"].as_array_mut().expect("ports").iter_mut().for_each(|port| port["nodePort"] = json!(0));
        keep_node_ports(&old, &mut new);
        assert_eq!(new["ports"][49_999]["nodePort"], 30005);
    }

    #[test]
    fn update_keeps_the_port_of_the_health_check() {
        let spec = |port: Value| json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port});
        let kept = |mut new: Value| {
            keep_health_check_port(&spec(json!(30009)), &mut new);
            new["healthCheckNodePort"].clone()
        };
        assert_eq!(kept(spec(Value::Null)), 30009);
        assert_eq!(kept(spec(json!(0))), 30009);
        assert_eq!(kept(spec(json!(30010))), 30010, "validation refuses another one");
        let other = json!({"type": "ClusterIP"});
        assert_eq!(kept(other), Value::Null);
    }

    #[test]
    fn addresses_have_the_one_family_of_the_cluster() {
        let messages = |spec: Value| -> Vec<String> {
            problems(&spec, None)
                .into_iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect()
        };
        let both = json!(["IPv4", "IPv6"]);
        assert_eq!(messages(json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"]})), [""; 0]);
        assert_eq!(
            messages(json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": both})),
            [""; 0]
        );
        assert_eq!(
            messages(json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4"]})),
            [
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
            ]
        );
        assert_eq!(
            messages(json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": both})),
            [
                "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
            ]
        );
        assert_eq!(
            messages(json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": both})),
            ["spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster"]
        );
        let mut listed = json!({"clusterIPs": ["10.96.0.9"], "ports": [{"port": 1}]});
        allocate_in(&mut listed, 0);
        assert_eq!(listed["clusterIP"], Value::Null, "validation refuses it");
    }

    #[test]
    fn address_cannot_change() {
        let spec = |ip: &str| json!({"clusterIP": ip, "clusterIPs": [ip]});
        let causes = problems(&spec("10.96.0.9"), Some(&spec("10.96.0.8")));
        assert_eq!(causes[0].message, r#"Invalid value: ["10.96.0.9"]: may not change once set"#);
        assert!(problems(&spec("10.96.0.8"), Some(&spec("10.96.0.8"))).is_empty());
    }
}
