//! The security contexts of Pods and of their containers.

use pilothouse_model::hash::HashSet;
use serde_json::{Value, json};

use super::{has, items, text, volume_source};
use crate::schema::field;
use crate::status::Causes;

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
/// The longest path of an AppArmor profile.
const MAX_PROFILE: usize = 4095;
const MAX_SYSCTL: usize = 253;
const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// The sysctls that belong to the namespace of IPC; further ones begin with `fs.mqueue.`.
const IPC_SYSCTLS: [&str; 9] = [
    "kernel.sem",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.auto_msgmni",
];

/// Checks the security context of a container at `at`. `host_users` is whether the Pod has the users of its Node.
pub(super) fn validate_container(container: &Value, at: &str, host_users: bool, causes: &mut Causes) {
    let (context, at) = (&container["securityContext"], field::child(at, "securityContext"));
    if context.is_null() {
        return;
    }
    validate_id(&context["runAsUser"], &field::child(&at, "runAsUser"), causes);
    validate_id(&context["runAsGroup"], &field::child(&at, "runAsGroup"), causes);
    let (mount, at_mount) = (&context["procMount"], field::child(&at, "procMount"));
    match mount.as_str() {
        Some("Unmasked") if host_users => {
            causes.push(field::invalid(&at_mount, mount, "`hostUsers` must be false to use `Unmasked`"));
        }
        None | Some("Default" | "Unmasked") => {}
        Some(_) => causes.push(field::not_supported(&at_mount, mount, &["Default", "Unmasked"])),
    }
    validate_seccomp(&context["seccompProfile"], &field::child(&at, "seccompProfile"), causes);
    if context["allowPrivilegeEscalation"] == false {
        let mut refuse = |other: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {other}");
            causes.push(field::invalid_shown(&at, &as_go(context), &detail));
        };
        if context["privileged"] == true {
            refuse("`privileged` to true");
        }
        for _ in items(&context["capabilities"]["add"]).iter().filter(|added| *added == "CAP_SYS_ADMIN") {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    validate_app_armor(&context["appArmorProfile"], &field::child(&at, "appArmorProfile"), causes);
}

/// Checks the security context of the specification at `path`.
pub(super) fn validate_pod(spec: &Value, path: &str, causes: &mut Causes) {
    let (context, at) = (&spec["securityContext"], field::child(path, "securityContext"));
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(&context[name], &field::child(&at, name), causes);
    }
    for (index, group) in items(&context["supplementalGroups"]).iter().enumerate() {
        validate_id(group, &field::index(&field::child(&at, "supplementalGroups"), index), causes);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.push(field::invalid(&field::child(&at, "shareProcessNamespace"), &true.into(), detail));
    }
    validate_sysctls(spec, &field::child(&at, "sysctls"), causes);
    validate_choice(context, "fsGroupChangePolicy", &at, &["Always", "OnRootMismatch"], causes);
    validate_seccomp(&context["seccompProfile"], &field::child(&at, "seccompProfile"), causes);
    validate_app_armor(&context["appArmorProfile"], &field::child(&at, "appArmorProfile"), causes);
    validate_choice(context, "supplementalGroupsPolicy", &at, &["Merge", "Strict"], causes);
    // The other policy, `MountOption`, is an alpha feature.
    validate_choice(context, "seLinuxChangePolicy", &at, &["Recursive"], causes);
}

/// Checks the containers of Windows that run as processes of their Node.
pub(super) fn validate_host_processes(spec: &Value, path: &str, causes: &mut Causes) {
    let of_pod = spec["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let (mut all, mut host_processes) = (0, 0);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(&spec[list]).iter().enumerate() {
            let own = &container["securityContext"]["windowsOptions"]["hostProcess"];
            all += 1;
            host_processes += usize::from(own.as_bool().or(of_pod) == Some(true));
            if let (Some(of_pod), Some(own)) = (of_pod, own.as_bool())
                && of_pod != own
            {
                let at = field::index(&field::child(path, list), index);
                let at = field::child(&at, "securityContext.windowsOptions.hostProcess");
                let detail =
                    format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
                causes.push(field::invalid(&at, &own.into(), &detail));
            }
        }
    }
    if host_processes == 0 {
        return;
    }
    if host_processes != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        causes.push(field::invalid(path, &"".into(), detail));
    }
    if spec["hostNetwork"] != true {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        causes.push(field::invalid(&field::child(path, "hostNetwork"), &false.into(), detail));
    }
}

