//! Counts the Pods of a Job.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::object::{is_deleting, number};
use super::super::pod;
use super::indexes::Indexes;
use super::{INDEX_ANNOTATION, TRACKING};
use crate::meta;

/// The Pods of a Job, counted.
#[derive(Debug)]
pub(super) struct Count<'a> {
    /// Pods that have neither ended nor are being deleted.
    pub(super) active: Vec<&'a Value>,
    /// The number of Pods that have succeeded, including those that are gone.
    pub(super) succeeded: i64,
    /// The number of Pods that have failed, including those that are gone.
    pub(super) failed: i64,
    pub(super) ready: i64,
    /// The number of Pods that are being deleted and have not ended.
    pub(super) terminating: i64,
    /// Pods that these numbers count for the first time.
    pub(super) to_release: Vec<&'a Value>,
    /// The indexes that have succeeded.
    pub(super) completed_indexes: Indexes,
}

/// Counts the Pods. Pods with the finalizer are added to what the status counts already.
pub(super) fn count<'a>(job: &Value, pods: &'a [Value]) -> Count<'a> {
    let status = &job["status"];
    let is_indexed = job["spec"]["completionMode"] == "Indexed";
    let mut count = Count {
        active: Vec::new(),
        succeeded: number(&status["succeeded"], 0),
        failed: number(&status["failed"], 0),
        ready: 0,
        terminating: 0,
        to_release: Vec::new(),
        completed_indexes: Indexes::parse(status["completedIndexes"].as_str().unwrap_or_default()),
    };
    let completions = number(&job["spec"]["completions"], i64::MAX);
    for pod in pods {
        if pod::is_active(pod) {
            count.active.push(pod);
            count.ready += i64::from(pod::is_ready(pod));
            continue;
        }
        let is_tracked = meta::finalizers(pod).iter().any(|name| name == TRACKING);
        count.terminating += i64::from(is_deleting(pod) && !pod::is_ended(pod));
        if !is_tracked {
            continue;
        }
        count.to_release.push(pod);
        // A Pod that is deleted while it runs counts as failed, unless the Job ended or was suspended.
        let is_stopped = super::is_finished(job) || job["spec"]["suspend"] == true || is_deleting(job);
        match pod::phase(pod) {
            "Succeeded" if is_indexed => {
                if let Some(index) = index(pod).filter(|index| (0..completions).contains(index)) {
                    count.completed_indexes.insert(index);
                }
            }
            "Succeeded" => count.succeeded += 1,
            "Failed" => count.failed += 1,
            _ if is_stopped => {}
            _ => count.failed += 1,
        }
    }
    if is_indexed {
        count.succeeded = count.completed_indexes.len();
    }
    count
}

impl Count<'_> {
    /// Returns the first indexes that have neither succeeded nor an active Pod.
    pub(super) fn missing_indexes(&self, completions: i64, limit: usize) -> Vec<i64> {
        let active: BTreeSet<i64> = self.active.iter().filter_map(|pod| index(pod)).collect();
        let is_missing = |index: &i64| !active.contains(index) && !self.completed_indexes.contains(*index);
        (0..completions).filter(is_missing).take(limit).collect()
    }
}

/// Returns the completion index of a Pod.
fn index(pod: &Value) -> Option<i64> {
    pod["metadata"]["annotations"][INDEX_ANNOTATION].as_str()?.parse().ok()
}
