//! The specification of Pods, in templates, too, and the taints of Nodes, which tolerations match.

use serde_json::Value;

use super::{
    container, items, names, pod_host, pod_resources, pod_scheduling, push_invalid, text, validate_one_of,
    volume,
};
use crate::schema::field;
use crate::status::Causes;

const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the specification at `path`. An absent one is not checked.
pub(super) fn validate_spec(spec: &Value, path: &str, causes: &mut Causes) {
    if !spec.is_object() {
        return;
    }
    let volume_names = volume::validate_volumes(&spec["volumes"], &field::child(path, "volumes"), causes);
    let claims = pod_resources::validate_claims(spec, path, causes);
    container::validate_all(spec, path, (&volume_names, &claims), causes);
    pod_resources::validate_pod_level(spec, path, causes);
    validate_one_of(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"], causes);
    let dns_policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    validate_one_of(spec, "dnsPolicy", path, &dns_policies, causes);
    let at = field::child(path, "nodeSelector");
    super::metadata::validate_labels(spec.get("nodeSelector"), &at, causes);
    pod_host::validate_shared(spec, path, causes);
    pod_scheduling::validate_affinity(spec, path, causes);
    pod_host::validate_dns(spec, path, causes);
    pod_scheduling::validate_gates(spec, path, causes);
    pod_scheduling::validate_spread(spec, path, causes);
    pod_host::validate_host_users(spec, path, causes);
    for name in ["serviceAccountName", "nodeName", "priorityClassName"] {
        let value = text(spec, name);
        if !value.is_empty() {
            push_invalid(causes, &field::child(path, name), value, names::subdomain_errors(value));
        }
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
    pod_host::validate_preemption(spec, path, causes);
    pod_host::validate_windows(spec, path, causes);
}

/// Checks what only a new Pod must satisfy.
pub(super) fn validate_new(spec: &Value, causes: &mut Causes) {
    if !items(&spec["ephemeralContainers"]).is_empty() {
        causes.push(field::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !items(&spec["schedulingGates"]).is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        causes.push(field::forbidden("spec.nodeName", detail));
    }
}

fn validate_tolerations(tolerations: &Value, path: &str, causes: &mut Causes) {
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

/// Checks the taints in the specification of a Node. Their path is that of kube-apiserver.
pub(super) fn validate_taints(spec: &Value, causes: &mut Causes) {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in items(&spec["taints"]).iter().enumerate() {
        let at = field::index("metadata.taints", index);
        let [key, value, effect] = ["key", "value", "effect"].map(|name| text(taint, name));
        push_invalid(causes, &field::child(&at, "key"), key, names::qualified_name_errors(key));
        push_invalid(causes, &field::child(&at, "value"), value, names::label_value_errors(value));
        if effect.is_empty() {
            causes.push(field::required(&field::child(&at, "effect"), ""));
        } else {
            validate_one_of(taint, "effect", &at, &TAINT_EFFECTS, causes);
        }
        if found.contains(&(key, effect)) {
            let shown =
                format!("{{\"Key\":{key:?},\"Value\":{value:?},\"Effect\":{effect:?},\"TimeAdded\":null}}");
            let mut cause = field::duplicate_shown(&at, &shown);
            cause.message += ": taints must be unique by key and effect pair";
            causes.push(cause);
        }
        found.push((key, effect));
    }
}
