//! What Pods share with their Node, and how they find names.

use std::net::IpAddr;

use serde_json::Value;

use super::{IP_ADDRESS, has, items, push_invalid, text, validate_one_of};
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
const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start \
                      and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                      '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

/// Checks the namespaces that the Pod at `path` shares.
pub(super) fn validate_shared(spec: &Value, path: &str, causes: &mut Causes) {
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let at = field::child(path, "securityContext.shareProcessNamespace");
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.push(field::invalid(&at, &true.into(), detail));
    }
}

/// Checks what a Pod with users of its own cannot share.
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
pub(super) fn validate_windows(spec: &Value, path: &str, causes: &mut Causes) {
    const DETAIL: &str = "cannot be set for a windows pod";
    if spec["os"]["name"] != "windows" {
        return;
    }
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
        if server.as_str().is_none_or(|text| text.parse::<IpAddr>().is_err()) {
            causes.push(field::invalid(&field::index(&at_servers, index), server, IP_ADDRESS));
        }
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

/// Checks the preemption policy, which only names a value.
pub(super) fn validate_preemption(spec: &Value, path: &str, causes: &mut Causes) {
    validate_one_of(spec, "preemptionPolicy", path, &["Never", "PreemptLowerPriority"], causes);
}
