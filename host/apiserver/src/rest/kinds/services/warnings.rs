//! The warnings about Services, after `k8s.io/kubernetes/pkg/api/service`.

use std::net::IpAddr;

use serde_json::Value;

use crate::schema::field;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";

/// Returns the warnings about a valid Service.
pub(in crate::rest) fn of_service(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = &service["spec"];
    if !service["metadata"]["annotations"][HINTS].is_null() {
        warnings.push(format!("annotation {HINTS} is deprecated, please use {MODE} instead"));
    }
    let is_headless = spec["type"] == "ClusterIP" && spec["clusterIP"] == "None";
    let is_external_name = spec["type"] == "ExternalName";
    let is_set = |name: &str| spec[name].as_str().is_some_and(|text| !text.is_empty());
    let external = spec["externalIPs"].as_array().map_or(&[][..], Vec::as_slice);
    if is_set("clusterIP") && spec["clusterIP"] != "None" {
        add_forms(&spec["clusterIPs"], "spec.clusterIPs", &mut warnings);
    }
    if is_headless {
        for (is_ignored, name) in [
            (is_set("loadBalancerIP"), "loadBalancerIP"),
            (!external.is_empty(), "externalIPs"),
            (spec["sessionAffinity"] != "None", "SessionAffinity"),
        ] {
            if is_ignored {
                warnings.push(format!("spec.{name} is ignored for headless services"));
            }
        }
    }
    add_forms(&spec["externalIPs"], "spec.externalIPs", &mut warnings);
    if !external.is_empty() && !is_headless && !is_external_name {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if let Some(address) = spec["loadBalancerIP"].as_str() {
        warnings.extend(form_of_address(address, "spec.loadBalancerIP"));
    }
    if is_external_name && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !is_external_name && is_set("externalName") {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        let warning = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(warning.to_owned());
    }
    warnings
}

/// Adds the warnings about the addresses of a list.
fn add_forms(addresses: &Value, path: &str, warnings: &mut Vec<String>) {
    let addresses = addresses.as_array().into_iter().flatten().filter_map(Value::as_str);
    for (index, address) in addresses.enumerate() {
        warnings.extend(form_of_address(address, &field::index(path, index)));
    }
}

/// Returns the warning about an IPv6 address that is not in its canonical form.
fn form_of_address(address: &str, path: &str) -> Option<String> {
    let canonical = address.parse::<IpAddr>().ok().filter(IpAddr::is_ipv6)?.to_string();
    (canonical != address).then(|| {
        format!("{path}: IPv6 address {address:?} should be in RFC 5952 canonical format ({canonical:?})")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ignored_and_deprecated_fields_are_reported() {
        let of = |spec: Value| of_service(&json!({"spec": spec}));
        let plain = json!({"type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "sessionAffinity": "None"});
        assert_eq!(of(plain), [""; 0]);
        assert_eq!(
            of(json!({"type": "ExternalName", "externalIPs": ["1.2.3.4"]})),
            ["spec.externalIPs is ignored when spec.type is \"ExternalName\""]
        );
        assert_eq!(
            of(json!({
                "type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP", "externalName": "x",
                "externalIPs": ["1.2.3.4", "2001:DB8::1"],
            })),
            [
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
                "spec.externalIPs[1]: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
                "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            ]
        );
        assert_eq!(
            of(json!({"type": "NodePort", "externalIPs": ["1.2.3.4"]})),
            ["spec.externalIPs is deprecated and may no longer be implemented in some clusters"]
        );
    }
}
