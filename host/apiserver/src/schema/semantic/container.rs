//! The containers of Pods.

use std::collections::BTreeSet;

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{
    NOT_NEGATIVE, PROTOCOLS, container_kinds, entries, environment, ephemeral, items, lifecycle, names,
    pod_resources, probe, push_invalid, quantity, text, validate_one_of, validate_port_number, volume_source,
};
use crate::schema::field;
use crate::status::Causes;

/// Checks the containers of the specification at `path`, whose volumes have the given names.
pub(super) fn validate_all(
    spec: &Value,
    path: &str,
    (volumes, claims): (&HashSet<&str>, &BTreeSet<&str>),
    causes: &mut Causes,
) {
    if items(&spec["containers"]).is_empty() {
        causes.push(field::required(&field::child(path, "containers"), ""));
    }
    let mut container_names = HashSet::default();
    for list in ["containers", "initContainers"] {
        let at = field::child(path, list);
        for (index, container) in items(&spec[list]).iter().enumerate() {
            let at = field::index(&at, index);
            validate(container, &at, volumes, causes);
            pod_resources::validate_claims_of_container(container, claims, &at, causes);
            pod_resources::validate_resize_policy(container, spec, &at, causes);
            container_kinds::validate_restart(container, &at, causes);
            let name = text(container, "name");
            if !name.is_empty() && !container_names.insert(name) {
                causes.push(field::duplicate(&field::child(&at, "name"), &Value::from(name)));
            }
            let is_sidecar = text(container, "restartPolicy") == "Always";
            if list == "containers" || is_sidecar {
                lifecycle::validate_all(container, spec, &at, causes);
                probe::validate_all(container, &at, causes);
            } else {
                container_kinds::validate_init(container, &at, causes);
            }
        }
        container_kinds::validate_host_ports(&spec[list], &at, causes);
    }
    ephemeral::validate_all(spec, path, (volumes, container_names), causes);
}

/// Checks what all kinds of containers have in common.
pub(super) fn validate(container: &Value, at: &str, volumes: &HashSet<&str>, causes: &mut Causes) {
    let (path, name) = (field::child(at, "name"), text(container, "name"));
    if name.is_empty() {
        causes.push(field::required(&path, ""));
    } else {
        push_invalid(causes, &path, name, names::label_errors(name));
    }
    if text(container, "image").is_empty() {
        causes.push(field::required(&field::child(at, "image"), ""));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    validate_one_of(container, "terminationMessagePolicy", at, &policies, causes);
    validate_ports(&container["ports"], &field::child(at, "ports"), causes);
    environment::validate(&container["env"], &field::child(at, "env"), causes);
    environment::validate_sources(&container["envFrom"], &field::child(at, "envFrom"), causes);
    validate_mounts(&container["volumeMounts"], &field::child(at, "volumeMounts"), volumes, causes);
    validate_one_of(container, "imagePullPolicy", at, &["Always", "IfNotPresent", "Never"], causes);
    validate_resources(&container["resources"], &field::child(at, "resources"), causes);
}

fn validate_ports(ports: &Value, path: &str, causes: &mut Causes) {
    let mut port_names = HashSet::default();
    for (index, port) in items(ports).iter().enumerate() {
        let at = field::index(path, index);
        let (at_name, name) = (field::child(&at, "name"), text(port, "name"));
        if !name.is_empty() {
            let errors = names::port_name_errors(name);
            if !port_names.insert(name) && errors.is_empty() {
                causes.push(field::duplicate(&at_name, &Value::from(name)));
            }
            push_invalid(causes, &at_name, name, errors);
        }
        if port["containerPort"].as_i64().unwrap_or(0) == 0 {
            causes.push(field::required(&field::child(&at, "containerPort"), ""));
        } else {
            validate_port_number(port, "containerPort", &at, causes);
        }
        if port["hostPort"].as_i64().unwrap_or(0) != 0 {
            validate_port_number(port, "hostPort", &at, causes);
        }
        validate_one_of(port, "protocol", &at, &PROTOCOLS, causes);
    }
}

fn validate_mounts(mounts: &Value, path: &str, volumes: &HashSet<&str>, causes: &mut Causes) {
    let mut mount_paths = HashSet::default();
    for (index, mount) in items(mounts).iter().enumerate() {
        let at = field::index(path, index);
        let (at_name, name) = (field::child(&at, "name"), text(mount, "name"));
        if name.is_empty() {
            causes.push(field::required(&at_name, ""));
        } else if !volumes.contains(name) {
            causes.push(field::not_found(&at_name, &Value::from(name)));
        }
        let (at_path, mount_path) = (field::child(&at, "mountPath"), text(mount, "mountPath"));
        if mount_path.is_empty() {
            causes.push(field::required(&at_path, ""));
        }
        if !mount_paths.insert(mount_path) {
            causes.push(field::invalid(&at_path, &Value::from(mount_path), "must be unique"));
        }
        let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        if !sub_path.is_empty() {
            // As in Kubernetes, the path does not say which mount it is.
            volume_source::validate_path(sub_path, &field::child(path, "subPath"), causes);
        }
        if !expression.is_empty() && !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            causes.push(field::invalid(&field::child(&at, "subPathExpr"), &expression.into(), detail));
        }
    }
}

fn validate_resources(resources: &Value, path: &str, causes: &mut Causes) {
    let limits = &resources["limits"];
    for list in ["limits", "requests"] {
        let at = field::child(path, list);
        for (name, amount) in entries(resources.get(list)) {
            let nanos = quantity::nanos(amount);
            if nanos.is_some_and(|nanos| nanos < 0) {
                causes.push(field::invalid(&field::key(&at, name), amount, NOT_NEGATIVE));
            }
            let limit = limits.get(name).filter(|_| list == "requests");
            if let Some(limit) = limit
                && nanos > quantity::nanos(limit)
            {
                let limit = quantity::canonical(limit).unwrap_or_default();
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                causes.push(field::invalid(&at, amount, &detail));
            }
        }
    }
}
