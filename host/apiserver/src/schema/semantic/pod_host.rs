//! What Pods share with their Node, and how they find names.

use serde_json::Value;

use super::{has, ip, items, push_invalid, text, validate_one_of};
use crate::schema::{field, names};
use crate::status::Causes;

/// The lists of containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// The fields of a security context that Windows does not have.
const NOT_ON_WINDOWS: [&str; 11] = [
    "seLinuxOptions",
    "capabilities",
    "privileged",
    "runAsUser",
    "runAsGroup",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "procMount",
    "seccompProfile",
    "appArmorProfile",
    "fsGroup",
];
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;
const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start \
                      and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                      '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

/// Checks fields that conflict with a user namespace (`hostUsers: false`).
pub(super) fn validate_host_users(spec: &Value, path: &str, causes: &mut Causes) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec["hostUsers"] != false {
        return;
    }
    for (name, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[name] == true {
            causes.push(field::forbidden(&field::child(path, shown), DETAIL));
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(&spec[list]).iter().enumerate() {
            if !items(&container["volumeDevices"]).is_empty() {
                let at = field::index(&field::child(path, list), index);
                causes.push(field::forbidden(&field::child(&at, "volumeDevices"), DETAIL));
            }
        }
    }
}

/// Checks that a Pod of Windows has no fields of Linux.
fn validate_windows(spec: &Value, path: &str, causes: &mut Causes) {
    const DETAIL: &str = "cannot be set for a windows pod";
    let context = &spec["securityContext"];
    let mut refuse = |name: &str| causes.push(field::forbidden(&field::child(path, name), DETAIL));
    for name in ["hostPID", "hostIPC", "hostUsers"] {
        if spec[name].is_boolean() {
            refuse(name);
        }
    }
    for name in
        ["appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls"]
    {
        if has(context, name) {
            refuse(&format!("securityContext.{name}"));
        }
    }
    if has(spec, "shareProcessNamespace") {
        refuse("shareProcessNamespace");
    }
    for name in ["runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy"] {
        if has(context, name) {
            refuse(&format!("securityContext.{name}"));
        }
    }
    for list in CONTAINERS {
        for (index, container) in items(&spec[list]).iter().enumerate() {
            for name in NOT_ON_WINDOWS {
                if has(&container["securityContext"], name) {
                    refuse(&format!("{}.securityContext.{name}", field::index(list, index)));
                }
            }
        }
    }
}

/// Checks that the containers on the network of the Node have its ports.
pub(super) fn validate_host_network(spec: &Value, path: &str, causes: &mut Causes) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (index, container) in items(&spec["containers"]).iter().enumerate() {
        let at = field::child(&field::index(&field::child(path, "containers"), index), "ports");
        for (index, port) in items(&container["ports"]).iter().enumerate() {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if host != 0 && port["containerPort"] != host {
                let at = field::child(&field::index(&at, index), "hostPort");
                let detail = "must match `containerPort` when `hostNetwork` is true";
                causes.push(field::invalid(&at, &port["hostPort"], detail));
            }
        }
    }
}

/// Checks the entries of the hosts file.
pub(super) fn validate_aliases(spec: &Value, path: &str, causes: &mut Causes) {
    for (index, alias) in items(&spec["hostAliases"]).iter().enumerate() {
        let at = field::index(&field::child(path, "hostAliases"), index);
        let address = text(alias, "ip");
        if let Some(problem) = ip::address_error(address) {
            causes.push(field::invalid(&field::child(&at, "ip"), &address.into(), problem));
        }
        for (index, name) in items(&alias["hostnames"]).iter().filter_map(Value::as_str).enumerate() {
            let at = field::index(&field::child(&at, "hostnames"), index);
            push_invalid(causes, &at, name, names::subdomain_errors(name));
        }
    }
}

/// Checks the name that the Pod sees in place of its own.
pub(super) fn validate_hostname_override(spec: &Value, path: &str, causes: &mut Causes) {
    const MAX_LENGTH: usize = 64;
    let Some(name) = spec["hostnameOverride"].as_str() else { return };
    let at = field::child(path, "hostnameOverride");
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec[other] == true {
            causes.push(field::forbidden(&at, &format!("may not be specified when {other} is true")));
        }
    }
    if name.len() > MAX_LENGTH {
        causes.push(field::too_long(&at, MAX_LENGTH as u64));
    }
    push_invalid(causes, &at, name, names::subdomain_errors(name));
}

/// Checks the operating system of the Pod, and that it has the fields of that one only.
pub(super) fn validate_os(spec: &Value, path: &str, causes: &mut Causes) {
    let at = field::child(path, "os");
    match spec["os"]["name"].as_str() {
        Some("") => causes.push(field::required(&field::child(&at, "name"), "")),
        Some("windows") => validate_windows(spec, path, causes),
        Some("linux") | None => {}
        Some(other) => causes.push(field::not_supported(&at, &other.into(), &["linux", "windows"])),
    }
}

/// Checks the resolver configuration of the Pod at `path`.
pub(super) fn validate_dns(spec: &Value, path: &str, causes: &mut Causes) {
    let (config, at) = (&spec["dnsConfig"], field::child(path, "dnsConfig"));
    let servers = items(&config["nameservers"]);
    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            causes.push(field::required(&at, "must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            causes.push(field::required(&field::child(&at, "nameservers"), detail));
            return;
        }
    }
    let at_servers = field::child(&at, "nameservers");
    if servers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        causes.push(field::invalid(&at_servers, &config["nameservers"], &detail));
    }
    for (index, server) in servers.iter().enumerate() {
        if let Some(problem) = ip::address_error(server.as_str().unwrap_or_default()) {
            causes.push(field::invalid(&field::index(&at_servers, index), server, problem));
        }
    }
    if items(&config["searches"]).len() > MAX_SEARCH_PATHS {
        let detail = format!("must not have more than {MAX_SEARCH_PATHS} search paths");
        causes.push(field::invalid(&field::child(&at, "searches"), &config["searches"], &detail));
    }
    for (index, search) in items(&config["searches"]).iter().enumerate() {
        let name = search.as_str().unwrap_or_default();
        let name = if name == "." { name } else { name.strip_suffix('.').unwrap_or(name) };
        if name != "." && !names::subdomain_errors(&name.replace('_', "a")).is_empty() {
            let path = field::index(&field::child(&at, "searches"), index);
            push_invalid(causes, &path, name, vec![SEARCH.to_owned()]);
        }
    }
    for (index, option) in items(&config["options"]).iter().enumerate() {
        if text(option, "name").is_empty() {
            let path = field::index(&field::child(&at, "options"), index);
            causes.push(field::required(&path, "must not be empty"));
        }
    }
}

/// Checks that the preemption policy is a known one.
pub(super) fn validate_preemption(spec: &Value, path: &str, causes: &mut Causes) {
    validate_one_of(spec, "preemptionPolicy", path, &["Never", "PreemptLowerPriority"], causes);
}
