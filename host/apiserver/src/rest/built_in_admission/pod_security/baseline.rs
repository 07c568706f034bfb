//! The checks of the level `baseline`, after `k8s.io/pod-security-admission/policy`, in the order of their names there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::levels::LevelVersion;
use super::pod::{Finding, Pod, containers, context, finding, items, name_of, plural, quoted, setters};

/// The capabilities that containers may add.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The parameters of the kernel that Pods may set, with the minor version that allowed them.
const SYSCTLS: [(&str, u32); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

/// The start of the annotations that set the AppArmor profile of a container.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn app_armor_profile(pod: Pod<'_>, _: LevelVersion) -> Option<Finding> {
    let is_allowed = |profile: &Value| {
        profile.is_null() || profile["type"] == "RuntimeDefault" || profile["type"] == "Localhost"
    };
    let mut values = BTreeSet::new();
    let mut is_bad = |profile: &Value| {
        if is_allowed(profile) {
            return false;
        }
        values.insert(profile["type"].as_str().unwrap_or_default().to_owned());
        true
    };
    let of_pod = is_bad(&pod.spec["securityContext"]["appArmorProfile"]);
    let mut names = Vec::new();
    for container in pod.containers() {
        if is_bad(&context(container)["appArmorProfile"]) {
            names.push(name_of(container));
        }
    }
    let mut who = setters(of_pod, &names);
    let mut values: Vec<String> = values.into_iter().collect();
    let annotations = pod.metadata["annotations"].as_object().into_iter().flatten();
    let mut forbidden: Vec<String> = annotations
        .filter(|(name, value)| {
            let profile = value.as_str().unwrap_or_default();
            name.starts_with(APP_ARMOR)
                && !profile.is_empty()
                && profile != "runtime/default"
                && !profile.starts_with("localhost/")
        })
        .map(|(name, value)| format!("{name}={:?}", value.as_str().unwrap_or_default()))
        .collect();
    if !forbidden.is_empty() {
        forbidden.sort();
        who.push(plural("annotation", "annotations", forbidden.len()).to_owned());
        values.extend(forbidden);
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    finding(
        reason,
        format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&values)),
    )
}

pub(super) fn capabilities(pod: Pod<'_>, _: LevelVersion) -> Option<Finding> {
    let mut added = BTreeSet::new();
    let mut names = Vec::new();
    for container in pod.containers() {
        let others: Vec<&str> = items(&context(container)["capabilities"]["add"])
            .iter()
            .filter_map(Value::as_str)
            .filter(|capability| !CAPABILITIES.contains(capability))
            .collect();
        if !others.is_empty() {
            names.push(name_of(container));
            added.extend(others);
        }
    }
    if names.is_empty() {
        return None;
    }
    let added: Vec<&str> = added.into_iter().collect();
    finding(
        "non-default capabilities",
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&names),
            quoted(&added)
        ),
    )
}

pub(super) fn host_namespaces(pod: Pod<'_>, _: LevelVersion) -> Option<Finding> {
    let used: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|field| pod.spec[**field] == true)
        .map(|field| format!("{field}=true"))
        .collect();
    if used.is_empty() { None } else { finding("host namespaces", used.join(", ")) }
}

pub(super) fn host_path_volumes(pod: Pod<'_>, _: LevelVersion) -> Option<Finding> {
    let volumes = items(&pod.spec["volumes"]).iter().filter(|volume| !volume["hostPath"].is_null());
    let names: Vec<&str> = volumes.map(name_of).collect();
    if names.is_empty() {
        return None;
    }
    finding("hostPath volumes", format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names)))
}

pub(super) fn host_ports(pod: Pod<'_>, _: LevelVersion) -> Option<Finding> {
    let mut ports = BTreeSet::new();
    let mut names = Vec::new();
    for container in pod.containers() {
        let own = items(&container["ports"]).iter().filter_map(|port| port["hostPort"].as_i64());
        let own: Vec<String> = own.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        if !own.is_empty() {
            names.push(name_of(container));
            ports.extend(own);
        }
    }
    if names.is_empty() {
        return None;
    }
    let ports: Vec<String> = ports.into_iter().collect();
    let (verb, noun) = (plural("uses", "use", names.len()), plural("hostPort", "hostPorts", ports.len()));
    finding("hostPort", format!("{} {verb} {noun} {}", containers(&names), ports.join(", ")))
}

pub(super) fn host_probes(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    if !version.has(34) {
        return None;
    }
    let mut hosts = BTreeSet::new();
    let mut names = Vec::new();
    for container in pod.containers() {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]);
        let hooks = ["postStart", "preStop"].map(|hook| &container["lifecycle"][hook]);
        let own: Vec<&str> = probes
            .into_iter()
            .chain(hooks)
            .flat_map(|handler| ["httpGet", "tcpSocket"].map(|action| handler[action]["host"].as_str()))
            .flatten()
            .filter(|host| !host.is_empty())
            .collect();
        if !own.is_empty() {
            names.push(name_of(container));
            hosts.extend(own);
        }
    }
    if names.is_empty() {
        return None;
    }
    let hosts: Vec<&str> = hosts.into_iter().collect();
    names.sort_unstable();
    let verb = plural("uses", "use", names.len());
    let noun = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
    finding("probe or lifecycle host", format!("{} {verb} {noun} {}", containers(&names), quoted(&hosts)))
}

