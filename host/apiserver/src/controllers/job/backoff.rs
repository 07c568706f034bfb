//! How long a Job waits before it replaces failed Pods, after `backoff_utils.go` in
//! `k8s.io/kubernetes/pkg/controller/job`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::super::object::{after_seconds, until};
use super::super::pod;
use super::failed_indexes::failures;
use super::pods::finished_at;

/// The delay before a failed Pod is replaced, which doubles with each failure, and its maximum, in seconds.
const FIRST: i64 = 10;
const MAX: i64 = 600;

/// Returns how long a Job waits after its last failure. Failures before the last success do not count.
///
/// Kubernetes remembers the failures; here, only those of Pods that still exist count.
pub(super) fn of_job<'a>(
    pods: &[Value],
    failed: impl Iterator<Item = &'a Value>,
    now: Timestamp,
) -> Option<Duration> {
    let last_success = pods.iter().filter(|pod| pod::phase(pod) == "Succeeded").filter_map(finished_at).max();
    let recent = failed.filter_map(finished_at).filter(|time| Some(*time) > last_success);
    let (count, last) = recent.fold((0, None), |(count, last), time| (count + 1, last.max(Some(time))));
    remaining(count, last?, now)
}

/// Returns how long an index waits whose last Pod failed.
pub(super) fn of_index(failed_pod: &Value, now: Timestamp) -> Option<Duration> {
    remaining(failures(failed_pod).total().saturating_add(1), finished_at(failed_pod)?, now)
}

fn remaining(failures: i64, last: Timestamp, now: Timestamp) -> Option<Duration> {
    let doublings = u32::try_from((failures - 1).clamp(0, 16)).unwrap_or(16);
    let seconds = FIRST.saturating_mul(1 << doublings).min(MAX);
    until(after_seconds(last, seconds), now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(phase: &str, second: i64) -> Value {
        let finished = format!("2026-01-01T00:00:{second:02}Z");
        json!({"status": {
            "phase": phase, "containerStatuses": [{"state": {"terminated": {"finishedAt": finished}}}],
        }})
    }

    #[test]
    fn failures_since_the_last_success_double_the_delay() {
        let now = "2026-01-01T00:00:20Z".parse().expect("a time");
        let delay = |pods: &[Value]| {
            let failed = pods.iter().filter(|pod| pod::phase(pod) == "Failed");
            of_job(pods, failed, now).map(|delay| delay.as_secs())
        };
        assert_eq!(delay(&[]), None);
        assert_eq!(delay(&[ended("Failed", 15)]), Some(5));
        assert_eq!(delay(&[ended("Failed", 5)]), None, "10 s have passed");
        assert_eq!(delay(&[ended("Failed", 5), ended("Failed", 15)]), Some(15));
        assert_eq!(delay(&[ended("Failed", 5), ended("Succeeded", 6), ended("Failed", 15)]), Some(5));
        assert_eq!(delay(&[ended("Failed", 15), ended("Succeeded", 16)]), None);
        let many: Vec<Value> = (0..20).map(|_| ended("Failed", 20)).collect();
        assert_eq!(delay(&many), Some(600));
    }
}
