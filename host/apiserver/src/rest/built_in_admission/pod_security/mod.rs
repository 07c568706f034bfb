//! The admission plugin `PodSecurity`, after `k8s.io/pod-security-admission/admission`: what the labels of a namespace demand of its Pods.
//!
//! - `levels`: the labels. `baseline`, `restricted`: the checks of a Pod, which read it by `pod`.

mod baseline;
mod levels;
mod pod;
mod restricted;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use self::levels::{Level, LevelVersion, Policy};
use self::pod::{Finding, Pod, items};
use crate::admission::{Notes, WriteRequest};
use crate::admission_plugins::AdmissionPlugin;
use crate::meta;
use crate::state::State;
use crate::status::Status;

/// The most Pods that are checked when the label of their namespace changes, as in Kubernetes.
const MAX_PODS: usize = 3000;

/// A check of a Pod.
type Check = fn(Pod<'_>, LevelVersion) -> Option<Finding>;

/// The checks of the level `baseline`, with the minor version from which one of the level `restricted` takes their place there.
const BASELINE: [(Check, Option<u32>); 12] = [
    (baseline::app_armor_profile, None),
    (baseline::capabilities, Some(22)),
    (baseline::host_namespaces, None),
    (baseline::host_path_volumes, Some(0)),
    (baseline::host_ports, None),
    (baseline::host_probes, None),
    (baseline::privileged, None),
    (baseline::proc_mount, Some(35)),
    (baseline::se_linux_options, None),
    (baseline::seccomp_profile, Some(19)),
    (baseline::sysctls, None),
    (baseline::windows_host_process, None),
];

/// The checks that the level `restricted` adds, with the minor version in which they began.
const RESTRICTED: [(Check, u32); 7] = [
    (restricted::allow_privilege_escalation, 8),
    (restricted::capabilities, 22),
    (restricted::proc_mount, 35),
    (restricted::restricted_volumes, 0),
    (restricted::run_as_non_root, 0),
    (restricted::run_as_user, 23),
    (restricted::seccomp_profile, 19),
];

/// The kinds of objects that create Pods, with the pointers to the templates.
const CONTROLLERS: [(&str, &str, &str); 8] = [
    ("", "podtemplates", "/template"),
    ("", "replicationcontrollers", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "replicasets", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
    ("batch", "jobs", "/spec/template"),
];

/// The annotation of the audit event with what a Pod must satisfy.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
/// The annotation of the audit event with what an object violates of the level to audit.
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";

/// Checks a write. Records warnings and audit annotations.
///
/// # Errors
/// 403 if a Pod violates what its namespace enforces, 422 if the labels of a namespace are invalid.
pub(super) fn validate(
    state: &State,
    write: &WriteRequest<'_>,
    new: &Value,
    old: Option<&Value>,
    notes: &Notes,
) -> Result<(), Status> {
    let endpoint = write.endpoint;
    if !state.plugins.acts(AdmissionPlugin::PodSecurity) {
        return Ok(());
    }
    if endpoint.is_core("namespaces") && write.subresource.is_empty() {
        notes.warn(&validate_namespace(state, write, new, old)?);
        return Ok(());
    }
    let template = CONTROLLERS.iter().find(|(group, plural, _)| {
        endpoint.group == *group && endpoint.resource.names.plural == *plural && write.subresource.is_empty()
    });
    let is_pod =
        endpoint.is_core("pods") && matches!(write.subresource, "" | "ephemeralcontainers" | "resize");
    if template.is_none() && !is_pod {
        return Ok(());
    }
    let Some(namespace) = state.namespaces.get("", write.namespace) else { return Ok(()) };
    let (policy, _) = Policy::of(|label| namespace.labels.get(label).map(ToString::to_string));
    if policy == Policy::default() {
        if is_pod {
            notes.annotate(ENFORCED.to_owned(), policy.enforce.to_string());
        }
        return Ok(());
    }
    if !old.is_none_or(|old| is_pod_changed(is_pod, old, new)) {
        return Ok(());
    }
    let pod = match template {
        None => Some(new),
        Some((_, _, pointer)) => new.pointer(pointer).filter(|template| template.is_object()),
    };
    let Some(pod) = pod.map(|pod| Pod { metadata: &pod["metadata"], spec: &pod["spec"] }) else {
        return Ok(());
    };
    let findings = evaluate(policy.audit, pod);
    if !findings.is_empty() {
        let problem = format!("would violate PodSecurity \"{}\": {}", policy.audit, details(&findings));
        notes.annotate(VIOLATIONS.to_owned(), problem);
    }
    if is_pod {
        notes.annotate(ENFORCED.to_owned(), policy.enforce.to_string());
        let findings = evaluate(policy.enforce, pod);
        if !findings.is_empty() {
            let problem = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&findings));
            return Err(Status::forbidden(endpoint.resource_ref(), meta::text(new, "name"), &problem));
        }
    }
    let findings = evaluate(policy.warn, pod);
    if !findings.is_empty() {
        notes.warn(&[format!("would violate PodSecurity \"{}\": {}", policy.warn, details(&findings))]);
    }
    Ok(())
}

