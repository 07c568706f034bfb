//! Tests of the allocation, of what updates keep, and of validation.

use serde_json::{Value, json};

use super::OtherServices;
use super::allocation::{Allocation, RangeIsFull, allocate_beside};
use super::kept_fields::{keep_health_check_port, keep_node_ports};
use super::validation::check;
use crate::cluster_ip_range::ClusterIpRange;
use crate::registry::{Addresses, node_port};
use crate::status::Cause;
use crate::storage::{ObjectDraft, StoredObject};

/// Calls `query` with one address and one port that are taken.
fn with_taken<T>(query: impl FnOnce(&OtherServices<'_>) -> T) -> T {
    with_taken_ips(ClusterIpRange::default(), &["10.96.0.1"], query)
}

/// Calls `query` with addresses and one port that are taken.
fn with_taken_ips<T>(range: ClusterIpRange, ips: &[&str], query: impl FnOnce(&OtherServices<'_>) -> T) -> T {
    let mut addresses = Addresses::default();
    for ip in ips {
        let value = json!({
            "metadata": {"namespace": "n", "name": ip},
            "spec": {"ports": [{"nodePort": 30000, "protocol": "TCP"}]},
        });
        let fields: Box<[Box<str>]> = Box::new([(*ip).into(), "NodePort".into()]);
        addresses.put(&StoredObject::new(ObjectDraft { value, fields, schema: 0 }, 1));
    }
    query(&OtherServices { addresses: &addresses, range, except: ("", "") })
}

fn allocate_in(spec: &mut Value, start: u32) {
    with_taken(|others| allocate_beside(others, spec, start, Allocation::WithAddress))
        .expect("a free address");
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
    with_taken(|others| allocate_beside(others, &mut spec, 0, Allocation::WithoutAddress))
        .expect("no address");
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
    assert_eq!(allocated((1 << 20) - 3).0, "10.111.255.254");
    assert_eq!(allocated((1 << 20) - 2).0, "10.96.0.2");
}

#[test]
fn full_range_is_an_error_and_only_addresses_of_the_range_are_accepted() {
    let range: ClusterIpRange = "10.0.0.0/29".parse().expect("a range");
    let taken = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
    let allocated = |taken: &[&str]| {
        with_taken_ips(range, taken, |others| {
            let mut spec = json!({"ports": [{"port": 1}]});
            allocate_beside(others, &mut spec, 3, Allocation::WithAddress).map(|()| spec["clusterIP"].clone())
        })
    };
    assert_eq!(allocated(&taken), Ok(json!("10.0.0.6")));
    assert_eq!(allocated(&[&taken[..], &["10.0.0.6"]].concat()), Err(RangeIsFull));
    let refused = with_taken_ips(range, &[], |others| {
        check(others, &json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]}), None)
    });
    assert!(refused[0].message.ends_with("The range of valid IPs is 10.0.0.0/29"), "{}", refused[0].message);
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
    let ports =
        json!([{"name": "a", "port": 80, "nodePort": 30005}, {"name": "b", "port": 53, "nodePort": 30006}]);
    let old = json!({"type": "NodePort", "ports": ports});
    let mut new =
        json!({"type": "NodePort", "ports": [{"name": "c", "port": 53}, {"name": "a", "port": 81}]});
    keep_node_ports(&old, &mut new);
    let kept = json!([{"name": "c", "port": 53}, {"name": "a", "port": 81, "nodePort": 30005}]);
    assert_eq!(new["ports"], kept);
    let mut taken = json!({"type": "NodePort", "ports": [{"name": "a"}, {"name": "d", "nodePort": 30005}]});
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
        problems(&spec, None).into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
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
    let mut other_family =
        json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"], "ports": [{"port": 1}]});
    allocate_in(&mut other_family, 0);
    assert_eq!(
        messages(other_family),
        ["spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"]
    );
}

#[test]
fn address_cannot_change() {
    let spec = |ip: &str| json!({"clusterIP": ip, "clusterIPs": [ip]});
    let causes = problems(&spec("10.96.0.9"), Some(&spec("10.96.0.8")));
    assert_eq!(causes[0].message, r#"Invalid value: ["10.96.0.9"]: may not change once set"#);
    assert!(problems(&spec("10.96.0.8"), Some(&spec("10.96.0.8"))).is_empty());
}