/// Checks the ID of a user or a group.
fn validate_id(id: &Value, path: &str, causes: &mut Causes) {
    if id.as_i64().is_some_and(|number| !(0..=i64::from(i32::MAX)).contains(&number)) {
        causes.push(field::invalid(path, id, "must be between 0 and 2147483647, inclusive"));
    }
}

/// Checks that a text is one of the supported values. An absent one is not checked, an empty one is not supported.
fn validate_choice(context: &Value, name: &str, at: &str, supported: &[&str], causes: &mut Causes) {
    if context[name].as_str().is_some_and(|value| !supported.contains(&value)) {
        causes.push(field::not_supported(&field::child(at, name), &context[name], supported));
    }
}

fn validate_sysctls(spec: &Value, path: &str, causes: &mut Causes) {
    let mut names = HashSet::default();
    for (index, sysctl) in items(&spec["securityContext"]["sysctls"]).iter().enumerate() {
        let (at, name) = (field::child(&field::index(path, index), "name"), text(sysctl, "name"));
        if name.is_empty() {
            causes.push(field::required(&at, ""));
        } else if !is_sysctl(name) {
            let detail = format!("must have at most {MAX_SYSCTL} characters and match regex {SYSCTL}");
            causes.push(field::invalid(&at, &name.into(), &detail));
        } else if names.contains(name) {
            causes.push(field::duplicate(&at, &name.into()));
        }
        let dotted = name.replace('/', ".");
        let shared = [
            ("hostNetwork", dotted.starts_with("net.")),
            ("hostIPC", dotted.starts_with("fs.mqueue.") || IPC_SYSCTLS.contains(&dotted.as_str())),
        ];
        if let Some((field, _)) = shared.iter().find(|(field, is_in)| *is_in && spec[*field] == true) {
            let detail = format!("may not be specified when '{field}' is true");
            causes.push(field::invalid(&at, &name.into(), &detail));
        }
        names.insert(name);
    }
}

/// Whether a text is the name of a sysctl: segments that are separated by dots or slashes.
fn is_sysctl(name: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.iter().all(|byte| is_end(*byte) || b"-_".contains(byte))
            && bytes.first().copied().is_some_and(is_end)
            && bytes.last().copied().is_some_and(is_end)
    };
    name.len() <= MAX_SYSCTL && name.split(['.', '/']).all(is_segment)
}

