//! Jobs, after `k8s.io/kubernetes/pkg/controller/job`.
//!
//! Each Pod has the finalizer [`TRACKING`](pods::TRACKING) until the status counts it, so that no Pod is forgotten or counted twice.
//! [`count`] counts, [`end`] decides how the Job ends, and [`manage`] which Pods run until then.

mod backoff;
mod count;
mod end;
mod failed_indexes;
mod failure_policy;
mod indexes;
mod manage;
mod pods;
mod success_policy;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::claim::claim;
use super::cluster::Cluster;
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{
    self, Condition, Key, condition, is_deleting, is_true, put_condition, selector, set_counter, time_text,
    until,
};
use super::pod;
use count::{Count, count, is_indexed};
use manage::{Changes, manage};
use pods::{JOB_NAME_LABEL, TRACKING, release};

/// The value of `spec.managedBy` of the Jobs that this controller manages.
const MANAGER: &str = "kubernetes.io/job-controller";

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
    if job["spec"]["managedBy"].as_str().is_some_and(|manager| manager != MANAGER) {
        return Plan::default();
    }
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

fn is_suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == true
}

/// Decides which Pods to create, delete and count, and the status.
fn plan(job: &Value, pods: &[Value], pod_allowance: usize, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if is_finished(job) {
        plan.actions.extend(pods.iter().filter(|pod| pods::is_tracked(pod)).map(release));
        return plan;
    }
    let mut status = job["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let now_text = time_text(now);
    let mut counted = count(job, pods);
    let is_suspended = is_suspended(job);
    if !is_suspended && status["startTime"].is_null() {
        status["startTime"] = now_text.as_str().into();
    }
    let mut changes = Changes::default();
    if is_deleting(job) {
        // The garbage collector deletes the Pods, or orphans them.
        counted.release_all(job, false);
    } else if let Some(end) = end::find(job, &status, &counted, pods, now) {
        counted.release_all(job, end.outcome == end::Outcome::Failure);
        changes.to_delete.clone_from(&counted.active);
        let is_over = counted.active.is_empty() && counted.terminating.is_empty();
        end.proceed(&mut status, is_over, &now_text, &mut plan);
    } else {
        if is_suspended {
            changes.to_delete.clone_from(&counted.active);
        } else {
            let deadline = end::deadline(job, &status).and_then(|deadline| until(deadline, now));
            deadline.into_iter().for_each(|delay| plan.retry_after(delay));
            changes = manage(job, &counted, pods, (pod_allowance, now), &mut plan);
        }
        // Pods that the Job deletes itself do not count as failed.
        counted.to_release.extend(changes.to_delete.iter().filter(|pod| pods::is_tracked(pod)));
        suspend_or_resume(&mut status, is_suspended, &now_text, &mut plan);
    }
    write_counts(job, &counted, &changes, &mut status);
    if status != job["status"] {
        plan.actions.push(Action::SetStatus(status));
    }
    // The status comes first: if it cannot be written, the Pods keep their finalizer and are counted later.
    plan.actions.extend(counted.to_release.iter().map(|pod| release(pod)));
    plan.actions.extend(changes.to_delete.iter().map(|pod| Action::delete(Kind::Pod, pod)));
    plan.actions.extend(changes.to_create.into_iter().map(|pod| Action::Create(Kind::Pod, pod)));
    plan
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
    set_condition(status, ("Suspended", is_suspended), (reason, message), now);
    plan.actions.push(Action::Event { warning: false, reason: event, message: message.to_owned() });
    if is_suspended {
        if let Some(status) = status.as_object_mut() {
            status.remove("startTime");
        }
    } else {
        status["startTime"] = now.into();
    }
}

/// Sets a condition of a Job, which has the time of its last probe, too.
fn set_condition(
    status: &mut Value,
    (kind, is_true): (&str, bool),
    (reason, message): (&str, &str),
    now: &str,
) {
    object::set_condition(status, Condition { kind, status: is_true, reason, message }, now);
    if let Some(mut written) = condition(status, kind).cloned() {
        written["lastProbeTime"] = now.into();
        put_condition(status, written);
    }
}

fn write_counts(job: &Value, counted: &Count<'_>, changes: &Changes<'_>, status: &mut Value) {
    let length = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let deleted = length(changes.to_delete.len());
    let deleted_ready = length(changes.to_delete.iter().filter(|pod| pod::is_ready(pod)).count());
    set_counter(status, "active", length(counted.active.len()) - deleted);
    set_counter(status, "succeeded", counted.succeeded);
    set_counter(status, "failed", counted.failed);
    status["terminating"] = (length(counted.terminating.len()) + deleted).into();
    status["ready"] = (counted.ready - deleted_ready).into();
    status["uncountedTerminatedPods"] = json!({});
    if is_indexed(job) && !counted.completed_indexes.is_empty() {
        status["completedIndexes"] = counted.completed_indexes.to_string().into();
    }
    if let Some(failed) = &counted.failed_indexes {
        status["failedIndexes"] = failed.to_string().into();
    }
}

#[cfg(test)]
mod tests;