pub(super) fn privileged(pod: Pod<'_>, _: LevelVersion) -> Option<Finding> {
    let names = pod.named(|container| context(container)["privileged"] == true);
    if names.is_empty() {
        return None;
    }
    finding("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

pub(super) fn proc_mount(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    // A Pod with a user namespace sees only its own processes.
    let is_relaxed = version.has(35) && pod.spec["hostUsers"] == false;
    if is_relaxed { None } else { bad_proc_mounts(pod) }
}

/// Returns which containers see all of `/proc`.
pub(super) fn bad_proc_mounts(pod: Pod<'_>) -> Option<Finding> {
    let mut values = BTreeSet::new();
    let mut names = Vec::new();
    for container in pod.containers() {
        if let Some(value) = context(container)["procMount"].as_str().filter(|value| *value != "Default") {
            names.push(name_of(container));
            values.insert(value);
        }
    }
    if names.is_empty() {
        return None;
    }
    let values: Vec<&str> = values.into_iter().collect();
    finding(
        "procMount",
        format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(&values)),
    )
}

pub(super) fn se_linux_options(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    let (mut types, mut sets_user, mut sets_role) = (BTreeSet::new(), false, false);
    let mut is_bad = |options: &Value| {
        let text = |name: &str| options[name].as_str().unwrap_or_default();
        let is_allowed = matches!(text("type"), "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (version.has(31) && text("type") == "container_engine_t");
        if !is_allowed {
            types.insert(text("type").to_owned());
        }
        let (user, role) = (!text("user").is_empty(), !text("role").is_empty());
        sets_user |= user;
        sets_role |= role;
        !is_allowed || user || role
    };
    let of_pod = is_bad(&pod.spec["securityContext"]["seLinuxOptions"]);
    let mut names = Vec::new();
    for container in pod.containers() {
        if is_bad(&context(container)["seLinuxOptions"]) {
            names.push(name_of(container));
        }
    }
    let who = setters(of_pod, &names);
    if who.is_empty() {
        return None;
    }
    let mut problems = Vec::new();
    if !types.is_empty() {
        let types: Vec<String> = types.into_iter().collect();
        problems.push(format!("{} {}", plural("type", "types", types.len()), quoted(&types)));
    }
    if sets_user {
        problems.push("user may not be set".to_owned());
    }
    if sets_role {
        problems.push("role may not be set".to_owned());
    }
    finding(
        "seLinuxOptions",
        format!(
            "{} set forbidden securityContext.seLinuxOptions: {}",
            who.join(" and "),
            problems.join("; ")
        ),
    )
}

/// Returns who sets a seccomp profile that is not allowed, and the profiles.
pub(super) fn bad_seccomp_profiles(pod: Pod<'_>) -> Option<Finding> {
    let mut values = BTreeSet::new();
    let mut is_bad = |profile: &Value| {
        let Some(value) = profile["type"].as_str() else { return false };
        let is_bad = !matches!(value, "RuntimeDefault" | "Localhost");
        if is_bad {
            values.insert(value.to_owned());
        }
        is_bad
    };
    let of_pod = is_bad(&pod.spec["securityContext"]["seccompProfile"]);
    let mut names = Vec::new();
    for container in pod.containers() {
        if is_bad(&context(container)["seccompProfile"]) {
            names.push(name_of(container));
        }
    }
    let who = setters(of_pod, &names);
    if who.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().collect();
    finding(
        "seccompProfile",
        format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            who.join(" and "),
            quoted(&values)
        ),
    )
}

pub(super) fn seccomp_profile(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    if version.has(19) { bad_seccomp_profiles(pod) } else { None }
}

pub(super) fn sysctls(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    let is_allowed = |name: &str| SYSCTLS.iter().any(|(known, since)| *known == name && version.has(*since));
    let set = items(&pod.spec["securityContext"]["sysctls"]).iter().map(name_of);
    let forbidden: Vec<&str> = set.filter(|name| !is_allowed(name)).collect();
    if forbidden.is_empty() { None } else { finding("forbidden sysctls", forbidden.join(", ")) }
}

pub(super) fn windows_host_process(pod: Pod<'_>, _: LevelVersion) -> Option<Finding> {
    let is_set = |context: &Value| context["windowsOptions"]["hostProcess"] == true;
    let names = pod.named(|container| is_set(context(container)));
    let who = setters(is_set(&pod.spec["securityContext"]), &names);
    if who.is_empty() {
        return None;
    }
    let who = who.join(" and ");
    finding("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}
