//! The checks that the level `restricted` adds, after `k8s.io/pod-security-admission/policy`, in the order of their names there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::baseline::{bad_proc_mounts, bad_seccomp_profiles};
use super::levels::LevelVersion;
use super::pod::{Finding, Pod, containers, context, finding, items, name_of, plural, quoted, setters};

/// The kinds of volumes that Pods may use.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Whether a check of the user does not apply because the Pod has a user namespace.
fn has_own_users(pod: Pod<'_>, version: LevelVersion) -> bool {
    version.has(35) && pod.spec["hostUsers"] == false
}

pub(super) fn proc_mount(pod: Pod<'_>, _: LevelVersion) -> Option<Finding> {
    bad_proc_mounts(pod)
}

/// Whether a check does not apply because the Pod runs on Windows.
fn is_exempt(pod: Pod<'_>, version: LevelVersion) -> bool {
    version.has(25) && pod.is_windows()
}

pub(super) fn allow_privilege_escalation(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    if is_exempt(pod, version) {
        return None;
    }
    let names = pod.named(|container| context(container)["allowPrivilegeEscalation"] != false);
    if names.is_empty() {
        return None;
    }
    finding(
        "allowPrivilegeEscalation != false",
        format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names)),
    )
}

pub(super) fn capabilities(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    if is_exempt(pod, version) {
        return None;
    }
    let capabilities = |container, list: &str| -> Vec<&str> {
        items(&context(container)["capabilities"][list]).iter().filter_map(Value::as_str).collect()
    };
    let keeping = pod.named(|container| !capabilities(container, "drop").contains(&"ALL"));
    let mut added = BTreeSet::new();
    let mut adding = Vec::new();
    for container in pod.containers() {
        let mut others = capabilities(container, "add");
        others.retain(|capability| *capability != "NET_BIND_SERVICE");
        if !others.is_empty() {
            adding.push(name_of(container));
            added.extend(others);
        }
    }
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details
            .push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !adding.is_empty() {
        let added: Vec<&str> = added.into_iter().collect();
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            quoted(&added)
        ));
    }
    if details.is_empty() { None } else { finding("unrestricted capabilities", details.join("; ")) }
}

pub(super) fn restricted_volumes(pod: Pod<'_>, _: LevelVersion) -> Option<Finding> {
    let mut kinds = BTreeSet::new();
    let mut names = Vec::new();
    for volume in items(&pod.spec["volumes"]) {
        let members = volume.as_object().into_iter().flatten();
        let kind = members
            .filter(|(name, value)| *name != "name" && !value.is_null())
            .map(|(name, _)| name.as_str())
            .next();
        let kind = kind.unwrap_or("unknown");
        if !VOLUMES.contains(&kind) {
            names.push(name_of(volume));
            kinds.insert(kind);
        }
    }
    if names.is_empty() {
        return None;
    }
    let kinds: Vec<&str> = kinds.into_iter().collect();
    finding(
        "restricted volume types",
        format!(
            "{} {} {} {} {}",
            plural("volume", "volumes", names.len()),
            quoted(&names),
            plural("uses", "use", names.len()),
            plural("restricted volume type", "restricted volume types", kinds.len()),
            quoted(&kinds)
        ),
    )
}

pub(super) fn run_as_non_root(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    const REASON: &str = "runAsNonRoot != true";
    if has_own_users(pod, version) {
        return None;
    }
    let of_pod = &pod.spec["securityContext"]["runAsNonRoot"];
    let root = pod.named(|container| context(container)["runAsNonRoot"] == false);
    let who = setters(*of_pod == false, &root);
    if !who.is_empty() {
        return finding(
            REASON,
            format!("{} must not set securityContext.runAsNonRoot=false", who.join(" and ")),
        );
    }
    let unset = pod.named(|container| context(container)["runAsNonRoot"].is_null() && *of_pod != true);
    if unset.is_empty() {
        return None;
    }
    finding(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&unset)))
}

pub(super) fn run_as_user(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    if has_own_users(pod, version) {
        return None;
    }
    let names = pod.named(|container| context(container)["runAsUser"] == 0);
    let who = setters(pod.spec["securityContext"]["runAsUser"] == 0, &names);
    if who.is_empty() {
        None
    } else {
        finding("runAsUser=0", format!("{} must not set runAsUser=0", who.join(" and ")))
    }
}

pub(super) fn seccomp_profile(pod: Pod<'_>, version: LevelVersion) -> Option<Finding> {
    if is_exempt(pod, version) {
        return None;
    }
    if let Some(found) = bad_seccomp_profiles(pod) {
        return Some(found);
    }
    let of_pod = &pod.spec["securityContext"]["seccompProfile"]["type"];
    let unset =
        pod.named(|container| of_pod.is_null() && context(container)["seccompProfile"]["type"].is_null());
    if unset.is_empty() {
        return None;
    }
    finding(
        "seccompProfile",
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&unset)
        ),
    )
}
