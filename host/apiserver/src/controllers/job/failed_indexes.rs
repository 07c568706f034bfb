//! `spec.backoffLimitPerIndex` of an Indexed Job, after `indexed_job_utils.go` in
//! `k8s.io/kubernetes/pkg/controller/job`.
//!
//! A Pod's annotations say how often its index failed before. So a failed Pod keeps its finalizer until its replacement
//! exists, which takes over the number.

use std::collections::BTreeMap;

use serde_json::Value;

use super::failure_policy::{Verdict, verdict};
use super::pods::{finished_at, index};
use crate::meta;

const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// How often an index failed before one of its Pods was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failures {
    counted: i64,
    /// Failures that the Job's policy ignores.
    ignored: i64,
}

impl Failures {
    pub(super) fn total(self) -> i64 {
        self.counted.saturating_add(self.ignored)
    }
}

/// Returns the failures that the annotations of a Pod name. Malformed and negative numbers count as 0.
pub(super) fn failures(pod: &Value) -> Failures {
    let read = |name: &str| {
        let number = pod["metadata"]["annotations"][name].as_str().and_then(|text| text.parse::<i64>().ok());
        number.filter(|number| (0..=i64::from(i32::MAX)).contains(number)).unwrap_or(0)
    };
    Failures { counted: read(FAILURES), ignored: read(IGNORED_FAILURES) }
}

/// Whether a Job limits the failures of each index.
pub(super) fn is_limited(job: &Value) -> bool {
    limit(job).is_some()
}

fn limit(job: &Value) -> Option<i64> {
    job["spec"]["backoffLimitPerIndex"].as_i64()
}

/// Whether the index of a failed Pod is not tried again.
pub(super) fn is_final(job: &Value, failed_pod: &Value) -> bool {
    match verdict(&job["spec"]["podFailurePolicy"], failed_pod) {
        Verdict::FailIndex => true,
        Verdict::Ignore => false,
        Verdict::Count | Verdict::FailJob(_) => {
            limit(job).is_some_and(|limit| failures(failed_pod).counted >= limit)
        }
    }
}

/// Writes into a new Pod how often its index has failed.
pub(super) fn annotate(job: &Value, pod: &mut Value, replaced: Option<&Value>) {
    let mut failures = replaced.map_or(Failures { counted: 0, ignored: 0 }, failures);
    match replaced.map(|replaced| verdict(&job["spec"]["podFailurePolicy"], replaced)) {
        None => {}
        Some(Verdict::Ignore) => failures.ignored = failures.ignored.saturating_add(1),
        Some(_) => failures.counted = failures.counted.saturating_add(1),
    }
    let annotations = &mut pod["metadata"]["annotations"];
    annotations[FAILURES] = failures.counted.to_string().into();
    if failures.ignored > 0 {
        annotations[IGNORED_FAILURES] = failures.ignored.to_string().into();
    }
}

/// Returns the last failed Pod of each index that is to be tried again.
pub(super) fn to_replace<'a>(
    failed: impl Iterator<Item = &'a Value>,
    is_settled: impl Fn(i64) -> bool,
) -> BTreeMap<i64, &'a Value> {
    let mut last = BTreeMap::new();
    let order = |pod: &Value| (failures(pod).total(), finished_at(pod), meta::text(pod, "name").to_owned());
    for pod in failed {
        if let Some(index) = index(pod).filter(|index| !is_settled(*index)) {
            let known = last.entry(index).or_insert(pod);
            if order(known) < order(pod) {
                *known = pod;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failed(index: i64, counted: &str) -> Value {
        json!({
            "metadata": {"annotations": {super::super::pods::INDEX_ANNOTATION: index.to_string(), FAILURES: counted}},
            "status": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
        })
    }

    fn policy(action: &str) -> Value {
        json!({"rules": [{"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]})
    }

    #[test]
    fn index_is_final_after_its_limit_or_by_a_rule() {
        let mut job = json!({"spec": {"backoffLimitPerIndex": 1}});
        assert!(!is_final(&job, &failed(0, "0")) && is_final(&job, &failed(0, "1")));
        job["spec"]["podFailurePolicy"] = policy("FailIndex");
        assert!(is_final(&job, &failed(0, "0")));
        job["spec"]["podFailurePolicy"] = policy("Ignore");
        assert!(!is_final(&job, &failed(0, "7")));
    }

    #[test]
    fn replacement_takes_over_the_number_of_failures() {
        let mut job = json!({"spec": {"backoffLimitPerIndex": 3}});
        let annotated = |job: &Value, replaced: Option<&Value>| {
            let mut pod = json!({"metadata": {"annotations": {}}});
            annotate(job, &mut pod, replaced);
            failures(&pod)
        };
        assert_eq!(annotated(&job, None), Failures { counted: 0, ignored: 0 });
        assert_eq!(annotated(&job, Some(&failed(0, "2"))), Failures { counted: 3, ignored: 0 });
        assert_eq!(annotated(&job, Some(&failed(0, "-2"))), Failures { counted: 1, ignored: 0 }, "malformed");
        job["spec"]["podFailurePolicy"] = policy("Ignore");
        assert_eq!(annotated(&job, Some(&failed(0, "2"))), Failures { counted: 2, ignored: 1 });
    }

    #[test]
    fn only_the_last_failed_pod_of_an_index_waits_for_its_replacement() {
        let pods = [failed(0, "1"), failed(0, "0"), failed(1, "0"), failed(2, "0")];
        let last = to_replace(pods.iter(), |index| index == 2);
        assert_eq!(last, BTreeMap::from([(0, &pods[0]), (1, &pods[2])]));
    }
}
