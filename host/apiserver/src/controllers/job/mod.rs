//! Jobs, after `k8s.io/kubernetes/pkg/controller/job`.
//!
//! Each Pod has the finalizer [`TRACKING`] until the status counts it, so that no Pod is forgotten or counted twice.
//! [`count`] counts, and this module decides.

mod count;
mod indexes;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::claim::claim;
use super::cluster::{Cluster, MAX_PODS};
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{
    Condition, Key, after_seconds, condition, is_deleting, is_true, items, key, number, selector,
    set_condition, set_counter, time, time_text, until,
};
use super::pod;
use crate::meta;
use count::{Count, count};

/// The finalizer of Pods that the status does not count yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX_ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";
const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// The maximum number of Pods created in one step.
const BURST: usize = 500;

/// The delay before a failed Pod is replaced, which doubles with each failure, and its maximum, in seconds.
const BACKOFF: i64 = 10;
const MAX_BACKOFF: i64 = 600;

/// Returns the controller of Jobs.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::Job, reconcile)
        .triggers(&[(Kind::Pod, Trigger::Owners)])
        .on_missing(release_orphans)
}

/// Releases the Pods of a Job that was deleted, which nobody counts any more.
fn release_orphans(cluster: &Cluster<'_>, (namespace, name): &Key) -> Vec<Action> {
    let pods = cluster.select(Kind::Pod, namespace, |pod| {
        pod.labels.get(JOB_NAME_LABEL).is_some_and(|job| job == name)
            && pod.finalizers.iter().any(|finalizer| &**finalizer == TRACKING)
    });
    pods.iter().map(|pod| release(&pod.value())).collect()
}

fn reconcile(cluster: &Cluster<'_>, job: &Value) -> Plan {
    let Some(parsed) = selector(&job["spec"]["selector"], &job["spec"]["template"]) else {
        return Plan::default();
    };
    let claimed = claim(cluster, Kind::Pod, (Kind::Job, job), &parsed);
    let mut plan = plan(job, &claimed.objects, cluster.pod_allowance(), cluster.now);
    plan.actions.splice(0..0, claimed.actions);
    plan
}

/// Whether the Job is complete or has failed.
pub(super) fn is_finished(job: &Value) -> bool {
    is_true(&job["status"], "Complete") || is_true(&job["status"], "Failed")
}

