//! Which Pods a Job that runs creates and deletes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::super::action::{Action, Plan};
use super::super::cluster::MAX_PODS;
use super::super::object::number;
use super::super::pod;
use super::count::{Count, is_indexed, waits_for_failure};
use super::pods::{index, indexed_pod, new_pod};
use super::{backoff, failed_indexes};

/// The maximum number of Pods created in one step.
const BURST: usize = 500;

/// What happens to the Pods of a Job.
#[derive(Debug, Default)]
pub(super) struct Changes<'a> {
    pub(super) to_delete: Vec<&'a Value>,
    pub(super) to_create: Vec<Value>,
}

/// Decides which missing Pods to create, or which superfluous ones to delete.
pub(super) fn manage<'a>(
    job: &Value,
    counted: &Count<'a>,
    pods: &[Value],
    (pod_allowance, now): (usize, Timestamp),
    plan: &mut Plan,
) -> Changes<'a> {
    let wanted = usize::try_from(wanted(job, counted)).unwrap_or(usize::MAX);
    let active = counted.active.len();
    let to_delete = superfluous(job, &counted.active, active.saturating_sub(wanted));
    if !to_delete.is_empty() {
        return Changes { to_delete, ..Changes::default() };
    }
    let terminating = if waits_for_failure(job) { counted.terminating.len() } else { 0 };
    let missing = wanted.saturating_sub(active + terminating);
    if missing == 0 {
        return Changes::default();
    }
    let count = missing.min(BURST).min(pod_allowance);
    if count < missing {
        if count < BURST {
            let message =
                format!("Error creating: the embedded API server simulates at most {MAX_PODS} Pods");
            plan.actions.push(Action::Event { warning: true, reason: "FailedCreate", message });
        }
        plan.retry_after(Duration::from_secs(5));
    }
    let to_create = if failed_indexes::is_limited(job) {
        replacements(job, counted, (count, now), plan)
    } else if let Some(delay) = backoff::of_job(pods, counted.failed_pods.iter().copied(), now) {
        plan.retry_after(delay);
        Vec::new()
    } else if is_indexed(job) {
        counted.missing_indexes(job, count).into_iter().map(|index| indexed_pod(job, index)).collect()
    } else {
        (0..count).map(|_| new_pod(job)).collect()
    };
    Changes { to_create, ..Changes::default() }
}

/// Returns how many Pods should run.
fn wanted(job: &Value, counted: &Count<'_>) -> i64 {
    let spec = &job["spec"];
    let parallelism = number(&spec["parallelism"], 1).max(0);
    match spec["completions"].as_i64() {
        Some(completions) => parallelism.min((completions - counted.succeeded).max(0)),
        // After the first success, a work queue gets no new Pods.
        None if counted.succeeded > 0 => i64::try_from(counted.active.len()).unwrap_or(i64::MAX),
        None => parallelism,
    }
}

/// Returns new Pods of a Job that limits the failures of each index, for those indexes that have waited long enough.
fn replacements(
    job: &Value,
    counted: &Count<'_>,
    (count, now): (usize, Timestamp),
    plan: &mut Plan,
) -> Vec<Value> {
    let mut created = Vec::new();
    let mut shortest_delay: Option<Duration> = None;
    for index in counted.missing_indexes(job, count) {
        let replaced = counted.to_replace.get(&index).copied();
        if let Some(delay) = replaced.and_then(|replaced| backoff::of_index(replaced, now)) {
            shortest_delay = Some(shortest_delay.map_or(delay, |known| known.min(delay)));
            continue;
        }
        let mut pod = indexed_pod(job, index);
        failed_indexes::annotate(job, &mut pod, replaced);
        created.push(pod);
    }
    if let Some(delay) = shortest_delay {
        plan.retry_after(delay);
    }
    created
}

/// Returns the Pods to delete: those of an Indexed Job without an index of their own, and `surplus` Pods in total if there
/// are fewer.
fn superfluous<'a>(job: &Value, active: &[&'a Value], surplus: usize) -> Vec<&'a Value> {
    let mut candidates = active.to_vec();
    pod::sort_for_deletion(&mut candidates);
    let mut deleted = Vec::new();
    if is_indexed(job) {
        let completions = number(&job["spec"]["completions"], 0);
        // Of several Pods of an index, the one that would be deleted last is kept.
        let kept: BTreeMap<i64, &Value> =
            candidates.iter().filter_map(|pod| Some((index(pod)?, *pod))).collect();
        let is_kept = |pod: &Value| {
            let index = index(pod).filter(|index| *index < completions);
            index.is_some_and(|index| kept.get(&index).is_some_and(|kept| std::ptr::eq(*kept, pod)))
        };
        (candidates, deleted) = candidates.into_iter().partition(|pod| is_kept(pod));
    }
    let missing = surplus.saturating_sub(deleted.len());
    deleted.extend(candidates.into_iter().take(missing));
    deleted
}
