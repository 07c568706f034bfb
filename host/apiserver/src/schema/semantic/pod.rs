//! The specification of Pods, in templates, too.

use serde_json::{Value, json};

use super::{
    container, container_resources, environment, items, names, pod_host, pod_resources, pod_scheduling,
    push_invalid, quota, security, text, validate_one_of, volume,
};
use crate::schema::field;
use crate::status::Causes;

pub(super) const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the specification at `path`. An absent one is not checked.
pub(super) fn validate_spec(spec: &Value, path: &str, causes: &mut Causes) {
    if !spec.is_object() {
        return;
    }
    let volume_names = volume::validate_volumes(&spec["volumes"], &field::child(path, "volumes"), causes);
    let claims = pod_resources::validate_claims(spec, path, causes);
    container::validate_all(spec, path, (&volume_names, &claims), causes);
    pod_resources::validate_pod_level(spec, path, causes);
    pod_host::validate_host_network(spec, path, causes);
    validate_one_of(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"], causes);
    let dns_policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    validate_one_of(spec, "dnsPolicy", path, &dns_policies, causes);
    let at = field::child(path, "nodeSelector");
    super::metadata::validate_labels(spec.get("nodeSelector"), &at, causes);
    security::validate_pod(spec, path, causes);
    pod_scheduling::validate_affinity(spec, path, causes);
    pod_host::validate_dns(spec, path, causes);
    for (index, gate) in items(&spec["readinessGates"]).iter().enumerate() {
        let at = field::child(&field::index(&field::child(path, "readinessGates"), index), "conditionType");
        let kind = text(gate, "conditionType");
        push_invalid(causes, &at, kind, names::qualified_name_errors(kind));
    }
    pod_scheduling::validate_gates(spec, path, causes);
    pod_scheduling::validate_spread(spec, path, causes);
    security::validate_host_processes(spec, path, causes);
    pod_host::validate_host_users(spec, path, causes);
    pod_host::validate_hostname_override(spec, path, causes);
    for name in ["serviceAccountName", "nodeName"] {
        validate_name(spec, name, path, causes);
    }
    let deadline = &spec["activeDeadlineSeconds"];
    if deadline.as_i64().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        causes.push(field::invalid(&field::child(path, "activeDeadlineSeconds"), deadline, detail));
    }
    for name in ["hostname", "subdomain"] {
        let value = text(spec, name);
        if !value.is_empty() {
            push_invalid(causes, &field::child(path, name), value, names::label_errors(value));
        }
    }
    validate_tolerations(&spec["tolerations"], &field::child(path, "tolerations"), causes);
    pod_host::validate_aliases(spec, path, causes);
    validate_name(spec, "priorityClassName", path, causes);
    if let Some(name) = spec["runtimeClassName"].as_str() {
        push_invalid(causes, &field::child(path, "runtimeClassName"), name, names::subdomain_errors(name));
    }
    pod_host::validate_preemption(spec, path, causes);
    // As in Kubernetes, the path is that of limits.
    let (overhead, at) = (json!({"limits": spec["overhead"]}), field::child(path, "overhead"));
    container_resources::validate(&overhead, &at, quota::validate_container_resource, causes);
    pod_host::validate_os(spec, path, causes);
    environment::validate_file_volumes(spec, path, causes);
}

/// Checks a name of another object, which may be empty.
fn validate_name(spec: &Value, name: &str, path: &str, causes: &mut Causes) {
    let value = text(spec, name);
    if !value.is_empty() {
        push_invalid(causes, &field::child(path, name), value, names::subdomain_errors(value));
    }
}

/// Checks that a Pod without a service account has no volume with its token. Templates may have one.
pub(super) fn validate_tokens(spec: &Value, causes: &mut Causes) {
    if !text(spec, "serviceAccountName").is_empty() {
        return;
    }
    for (index, volume) in items(&spec["volumes"]).iter().enumerate() {
        let at = field::child(&field::index("spec.volumes", index), "projected.sources");
        for (index, source) in items(&volume["projected"]["sources"]).iter().enumerate() {
            if source["serviceAccountToken"].is_object() {
                let at = field::child(&field::index(&at, index), "serviceAccountToken");
                causes
                    .push(field::forbidden(&at, "must not be specified when serviceAccountName is not set"));
            }
        }
    }
}

