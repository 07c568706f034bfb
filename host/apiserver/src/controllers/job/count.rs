//! Counts the Pods of a Job.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::object::{is_deleting, number};
use super::super::pod;
use super::failed_indexes;
use super::failure_policy::{Verdict, verdict};
use super::indexes::Indexes;
use super::pods::{index, is_tracked};

/// The Pods of a Job, counted.
#[derive(Debug)]
pub(super) struct Count<'a> {
    /// Pods that have neither ended nor are being deleted.
    pub(super) active: Vec<&'a Value>,
    /// The number of Pods that have succeeded, including those that are gone.
    pub(super) succeeded: i64,
    /// The number of Pods that have failed, including those that are gone, without those that wait for their replacement.
    pub(super) failed: i64,
    pub(super) ready: i64,
    /// Pods that are being deleted and have not ended.
    pub(super) terminating: Vec<&'a Value>,
    /// Pods that these numbers count for the first time.
    pub(super) to_release: Vec<&'a Value>,
    /// Pods that keep the finalizer.
    kept: Vec<&'a Value>,
    /// The Pods that have failed and still exist.
    pub(super) failed_pods: Vec<&'a Value>,
    /// The indexes that have succeeded.
    pub(super) completed_indexes: Indexes,
    /// The indexes that are not tried again, of a Job that limits the failures of each index.
    pub(super) failed_indexes: Option<Indexes>,
    /// The failed Pod that the next one of an index replaces, of a Job that limits the failures of each index.
    pub(super) to_replace: BTreeMap<i64, &'a Value>,
}

/// Counts the Pods. Pods with the finalizer are added to what the status counts already.
pub(super) fn count<'a>(job: &Value, pods: &'a [Value]) -> Count<'a> {
    let status = &job["status"];
    let completions = completions(job);
    let indexes = |field: &str| Indexes::parse_below(status[field].as_str().unwrap_or_default(), completions);
    let mut count = Count {
        active: pods.iter().filter(|pod| pod::is_active(pod)).collect(),
        succeeded: number(&status["succeeded"], 0),
        failed: number(&status["failed"], 0),
        ready: 0,
        terminating: pods.iter().filter(|pod| is_deleting(pod) && !pod::is_ended(pod)).collect(),
        to_release: Vec::new(),
        kept: Vec::new(),
        failed_pods: pods.iter().filter(|pod| is_failed(job, pod)).collect(),
        completed_indexes: indexes("completedIndexes"),
        failed_indexes: failed_indexes::is_limited(job).then(|| indexes("failedIndexes")),
        to_replace: BTreeMap::new(),
    };
    count.ready = count.active.iter().filter(|pod| pod::is_ready(pod)).map(|_| 1).sum();
    let mut failed = Vec::new();
    for pod in pods.iter().filter(|pod| is_tracked(pod)) {
        if pod::phase(pod) == "Succeeded" {
            count.add_success(job, pod);
        } else if is_failed(job, pod) {
            failed.push(pod);
        } else {
            count.kept.push(pod);
        }
    }
    if is_indexed(job) {
        count.succeeded = count.completed_indexes.len();
    }
    count.add_failures(job, &failed);
    count
}

pub(super) fn is_indexed(job: &Value) -> bool {
    job["spec"]["completionMode"] == "Indexed"
}

/// Returns the number of completions, and a number that is never reached for a work queue.
fn completions(job: &Value) -> i64 {
    number(&job["spec"]["completions"], i64::MAX)
}

/// Whether Pods are replaced only when they have failed, and not already while they are being deleted.
pub(super) fn waits_for_failure(job: &Value) -> bool {
    job["spec"]["podReplacementPolicy"] == "Failed" || job["spec"]["podFailurePolicy"].is_object()
}

/// Whether a Pod has failed. One that is deleted while it runs has, too, because it may never reach that phase.
fn is_failed(job: &Value, pod: &Value) -> bool {
    match pod::phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => is_deleting(pod) && !waits_for_failure(job),
    }
}

/// Whether the failure of a Pod counts.
fn is_counted(job: &Value, pod: &Value) -> bool {
    let has_index = !is_indexed(job) || index(pod).is_some_and(|index| index < completions(job));
    has_index && verdict(&job["spec"]["podFailurePolicy"], pod) != Verdict::Ignore
}

impl<'a> Count<'a> {
    fn add_success(&mut self, job: &Value, pod: &'a Value) {
        self.to_release.push(pod);
        if !is_indexed(job) {
            self.succeeded += 1;
        } else if let Some(index) = index(pod).filter(|index| *index < completions(job)) {
            self.completed_indexes.insert(index);
        }
    }

    fn add_failures(&mut self, job: &Value, failed: &[&'a Value]) {
        if let Some(indexes) = &mut self.failed_indexes {
            let valid = |pod: &Value| index(pod).filter(|index| *index < completions(job));
            for pod in failed.iter().filter(|pod| failed_indexes::is_final(job, pod)) {
                valid(pod).into_iter().for_each(|index| indexes.insert(index));
            }
            let active: BTreeSet<i64> = self.active.iter().filter_map(|pod| index(pod)).collect();
            let is_settled = |index: i64| {
                active.contains(&index)
                    || index >= completions(job)
                    || self.completed_indexes.contains(index)
                    || indexes.contains(index)
            };
            self.to_replace = failed_indexes::to_replace(failed.iter().copied(), is_settled);
        }
        for pod in failed {
            let waiting = index(pod).and_then(|index| self.to_replace.get(&index));
            if waiting.is_some_and(|waiting| std::ptr::eq(*waiting, *pod)) {
                self.kept.push(pod);
            } else {
                self.to_release.push(pod);
                self.failed += i64::from(is_counted(job, pod));
            }
        }
    }

    /// Returns the number of failures that the limit of a Job applies to.
    pub(super) fn failures(&self, job: &Value) -> i64 {
        self.to_replace.values().map(|pod| i64::from(is_counted(job, pod))).sum::<i64>() + self.failed
    }

    /// Releases all Pods because the Job ends. If it failed, Pods that have not ended count as failed.
    pub(super) fn release_all(&mut self, job: &Value, has_failed: bool) {
        for pod in std::mem::take(&mut self.kept) {
            self.to_release.push(pod);
            self.failed += i64::from((has_failed || is_failed(job, pod)) && is_counted(job, pod));
        }
    }

    /// Returns the first indexes that have neither ended nor a Pod.
    pub(super) fn missing_indexes(&self, job: &Value, limit: usize) -> Vec<i64> {
        let terminating = self.terminating.iter().filter(|_| waits_for_failure(job));
        let taken: BTreeSet<i64> =
            self.active.iter().chain(terminating).filter_map(|pod| index(pod)).collect();
        let has_ended = |index: i64| {
            self.completed_indexes.contains(index)
                || self.failed_indexes.as_ref().is_some_and(|failed| failed.contains(index))
        };
        let is_missing = |index: &i64| !taken.contains(index) && !has_ended(*index);
        (0..number(&job["spec"]["completions"], 0)).filter(is_missing).take(limit).collect()
    }
}