/// How a Job ends.
struct End {
    /// The condition that announces the end, and the one that reports it.
    conditions: [&'static str; 2],
    reason: &'static str,
    message: String,
    /// Whether it is reported by a warning.
    is_failure: bool,
}

impl End {
    fn failure(reason: &'static str, message: &str) -> Self {
        Self {
            conditions: ["FailureTarget", "Failed"],
            reason,
            message: message.to_owned(),
            is_failure: true,
        }
    }
}

/// Decides which Pods to create, delete and count, and the status.
fn plan(job: &Value, pods: &[Value], pod_allowance: usize, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut status = job["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let now_text = time_text(now);
    let counted = count(job, pods);
    let is_suspended = job["spec"]["suspend"] == true;
    if !is_finished(job) && !is_suspended && status["startTime"].is_null() {
        status["startTime"] = now_text.as_str().into();
    }
    let mut after_status = Vec::new();
    if is_deleting(job) {
        // The garbage collector deletes the Pods, or orphans them.
    } else if is_finished(job) {
        after_status.extend(counted.active.iter().map(|pod| Action::delete(Kind::Pod, pod)));
    } else {
        suspend_or_resume(&mut status, is_suspended, &now_text, &mut plan);
        match end(job, &status, &counted, now) {
            Some(end) => {
                finish(&mut status, &end, &now_text, &mut plan);
                after_status.extend(counted.active.iter().map(|pod| Action::delete(Kind::Pod, pod)));
            }
            None if is_suspended => {
                after_status.extend(counted.active.iter().map(|pod| Action::delete(Kind::Pod, pod)));
            }
            None => {
                if let Some(deadline) = deadline(job, &status)
                    && let Some(delay) = until(deadline, now)
                {
                    plan.retry_after(delay);
                }
                after_status.extend(manage(job, &counted, pods, (pod_allowance, now), &mut plan));
            }
        }
    }
    write_counts(job, &counted, &mut status);
    if status != job["status"] {
        plan.actions.push(Action::SetStatus(status));
    }
    // The status comes first: if it cannot be written, the Pods keep their finalizer and are counted later.
    plan.actions.extend(counted.to_release.iter().map(|pod| release(pod)));
    plan.actions.extend(after_status);
    plan
}

/// Returns how the Job ends now.
fn end(job: &Value, status: &Value, counted: &Count<'_>, now: Timestamp) -> Option<End> {
    let spec = &job["spec"];
    if counted.failed > number(&spec["backoffLimit"], 6) {
        return Some(End::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    if deadline(job, status).is_some_and(|deadline| until(deadline, now).is_none()) {
        return Some(End::failure("DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    let is_complete = match spec["completions"].as_i64() {
        Some(completions) => counted.succeeded >= completions,
        // A work queue: the first success means that the work is done.
        None => counted.succeeded > 0 && counted.active.is_empty(),
    };
    is_complete.then(|| End {
        conditions: ["SuccessCriteriaMet", "Complete"],
        reason: "CompletionsReached",
        message: "Reached expected number of succeeded pods".to_owned(),
        is_failure: false,
    })
}

fn deadline(job: &Value, status: &Value) -> Option<Timestamp> {
    let seconds = job["spec"]["activeDeadlineSeconds"].as_i64()?;
    let is_suspended = job["spec"]["suspend"] == true;
    time(&status["startTime"]).filter(|_| !is_suspended).map(|start| after_seconds(start, seconds))
}

fn finish(status: &mut Value, end: &End, now: &str, plan: &mut Plan) {
    for kind in end.conditions {
        let condition = Condition { kind, status: true, reason: end.reason, message: &end.message };
        set_condition(status, condition, now);
    }
    if end.is_failure {
        let message = end.message.clone();
        plan.actions.push(Action::Event { warning: true, reason: end.reason, message });
    } else {
        status["completionTime"] = now.into();
        plan.actions.push(Action::Event {
            warning: false,
            reason: "Completed",
            message: "Job completed".to_owned(),
        });
    }
}

fn suspend_or_resume(status: &mut Value, is_suspended: bool, now: &str, plan: &mut Plan) {
    let was_suspended = is_true(status, "Suspended");
    if is_suspended == was_suspended {
        return;
    }
    let (reason, message, event) = if is_suspended {
        ("JobSuspended", "Job suspended", "Suspended")
    } else {
        ("JobResumed", "Job resumed", "Resumed")
    };
    set_condition(status, Condition { kind: "Suspended", status: is_suspended, reason, message }, now);
    plan.actions.push(Action::Event { warning: false, reason: event, message: message.to_owned() });
    if is_suspended {
        if let Some(status) = status.as_object_mut() {
            status.remove("startTime");
        }
    } else {
        status["startTime"] = now.into();
    }
}

/// Creates missing Pods and deletes superfluous ones.
fn manage(
    job: &Value,
    counted: &Count<'_>,
    pods: &[Value],
    (pod_allowance, now): (usize, Timestamp),
    plan: &mut Plan,
) -> Vec<Action> {
    let spec = &job["spec"];
    let parallelism = number(&spec["parallelism"], 1).max(0);
    let wanted = match spec["completions"].as_i64() {
        Some(completions) => parallelism.min((completions - counted.succeeded).max(0)),
        // After the first success, a work queue gets no new Pods.
        None if counted.succeeded > 0 => {
            i64::try_from(counted.active.len()).unwrap_or(i64::MAX).min(parallelism)
        }
        None => parallelism,
    };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let active = counted.active.len();
    if active > wanted {
        let mut surplus: Vec<Value> = counted.active.iter().map(|pod| (*pod).clone()).collect();
        pod::sort_for_deletion(&mut surplus);
        surplus.truncate(active - wanted);
        return surplus.iter().map(|pod| Action::delete(Kind::Pod, pod)).collect();
    }
    let waits_for_terminating = spec["podReplacementPolicy"] == "Failed";
    let terminating =
        if waits_for_terminating { usize::try_from(counted.terminating).unwrap_or(0) } else { 0 };
    let missing = wanted.saturating_sub(active + terminating);
    if missing == 0 {
        return Vec::new();
    }
    if let Some(delay) = backoff(counted, pods, now) {
        plan.retry_after(delay);
        return Vec::new();
    }
    let count = missing.min(BURST).min(pod_allowance);
    let mut actions = Vec::new();
    if spec["completionMode"] == "Indexed" {
        let completions = number(&spec["completions"], 0);
        for index in counted.missing_indexes(completions, count) {
            actions.push(Action::Create(Kind::Pod, indexed_pod(job, index)));
        }
    } else {
        actions.extend((0..count).map(|_| Action::Create(Kind::Pod, new_pod(job))));
    }
    if count < missing {
        if count < BURST {
            let message =
                format!("Error creating: the embedded API server simulates at most {MAX_PODS} Pods");
            actions.push(Action::Event { warning: true, reason: "FailedCreate", message });
        }
        plan.retry_after(Duration::from_secs(5));
    }
    actions
}

/// Returns how long failed Pods are not replaced yet.
fn backoff(counted: &Count<'_>, pods: &[Value], now: Timestamp) -> Option<Duration> {
    if counted.failed == 0 {
        return None;
    }
    let failed = pods.iter().filter(|pod| pod::phase(pod) == "Failed");
    let last = failed.filter_map(finished_at).max()?;
    let doublings = u32::try_from((counted.failed - 1).clamp(0, 16)).unwrap_or(16);
    let seconds = BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF);
    until(after_seconds(last, seconds), now)
}

/// Returns the time at which the last container of a Pod ended.
fn finished_at(pod: &Value) -> Option<Timestamp> {
    let statuses = items(&pod["status"]["containerStatuses"]).iter();
    let last = statuses.filter_map(|status| time(&status["state"]["terminated"]["finishedAt"])).max();
    last.or_else(|| {
        let ready = condition(&pod["status"], "Ready")?;
        time(&ready["lastTransitionTime"])
    })
}

fn new_pod(job: &Value) -> Value {
    let mut pod = pod::from_template(&job["spec"]["template"], Kind::Job, job);
    let mut finalizers = meta::finalizers(&pod);
    finalizers.push(TRACKING.to_owned());
    meta::set_finalizers(&mut pod, finalizers);
    pod
}

fn indexed_pod(job: &Value, index: i64) -> Value {
    let mut pod = new_pod(job);
    let name = meta::text(job, "name").to_owned();
    pod["metadata"]["generateName"] = format!("{name}-{index}-").into();
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

/// Removes the finalizer of a Pod that is counted.
fn release(pod: &Value) -> Action {
    let rest: Vec<String> = meta::finalizers(pod).into_iter().filter(|name| name != TRACKING).collect();
    let finalizers = if rest.is_empty() { Value::Null } else { rest.into() };
    Action::Patch(Kind::Pod, key(pod), json!({"metadata": {"finalizers": finalizers}}))
}

fn write_counts(job: &Value, counted: &Count<'_>, status: &mut Value) {
    let active = if is_finished(job) { 0 } else { i64::try_from(counted.active.len()).unwrap_or(i64::MAX) };
    let is_over = is_true(status, "Complete") || is_true(status, "Failed");
    set_counter(status, "active", if is_over { 0 } else { active });
    set_counter(status, "succeeded", counted.succeeded);
    set_counter(status, "failed", counted.failed);
    status["terminating"] = counted.terminating.into();
    let ready = if is_over { 0 } else { counted.ready };
    status["ready"] = ready.into();
    status["uncountedTerminatedPods"] = json!({});
    if job["spec"]["completionMode"] == "Indexed" && !counted.completed_indexes.is_empty() {
        status["completedIndexes"] = counted.completed_indexes.to_string().into();
    }
}

#[cfg(test)]
mod tests;
