//! The containers of Pods.

use std::collections::BTreeSet;

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::container_volumes::Volumes;
use super::{
    PROTOCOLS, container_resources, container_restart, container_volumes, environment, ephemeral, items,
    lifecycle, names, pod_resources, probe, push_invalid, quota, security, text, validate_one_of,
    validate_port_number,
};
use crate::schema::field;
use crate::status::Causes;

/// Checks the containers of the specification at `path`, whose volumes have the given names.
pub(super) fn validate_all(
    spec: &Value,
    path: &str,
    (volumes, claims): (&Volumes<'_>, &BTreeSet<&str>),
    causes: &mut Causes,
) {
    if items(&spec["containers"]).is_empty() {
        causes.push(field::required(&field::child(path, "containers"), ""));
    }
    let host_users = has_host_users(spec);
    let mut container_names = HashSet::default();
    for list in ["containers", "initContainers"] {
        let at = field::child(path, list);
        for (index, container) in items(&spec[list]).iter().enumerate() {
            let at = field::index(&at, index);
            validate(container, &at, (volumes, host_users), causes);
            pod_resources::validate_claims_of_container(container, claims, &at, causes);
            pod_resources::validate_resize_policy(container, spec, &at, causes);
            container_restart::validate_restart(container, &at, causes);
            let name = text(container, "name");
            if !name.is_empty() && !container_names.insert(name) {
                causes.push(field::duplicate(&field::child(&at, "name"), &Value::from(name)));
            }
            let is_sidecar = text(container, "restartPolicy") == "Always";
            if list == "containers" || is_sidecar {
                lifecycle::validate_all(container, spec, &at, causes);
                probe::validate_all(container, &at, causes);
            } else {
                container_restart::validate_init(container, &at, causes);
            }
        }
        validate_host_ports(&spec[list], &at, causes);
    }
    ephemeral::validate_all(spec, path, (volumes, container_names), causes);
}

/// Whether the Pod has the users of its Node.
pub(super) fn has_host_users(spec: &Value) -> bool {
    spec["hostUsers"] != false
}

/// Checks what all kinds of containers have in common, in a Pod with these volumes. `host_users` is whether the Pod has the users of its Node.
pub(super) fn validate(
    container: &Value,
    at: &str,
    (volumes, host_users): (&Volumes<'_>, bool),
    causes: &mut Causes,
) {
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
    container_volumes::validate(container, at, volumes, causes);
    validate_one_of(container, "imagePullPolicy", at, &["Always", "IfNotPresent", "Never"], causes);
    let at_resources = field::child(at, "resources");
    let validate_name = quota::validate_container_resource;
    container_resources::validate(&container["resources"], &at_resources, validate_name, causes);
    security::validate_container(container, at, host_users, causes);
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

/// Checks that no two containers of the list at `path` have the same port of the Node.
fn validate_host_ports(containers: &Value, path: &str, causes: &mut Causes) {
    let mut found = HashSet::default();
    for (index, container) in items(containers).iter().enumerate() {
        let at = field::child(&field::index(path, index), "ports");
        for (index, port) in items(&container["ports"]).iter().enumerate() {
            let number = port["hostPort"].as_i64().unwrap_or(0);
            if number == 0 {
                continue;
            }
            let own = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            let path = field::child(&field::index(&at, index), "hostPort");
            if found.contains(&own) {
                causes.push(field::duplicate(&path, &own.into()));
            } else {
                found.insert(own);
            }
        }
    }
}
