//! Services. The allocation of addresses and node ports is checked where it happens.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{
    PROTOCOLS, items, names, push_invalid, service_addresses, service_traffic, text, validate_one_of,
    validate_port_number, validate_port_number_or_name,
};
use crate::schema::field;
use crate::status::Causes;

pub(super) fn validate(service: &Value, old: Option<&Value>, causes: &mut Causes) {
    let spec = &service["spec"];
    service_addresses::validate(spec, causes);
    if !causes.is_empty() {
        // As in Kubernetes, nothing else is checked, because the addresses are allocated before.
        return;
    }
    if let Some(old) = old {
        service_traffic::validate_update(&old["spec"], spec, causes);
    }
    validate_spec(spec, causes);
    service_traffic::validate(service, old, causes);
}

fn validate_spec(spec: &Value, causes: &mut Causes) {
    let kind = text(spec, "type");
    let ports = items(&spec["ports"]);
    let is_headless = text(spec, "clusterIP") == "None";
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        causes.push(field::required("spec.ports", ""));
    }
    if is_headless && ["LoadBalancer", "NodePort"].contains(&kind) {
        let detail = format!("may not be set to 'None' for {kind} services");
        causes.push(field::invalid("spec.clusterIPs[0]", &"None".into(), &detail));
    }
    if kind == "ExternalName" {
        let has_address = !text(spec, "clusterIP").is_empty() || !items(&spec["clusterIPs"]).is_empty();
        for (name, is_set) in [
            ("clusterIPs", has_address),
            ("ipFamilies", !items(&spec["ipFamilies"]).is_empty()),
            ("ipFamilyPolicy", spec["ipFamilyPolicy"].is_string()),
        ] {
            if is_set {
                let detail = "may not be set for ExternalName services";
                causes.push(field::forbidden(&field::child("spec", name), detail));
            }
        }
        let name = text(spec, "externalName");
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.is_empty() {
            causes.push(field::required("spec.externalName", ""));
        } else {
            push_invalid(causes, "spec.externalName", name, names::subdomain_errors(name));
        }
    }
    let mut port_names = HashSet::default();
    for (index, port) in ports.iter().enumerate() {
        validate_port(port, ports.len() > 1, &field::index("spec.ports", index), &mut port_names, causes);
    }
    super::metadata::validate_labels(spec.get("selector"), "spec.selector", causes);
    validate_one_of(spec, "sessionAffinity", "spec", &["ClientIP", "None"], causes);
    service_traffic::validate_affinity(spec, causes);
    service_addresses::validate_external(spec, causes);
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind) {
        causes.push(field::not_supported("spec.type", &Value::from(kind), &kinds));
    }
    if kind == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| number(port, "nodePort") != 0) {
            let at = field::child(&field::index("spec.ports", index), "nodePort");
            causes.push(field::forbidden(&at, "may not be used when `type` is 'ClusterIP'"));
        }
    }
    validate_unique_ports(ports, causes);
}

fn validate_port<'a>(
    port: &'a Value,
    is_name_required: bool,
    at: &str,
    port_names: &mut HashSet<&'a str>,
    causes: &mut Causes,
) {
    let (path, name) = (field::child(at, "name"), text(port, "name"));
    if !name.is_empty() {
        push_invalid(causes, &path, name, names::label_errors(name));
        if !port_names.insert(name) {
            causes.push(field::duplicate(&path, &Value::from(name)));
        }
    } else if is_name_required {
        causes.push(field::required(&path, ""));
    }
    validate_port_number(port, "port", at, causes);
    validate_one_of(port, "protocol", at, &PROTOCOLS, causes);
    validate_port_number_or_name(port, "targetPort", at, causes);
    if let Some(protocol) = port["appProtocol"].as_str() {
        push_invalid(
            causes,
            &field::child(at, "appProtocol"),
            protocol,
            names::qualified_name_errors(protocol),
        );
    }
}

/// Checks that no two ports have the same protocol and number, or the same protocol and node port.
fn validate_unique_ports(ports: &[Value], causes: &mut Causes) {
    let (mut found, mut found_on_node) = (HashSet::default(), HashSet::default());
    for (index, port) in ports.iter().enumerate() {
        let at = field::index("spec.ports", index);
        let protocol = text(port, "protocol");
        let on_node = (protocol, number(port, "nodePort"));
        if !found_on_node.insert(on_node) && on_node.1 != 0 {
            causes.push(field::duplicate(&field::child(&at, "nodePort"), &port["nodePort"]));
        }
        let own = (protocol, number(port, "port"));
        if !found.insert(own) {
            // The other members of Go's type are empty.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol:?},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                own.1
            );
            causes.push(field::duplicate_shown(&at, &shown));
        }
    }
}

fn number(port: &Value, name: &str) -> i64 {
    port[name].as_i64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(spec: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        validate_spec(spec, &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn services_with_node_ports_are_not_headless() {
        let spec = |kind: &str| json!({"type": kind, "clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]});
        assert_eq!(problems(&spec("ClusterIP")), [""; 0]);
        for kind in ["NodePort", "LoadBalancer"] {
            let problem = format!(
                "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for {kind} services"
            );
            assert_eq!(problems(&spec(kind)), [problem]);
        }
    }

    #[test]
    fn external_names_have_no_addresses() {
        let spec = json!({
            "type": "ExternalName", "externalName": "a.b", "clusterIP": "10.0.0.3", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
        });
        let detail = "Forbidden: may not be set for ExternalName services";
        let fields = ["clusterIPs", "ipFamilies", "ipFamilyPolicy"];
        assert_eq!(problems(&spec), fields.map(|name| format!("spec.{name}: {detail}")));
        assert_eq!(
            problems(&json!({"type": "ExternalName", "externalName": "a.b", "clusterIP": ""})),
            [""; 0]
        );
    }
}
