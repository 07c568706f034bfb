//! Deletes finished Jobs after `ttlSecondsAfterFinished`, after `k8s.io/kubernetes/pkg/controller/ttlafterfinished`.

use jiff::Timestamp;
use serde_json::Value;

use super::action::{Action, Plan};
use super::kind::Kind;
use super::kind_controller::KindController;
use super::object::{after_seconds, is_deleting, items, key, time, until};
use crate::meta;

/// Returns the controller of finished Jobs.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::Job, |cluster, job| plan(job, cluster.now))
}

/// Decides whether a Job is deleted.
fn plan(job: &Value, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let (Some(seconds), Some(finished)) = (job["spec"]["ttlSecondsAfterFinished"].as_i64(), finished_at(job))
    else {
        return plan;
    };
    if is_deleting(job) {
        return plan;
    }
    match until(after_seconds(finished, seconds), now) {
        Some(delay) => plan.retry_after(delay),
        None => {
            let uid = meta::text(job, "uid").to_owned();
            plan.actions.push(Action::Delete { kind: Kind::Job, key: key(job), uid, foreground: true });
        }
    }
    plan
}

/// Returns the time at which the Job became complete or failed.
fn finished_at(job: &Value) -> Option<Timestamp> {
    let mut conditions = items(&job["status"]["conditions"]).iter();
    let finished = conditions.find(|condition| {
        (condition["type"] == "Complete" || condition["type"] == "Failed") && condition["status"] == "True"
    })?;
    time(&finished["lastTransitionTime"])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn finished_job_is_deleted_after_its_time() {
        let at = |text: &str| text.parse().expect("a time");
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"ttlSecondsAfterFinished": 10}});
        assert_eq!(plan(&job, at("2026-01-01T00:00:00Z")), Plan::default());
        let finished =
            json!({"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        job["status"]["conditions"] = json!([finished]);
        assert_eq!(plan(&job, at("2026-01-01T00:00:04Z")).retry_after, Some(Duration::from_secs(6)));
        let deleted = plan(&job, at("2026-01-01T00:00:10Z")).actions;
        assert!(matches!(deleted.as_slice(), [Action::Delete { foreground: true, .. }]), "{deleted:?}");
    }
}