/// Checks what only a new Pod must satisfy.
pub(super) fn validate_new(spec: &Value, causes: &mut Causes) {
    for list in ["containers", "initContainers"] {
        for (index, container) in items(&spec[list]).iter().enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                let at = field::index(&field::child("spec", list), index);
                let detail = "must not have leading or trailing whitespace";
                causes.push(field::invalid(&field::child(&at, "image"), &image.into(), detail));
            }
        }
    }
    if !items(&spec["ephemeralContainers"]).is_empty() {
        causes.push(field::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !items(&spec["schedulingGates"]).is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        causes.push(field::forbidden("spec.nodeName", detail));
    }
}

pub(super) fn validate_tolerations(tolerations: &Value, path: &str, causes: &mut Causes) {
    for (index, toleration) in items(tolerations).iter().enumerate() {
        let at = field::index(path, index);
        let [key, operator, effect, value] =
            ["key", "operator", "effect", "value"].map(|name| text(toleration, name));
        let at_operator = field::child(&at, "operator");
        if !key.is_empty() {
            push_invalid(causes, &field::child(&at, "key"), key, names::qualified_name_errors(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(field::invalid(&at_operator, &Value::from(operator), detail));
        }
        if toleration["tolerationSeconds"].is_number() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(field::invalid(&field::child(&at, "effect"), &Value::from(effect), detail));
        }
        match operator {
            "" | "Equal" => {
                let errors = names::label_value_errors(value);
                if !errors.is_empty() {
                    causes.push(field::invalid(&at_operator, &Value::from(value), &errors.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                causes.push(field::invalid(&at_operator, &value.into(), detail));
            }
            "Exists" => {}
            other => {
                // For an operator that is not enabled, the message of kube-apiserver lists all operators.
                let supported: &[&str] = match other {
                    "Lt" | "Gt" => &["Equal", "Exists", "Lt", "Gt"],
                    _ => &["Equal", "Exists"],
                };
                causes.push(field::not_supported(&at_operator, &Value::from(other), supported));
            }
        }
        if !effect.is_empty() {
            validate_one_of(toleration, "effect", &at, &TAINT_EFFECTS, causes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_refer_to_valid_names_and_ports() {
        let problems = |members: Value| -> Vec<String> {
            let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
            for (name, value) in members.as_object().into_iter().flatten() {
                spec[name] = value.clone();
            }
            let mut causes = Causes::default();
            validate_spec(&spec, "spec", &mut causes);
            causes.iter().map(|cause| cause.field.clone()).collect()
        };
        let ports = |port: Value| json!([{"name": "c", "image": "i", "ports": [port]}]);
        for (members, expected) in [
            (json!({}), vec![]),
            (json!({"hostNetwork": true, "containers": ports(json!({"containerPort": 80}))}), vec![]),
            (
                json!({"hostNetwork": true, "containers": ports(json!({"containerPort": 80, "hostPort": 81}))}),
                vec!["spec.containers[0].ports[0].hostPort"],
            ),
            (json!({"os": {"name": "plan9"}}), vec!["spec.os"]),
            (
                json!({"hostAliases": [{"ip": "x", "hostnames": ["A_"]}]}),
                vec!["spec.hostAliases[0].ip", "spec.hostAliases[0].hostnames[0]"],
            ),
            (
                json!({"readinessGates": [{"conditionType": "a b"}]}),
                vec!["spec.readinessGates[0].conditionType"],
            ),
            (json!({"hostnameOverride": "A"}), vec!["spec.hostnameOverride"]),
            (json!({"runtimeClassName": "A b"}), vec!["spec.runtimeClassName"]),
            (json!({"overhead": {"cpu": "-1"}}), vec!["spec.overhead.limits[cpu]"]),
            (json!({"dnsConfig": {"searches": vec!["a.b"; 33]}}), vec!["spec.dnsConfig.searches"]),
        ] {
            assert_eq!(problems(members.clone()), expected, "{members}");
        }
        let mut causes = Causes::default();
        validate_new(&json!({"containers": [{"image": " i"}]}), &mut causes);
        assert_eq!(causes[0].field, "spec.containers[0].image");
    }
}
