//! The Pods that a Job creates, and what it reads of them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::action::Action;
use super::super::kind::Kind;
use super::super::object::{condition, items, key, time};
use super::super::pod;
use crate::meta;

/// The finalizer of Pods that the status does not count yet.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
pub(super) const INDEX_ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
pub(super) const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// The longest prefix of a generated name, as `MaxGeneratedNameLength` in `k8s.io/apiserver/pkg/storage/names`.
const MAX_NAME_PREFIX: usize = 58;

pub(super) fn new_pod(job: &Value) -> Value {
    let mut pod = pod::from_template(&job["spec"]["template"], Kind::Job, job);
    let mut finalizers = meta::finalizers(&pod);
    if !finalizers.iter().any(|name| name == TRACKING) {
        finalizers.push(TRACKING.to_owned());
    }
    meta::set_finalizers(&mut pod, finalizers);
    pod
}

pub(super) fn indexed_pod(job: &Value, index: i64) -> Value {
    let mut pod = new_pod(job);
    let name = meta::text(job, "name").to_owned();
    let suffix = format!("-{index}-");
    let room = MAX_NAME_PREFIX.saturating_sub(suffix.len());
    let prefix = name.get(..room.min(name.len())).unwrap_or(&name);
    pod["metadata"]["generateName"] = format!("{prefix}{suffix}").into();
    pod["metadata"]["annotations"][INDEX_ANNOTATION] = index.to_string().into();
    pod["metadata"]["labels"][INDEX_ANNOTATION] = index.to_string().into();
    pod["spec"]["hostname"] = format!("{name}-{index}").into();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut variables = items(&container["env"]).to_vec();
            if !variables.iter().any(|variable| variable["name"] == INDEX_VARIABLE) {
                let path = format!("metadata.labels['{INDEX_ANNOTATION}']");
                variables
                    .push(json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
                container["env"] = variables.into();
            }
        }
    }
    pod
}

/// Returns the completion index of a Pod.
pub(super) fn index(pod: &Value) -> Option<i64> {
    let index = pod["metadata"]["annotations"][INDEX_ANNOTATION].as_str()?.parse().ok()?;
    (0..i64::MAX).contains(&index).then_some(index)
}

/// Whether the status does not count the Pod yet.
pub(super) fn is_tracked(pod: &Value) -> bool {
    meta::finalizers(pod).iter().any(|name| name == TRACKING)
}

/// Removes the finalizer of a Pod that is counted, or that never will be.
pub(super) fn release(pod: &Value) -> Action {
    let rest: Vec<String> = meta::finalizers(pod).into_iter().filter(|name| name != TRACKING).collect();
    let finalizers = if rest.is_empty() { Value::Null } else { rest.into() };
    Action::Patch(Kind::Pod, key(pod), json!({"metadata": {"finalizers": finalizers}}))
}

/// Returns the time at which the last container of a Pod ended, or the next best that the Pod tells.
pub(super) fn finished_at(pod: &Value) -> Option<Timestamp> {
    let states = items(&pod["status"]["containerStatuses"]).iter();
    let ends: Option<Vec<Timestamp>> =
        states.map(|status| time(&status["state"]["terminated"]["finishedAt"])).collect();
    let not_ready = || condition(&pod["status"], "Ready").filter(|ready| ready["status"] == "False");
    ends.and_then(|ends| ends.into_iter().max())
        .or_else(|| time(&not_ready()?["lastTransitionTime"]))
        .or_else(|| time(&pod["metadata"]["deletionTimestamp"]))
        .or_else(|| time(&pod["metadata"]["creationTimestamp"]))
}
