//! The fields of a Service that its type does not need any longer, after `dropTypeDependentFields` in `k8s.io/kubernetes/pkg/registry/core/service`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Removes the fields that the type of an updated Service does not need and that the update did not change.
pub(super) fn drop_fields(old: &Value, service: &mut Value) {
    let (before, Some(spec)) = (&old["spec"], service.get_mut("spec").and_then(Value::as_object_mut)) else {
        return;
    };
    let is_same = |spec: &Map<String, Value>, name: &str| before.get(name) == spec.get(name);
    let kind =
        |spec: &Map<String, Value>| spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(before_spec) = before.as_object() else { return };
    let (old_kind, new_kind) = (kind(before_spec), kind(spec));
    if old_kind != "ExternalName" && new_kind == "ExternalName" {
        if is_same(spec, "clusterIP") && is_same(spec, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for name in ["ipFamilies", "ipFamilyPolicy"] {
            if is_same(spec, name) {
                spec.remove(name);
            }
        }
    }
    if has_node_ports(&old_kind)
        && !has_node_ports(&new_kind)
        && node_ports(before_spec).is_superset(&node_ports(spec))
    {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    let drops = [
        ("healthCheckNodePort", needs_health_check(before_spec) && !needs_health_check(spec)),
        ("allocateLoadBalancerNodePorts", old_kind == "LoadBalancer" && new_kind != "LoadBalancer"),
        ("loadBalancerClass", old_kind == "LoadBalancer" && new_kind != "LoadBalancer"),
        ("externalTrafficPolicy", is_externally_accessible(before_spec) && !is_externally_accessible(spec)),
    ];
    for (name, _) in drops.into_iter().filter(|(_, drops)| *drops) {
        if is_same(spec, name) {
            spec.remove(name);
        }
    }
    if new_kind == "ExternalName" {
        // An external name has no internal traffic, whatever the client sent.
        spec.remove("internalTrafficPolicy");
    }
    if new_kind != "LoadBalancer" && service["status"]["loadBalancer"]["ingress"].is_array() {
        service["status"]["loadBalancer"] = Value::Object(Map::new());
    }
}

/// Whether Services of this type may have node ports.
fn has_node_ports(kind: &str) -> bool {
    matches!(kind, "NodePort" | "LoadBalancer")
}

fn node_ports(spec: &Map<String, Value>) -> BTreeSet<i64> {
    let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
    ports.filter_map(|port| port["nodePort"].as_i64()).filter(|port| *port != 0).collect()
}

fn is(spec: &Map<String, Value>, name: &str, value: &str) -> bool {
    spec.get(name).is_some_and(|found| found == value)
}

/// Whether the load balancer of a Service asks its Nodes for their health.
pub(super) fn needs_health_check(spec: &Map<String, Value>) -> bool {
    is(spec, "type", "LoadBalancer") && is(spec, "externalTrafficPolicy", "Local")
}

/// Whether clients outside of the cluster can reach the Service.
fn is_externally_accessible(spec: &Map<String, Value>) -> bool {
    let has_external = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    has_node_ports(spec.get("type").and_then(Value::as_str).unwrap_or_default())
        || (is(spec, "type", "ClusterIP") && has_external)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn updated(old: &Value, new: &Value) -> Value {
        let mut service = json!({"spec": new});
        drop_fields(&json!({"spec": old}), &mut service);
        service["spec"].take()
    }

    #[test]
    fn node_ports_and_policies_of_the_former_type_are_dropped() {
        let old = json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001, "loadBalancerClass": "a/b",
            "allocateLoadBalancerNodePorts": true, "ports": [{"port": 80, "nodePort": 30000}],
        });
        let mut new = old.clone();
        new["type"] = json!("ClusterIP");
        assert_eq!(updated(&old, &new), json!({"type": "ClusterIP", "ports": [{"port": 80}]}));
        new["ports"][0]["nodePort"] = json!(30009);
        assert_eq!(updated(&old, &new)["ports"][0]["nodePort"], 30009, "the update changed it");
        assert_eq!(updated(&old, &old), old);
    }

    #[test]
    fn service_that_becomes_an_external_name_gives_up_its_address() {
        let old = json!({"type": "ClusterIP", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"]});
        let mut new = old.clone();
        new["type"] = json!("ExternalName");
        assert_eq!(updated(&old, &new), json!({"type": "ExternalName"}));
        new["clusterIP"] = json!("10.96.0.8");
        assert_eq!(updated(&old, &new)["clusterIP"], "10.96.0.8", "the update changed it");
    }
}