fn validate_seccomp(profile: &Value, at: &str, causes: &mut Causes) {
    if profile.is_null() {
        return;
    }
    let (kind, at_path) = (text(profile, "type"), field::child(at, "localhostProfile"));
    if kind.is_empty() {
        causes
            .push(field::required(&field::child(at, "type"), "type is required when seccompProfile is set"));
    } else if !PROFILES.contains(&kind) {
        causes.push(field::not_supported(&field::child(at, "type"), &kind.into(), &PROFILES));
    }
    match (kind, profile["localhostProfile"].as_str()) {
        ("Localhost", None) => {
            causes.push(field::required(&at_path, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(path)) => volume_source::validate_descending_path(path, &at_path, causes),
        (_, None) => {}
        (_, Some(_)) => {
            let detail = "can only be set when seccomp type is Localhost";
            causes.push(field::invalid_shown(&at_path, &profile_as_go(profile), detail));
        }
    }
}

fn validate_app_armor(profile: &Value, at: &str, causes: &mut Causes) {
    const REQUIRED: &str = "must be set when AppArmor type is Localhost";
    if profile.is_null() {
        return;
    }
    let (path, at_path) = (&profile["localhostProfile"], field::child(at, "localhostProfile"));
    match text(profile, "type") {
        "Localhost" => match path.as_str() {
            None | Some("") => causes.push(field::required(&at_path, REQUIRED)),
            Some(name) => {
                if name.trim() != name {
                    causes.push(field::invalid(&at_path, path, "must not be padded with whitespace"));
                }
                if name.len() > MAX_PROFILE {
                    causes.push(field::too_long(&at_path, MAX_PROFILE as u64));
                }
            }
        },
        "RuntimeDefault" | "Unconfined" => {
            if has(profile, "localhostProfile") {
                let detail = "can only be set when AppArmor type is Localhost";
                causes.push(field::invalid(&at_path, path, detail));
            }
        }
        "" => {
            let detail = "type is required when appArmorProfile is set";
            causes.push(field::required(&field::child(at, "type"), detail));
        }
        other => causes.push(field::not_supported(&field::child(at, "type"), &other.into(), &PROFILES)),
    }
}

/// Returns the security context of a container as messages show it.
fn as_go(context: &Value) -> String {
    let structure = |value: &Value, fields: &[(&str, &str)], absent: &Value| {
        if value.is_null() {
            return "null".to_owned();
        }
        let members = fields.iter().map(|(shown, name)| {
            let member = value.get(*name).unwrap_or(absent);
            format!("\"{shown}\":{member}")
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    let capabilities = structure(&context["capabilities"], &[("Add", "add"), ("Drop", "drop")], &Value::Null);
    let labels = [("User", "user"), ("Role", "role"), ("Type", "type"), ("Level", "level")];
    let labels = structure(&context["seLinuxOptions"], &labels, &json!(""));
    let windows = [
        ("GMSACredentialSpecName", "gmsaCredentialSpecName"),
        ("GMSACredentialSpec", "gmsaCredentialSpec"),
        ("RunAsUserName", "runAsUserName"),
        ("HostProcess", "hostProcess"),
    ];
    let windows = structure(&context["windowsOptions"], &windows, &Value::Null);
    let others = [
        ("RunAsUser", "runAsUser"),
        ("RunAsGroup", "runAsGroup"),
        ("RunAsNonRoot", "runAsNonRoot"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        ("ProcMount", "procMount"),
    ];
    let others = others.map(|(shown, name)| format!("\"{shown}\":{}", context[name]));
    let [seccomp, app_armor] =
        ["seccompProfile", "appArmorProfile"].map(|name| profile_as_go(&context[name]));
    format!(
        "{{\"Capabilities\":{capabilities},\"Privileged\":{},\"SELinuxOptions\":{labels},\"WindowsOptions\":{windows},{},\
         \"SeccompProfile\":{seccomp},\"AppArmorProfile\":{app_armor}}}",
        context["privileged"],
        others.join(",")
    )
}

fn profile_as_go(profile: &Value) -> String {
    if profile.is_null() {
        return "null".to_owned();
    }
    let kind = Value::from(text(profile, "type"));
    format!("{{\"Type\":{kind},\"LocalhostProfile\":{}}}", profile["localhostProfile"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sysctls_have_segments() {
        for name in ["net.core.somaxconn", "net/ipv4", "a-b_c.d"] {
            assert!(is_sysctl(name), "{name}");
        }
        for name in ["", "A", "a..b", ".a", "a.", "-a", "a b"] {
            assert!(!is_sysctl(name), "{name}");
        }
    }

    #[test]
    fn sysctls_of_shared_namespaces_are_refused() {
        let messages = |spec: Value| -> Vec<String> {
            let mut causes = Causes::default();
            validate_pod(&spec, "spec", &mut causes);
            causes.iter().map(|cause| cause.message.clone()).collect()
        };
        let context = json!({"sysctls": [{"name": "net.a"}, {"name": "kernel/sem"}, {"name": "vm.a"}]});
        assert_eq!(messages(json!({"securityContext": context})), [""; 0]);
        assert_eq!(
            messages(json!({"securityContext": context, "hostNetwork": true, "hostIPC": true})),
            [
                "Invalid value: \"net.a\": may not be specified when 'hostNetwork' is true",
                "Invalid value: \"kernel/sem\": may not be specified when 'hostIPC' is true",
            ]
        );
    }

    #[test]
    fn host_processes_are_all_or_none_and_need_the_network_of_the_node() {
        let spec = json!({
            "securityContext": {"windowsOptions": {"hostProcess": true}},
            "containers": [{}, {"securityContext": {"windowsOptions": {"hostProcess": false}}}],
        });
        let mut causes = Causes::default();
        validate_host_processes(&spec, "spec", &mut causes);
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(
            fields,
            ["spec.containers[1].securityContext.windowsOptions.hostProcess", "spec", "spec.hostNetwork"]
        );
    }
}