/// Whether an update of a Pod may change what the checks find: it has other images or containers. Updates of other objects may.
fn is_pod_changed(is_pod: bool, old: &Value, new: &Value) -> bool {
    !is_pod
        || ["containers", "initContainers", "ephemeralContainers"].iter().any(|list| {
            let images = |pod: &Value| -> Vec<Value> {
                items(&pod["spec"][*list]).iter().map(|container| container["image"].clone()).collect()
            };
            images(old) != images(new)
        })
}

fn validate_namespace(
    state: &State,
    write: &WriteRequest<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<Vec<String>, Status> {
    let (policy, causes) = Policy::of(label_of(new));
    let before = old.map(|old| Policy::of(label_of(old)));
    let is_known = before.as_ref().is_some_and(|(_, before)| *before == causes);
    if !causes.is_empty() && !is_known {
        return Err(Status::invalid(write.endpoint.resource_ref(), meta::text(new, "name"), causes));
    }
    match before {
        Some((before, _)) if policy.enforce.is_stricter_than(before.enforce) => {
            Ok(warnings_of_pods(state, meta::text(new, "name"), policy.enforce))
        }
        _ => Ok(Vec::new()),
    }
}

/// Returns a function that reads the labels of an object.
fn label_of(object: &Value) -> impl Fn(&str) -> Option<String> {
    |label| object["metadata"]["labels"][label].as_str().map(str::to_owned)
}

/// Returns warnings about the Pods of a namespace that violate what it will enforce.
fn warnings_of_pods(state: &State, namespace: &str, enforce: LevelVersion) -> Vec<String> {
    let registry = state.registry();
    let Some(pods) = registry.endpoint("", "v1", "pods") else { return Vec::new() };
    // By their reasons: the name of the first Pod, and how many there are.
    let mut violations: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let pods = pods.resource.table.list(Some(namespace)).0;
    let count = pods.len();
    for pod in pods.into_iter().take(MAX_PODS) {
        let value = pod.value();
        let findings = evaluate(enforce, Pod { metadata: &value["metadata"], spec: &value["spec"] });
        if !findings.is_empty() {
            let reasons: Vec<&str> = findings.iter().map(|finding| finding.reason.as_str()).collect();
            violations.entry(reasons.join(", ")).or_insert_with(|| (pod.name.to_string(), 0)).1 += 1;
        }
    }
    let mut warnings = Vec::new();
    if count > MAX_PODS {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MAX_PODS} of {count} existing pods"
        ));
    }
    if violations.is_empty() {
        return warnings;
    }
    let mut lines: Vec<String> = violations
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            _ => format!("{name} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    lines.sort();
    warnings.push(format!(
        "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
    ));
    warnings.append(&mut lines);
    warnings
}

/// Returns what a Pod does that the level forbids.
fn evaluate(level: LevelVersion, pod: Pod<'_>) -> Vec<Finding> {
    let is_restricted = level.level == Level::Restricted;
    if level.level == Level::Privileged {
        return Vec::new();
    }
    let is_replaced = |since: Option<u32>| is_restricted && since.is_some_and(|since| level.has(since));
    let baseline = BASELINE.iter().filter(|(_, since)| !is_replaced(*since)).map(|(check, _)| check);
    let restricted = RESTRICTED.iter().filter(|(_, since)| is_restricted && level.has(*since));
    let restricted = restricted.map(|(check, _)| check);
    baseline.chain(restricted).filter_map(|check| check(pod, level)).collect()
}

/// `host namespaces (hostNetwork=true), privileged (…)`.
fn details(findings: &[Finding]) -> String {
    let texts: Vec<String> = findings
        .iter()
        .map(
            |Finding { reason, detail }| {
                if detail.is_empty() { reason.clone() } else { format!("{reason} ({detail})") }
            },
        )
        .collect();
    texts.join(", ")
}
