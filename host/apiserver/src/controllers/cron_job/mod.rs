//! CronJobs, after `k8s.io/kubernetes/pkg/controller/cronjob`.

mod schedule;

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::cluster::Cluster;
use super::job::is_finished;
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{
    after_seconds, is_deleting, is_true, items, key, number, owner_reference, time, time_text, until,
};
use crate::meta;
use schedule::Schedule;

const SCHEDULED_ANNOTATION: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Returns the controller of CronJobs.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::CronJob, reconcile).triggers(&[(Kind::Job, Trigger::Owners)])
}

fn reconcile(cluster: &Cluster<'_>, cron: &Value) -> Plan {
    let namespace = meta::text(cron, "namespace");
    let jobs = cluster.controlled_by(Kind::Job, namespace, meta::text(cron, "uid"));
    plan(cron, &jobs, cluster.now)
}

/// Decides which Jobs to create and delete, and the status.
fn plan(cron: &Value, jobs: &[Value], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut status = cron["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let (finished, mut active): (Vec<&Value>, Vec<&Value>) = jobs.iter().partition(|job| is_finished(job));
    let succeeded = finished.iter().filter_map(|job| time(&job["status"]["completionTime"])).max();
    if let Some(last) =
        succeeded.filter(|last| time(&status["lastSuccessfulTime"]).is_none_or(|known| known < *last))
    {
        status["lastSuccessfulTime"] = time_text(last).into();
    }
    let mut deletions = clean_up(cron, &finished);
    if !is_deleting(cron) && cron["spec"]["suspend"] != true {
        let schedule = Schedule::parse(
            cron["spec"]["schedule"].as_str().unwrap_or_default(),
            cron["spec"]["timeZone"].as_str(),
        );
        match schedule {
            Ok(schedule) => {
                start_if_due(cron, &schedule, (&mut status, &active, &mut deletions), now, &mut plan);
            }
            Err(problem) => {
                let message = format!("invalid schedule: {} : {problem}", cron["spec"]["schedule"]);
                plan.actions.push(Action::Event { warning: true, reason: "InvalidSchedule", message });
            }
        }
    }
    // The Job may exist already, if its creation could not be recorded in the status.
    plan.actions.retain(|action| match action {
        Action::CreateOrStop(_, job) => {
            !jobs.iter().any(|known| meta::text(known, "name") == meta::text(job, "name"))
        }
        _ => true,
    });
    active.retain(|job| {
        !deletions
            .iter()
            .any(|action| matches!(action, Action::Delete { key: known, .. } if *known == key(job)))
    });
    set_active(&mut status, &active);
    if status != cron["status"] {
        plan.actions.push(Action::SetStatus(status));
    }
    plan.actions.extend(deletions);
    plan
}

/// Starts the Job of the last missed time, as far as the concurrency policy allows.
fn start_if_due(
    cron: &Value,
    schedule: &Schedule,
    (status, active, deletions): (&mut Value, &[&Value], &mut Vec<Action>),
    now: Timestamp,
    plan: &mut Plan,
) {
    let created = time(&cron["metadata"]["creationTimestamp"]).unwrap_or(now);
    let mut earliest = time(&status["lastScheduleTime"]).unwrap_or(created);
    let deadline = cron["spec"]["startingDeadlineSeconds"].as_i64();
    if let Some(seconds) = deadline {
        earliest = earliest.max(after_seconds(now, seconds.saturating_neg()));
    }
    let (due, too_many) = schedule.last_missed(earliest, now);
    // The intervals of `@every` begin at the last time, not now.
    let next = schedule.next_after(due.unwrap_or(earliest)).and_then(|next| until(next, now));
    let next = next.or_else(|| schedule.next_after(now).and_then(|next| until(next, now)));
    if let Some(delay) = next {
        plan.retry_after(delay);
    }
    let Some(mut due) = due else { return };
    if too_many {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.actions.push(Action::Event {
            warning: true,
            reason: "TooManyMissedTimes",
            message: message.into(),
        });
        // The last one, found from shortly before now.
        let hour_ago = after_seconds(now, -3600);
        due = schedule.last_missed(hour_ago.max(earliest), now).0.unwrap_or(due);
    }
    match cron["spec"]["concurrencyPolicy"].as_str() {
        Some("Forbid") if !active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.actions.push(Action::Event {
                warning: false,
                reason: "JobAlreadyActive",
                message: message.into(),
            });
            return;
        }
        Some("Replace") => deletions.extend(active.iter().map(|job| Action::delete(Kind::Job, job))),
        _ => {}
    }
    let job = new_job(cron, due);
    let message = format!("Created job {}", meta::text(&job, "name"));
    // The status must not have the time of a Job that could not be created.
    plan.actions.push(Action::CreateOrStop(Kind::Job, job));
    plan.actions.push(Action::Event { warning: false, reason: "SuccessfulCreate", message });
    status["lastScheduleTime"] = time_text(due).into();
}

fn new_job(cron: &Value, due: Timestamp) -> Value {
    let template = &cron["spec"]["jobTemplate"];
    // Minutes make the name the same for the same time, so that no Job is started twice.
    let name = format!("{}-{}", meta::text(cron, "name"), due.as_second() / 60);
    let mut metadata = json!({
        "name": name, "namespace": meta::text(cron, "namespace"),
        "ownerReferences": [owner_reference(Kind::CronJob, cron)],
    });
    for field in ["labels", "annotations"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    metadata["annotations"][SCHEDULED_ANNOTATION] = time_text(due).into();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]})
}

/// Returns the deletions of finished Jobs beyond the limits of the history.
fn clean_up(cron: &Value, finished: &[&Value]) -> Vec<Action> {
    let mut actions = Vec::new();
    for (kind, field, default) in
        [("Complete", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1)]
    {
        let limit = usize::try_from(number(&cron["spec"][field], default)).unwrap_or(usize::MAX);
        let mut jobs: Vec<&Value> = finished
            .iter()
            .copied()
            .filter(|job| is_true(&job["status"], kind) && !is_deleting(job))
            .collect();
        jobs.sort_by_key(|job| Reverse(time(&job["status"]["startTime"])));
        actions.extend(jobs.into_iter().skip(limit).map(|job| Action::delete(Kind::Job, job)));
    }
    actions
}

fn set_active(status: &mut Value, active: &[&Value]) {
    let references: Vec<Value> = active
        .iter()
        .map(|job| {
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "name": meta::text(job, "name"),
                "namespace": meta::text(job, "namespace"), "uid": meta::text(job, "uid"),
                "resourceVersion": meta::text(job, "resourceVersion"),
            })
        })
        .collect();
    let known: Vec<&Value> = items(&status["active"]).iter().map(|reference| &reference["uid"]).collect();
    if known == references.iter().map(|reference| &reference["uid"]).collect::<Vec<_>>() {
        return;
    }
    match status.as_object_mut() {
        Some(status) if references.is_empty() => drop(status.remove("active")),
        Some(status) => drop(status.insert("active".into(), references.into())),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: &str = "2026-01-01T00:00:30Z";

    fn cron(spec: &Value) -> Value {
        let mut cron = json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "u", "creationTimestamp": START},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {}}}},
        });
        for (name, value) in spec.as_object().into_iter().flatten() {
            cron["spec"][name] = value.clone();
        }
        cron
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn job(name: &str, condition: &str, started: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "n", "uid": name},
            "status": {"startTime": started, "conditions": [{"type": condition, "status": "True"}]},
        })
    }

    fn created(plan: &Plan) -> Vec<&Value> {
        let created = plan.actions.iter().filter_map(|action| match action {
            Action::CreateOrStop(Kind::Job, job) => Some(job),
            _ => None,
        });
        created.collect()
    }

    fn deleted(plan: &Plan) -> Vec<&str> {
        let deleted = plan.actions.iter().filter_map(|action| match action {
            Action::Delete { key, .. } => Some(&*key.1),
            _ => None,
        });
        deleted.collect()
    }

    fn new_status(plan: &Plan) -> Value {
        let status = plan.actions.iter().find_map(|action| match action {
            Action::SetStatus(status) => Some(status.clone()),
            _ => None,
        });
        status.expect("a status")
    }

    #[test]
    fn job_starts_at_its_time_once() {
        let mut cron = cron(&json!({}));
        let early = plan(&cron, &[], at("2026-01-01T00:00:40Z"));
        assert_eq!((created(&early).len(), early.retry_after), (0, Some(Duration::from_secs(20))));
        let due = plan(&cron, &[], at("2026-01-01T00:01:00Z"));
        let job = created(&due)[0];
        assert_eq!(meta::text(job, "name"), format!("c-{}", at("2026-01-01T00:01:00Z").as_second() / 60));
        assert_eq!(job["metadata"]["annotations"][SCHEDULED_ANNOTATION], "2026-01-01T00:01:00Z");
        assert_eq!(
            (&job["metadata"]["labels"], &job["metadata"]["ownerReferences"][0]["kind"]),
            (&json!({"a": "b"}), &json!("CronJob"))
        );
        cron["status"] = new_status(&due);
        assert_eq!(cron["status"]["lastScheduleTime"], "2026-01-01T00:01:00Z");
        assert_eq!(created(&plan(&cron, &[], at("2026-01-01T00:01:01Z"))).len(), 0);
    }

    #[test]
    fn interval_begins_at_the_last_start_and_not_when_the_object_is_looked_at() {
        let mut cron = cron(&json!({"schedule": "@every 1h"}));
        cron["status"] = json!({"lastScheduleTime": "2026-01-01T10:00:00Z"});
        let between = plan(&cron, &[], at("2026-01-01T10:50:00Z"));
        assert_eq!(between.retry_after, Some(Duration::from_secs(600)));
        let due = plan(&cron, &[], at("2026-01-01T11:00:00Z"));
        assert_eq!((created(&due).len(), due.retry_after), (1, Some(Duration::from_secs(3600))));
    }

    #[test]
    fn only_the_last_missed_time_is_made_up_for() {
        let plan = plan(&cron(&json!({})), &[], at("2026-01-01T05:00:10Z"));
        let [job] = created(&plan)[..] else { panic!("{plan:?}") };
        assert_eq!(job["metadata"]["annotations"][SCHEDULED_ANNOTATION], "2026-01-01T05:00:00Z");
        assert!(
            plan.actions
                .iter()
                .any(|action| matches!(action, Action::Event { reason: "TooManyMissedTimes", .. }))
        );
    }

    #[test]
    fn starting_deadline_skips_times_that_are_long_past() {
        let cron = cron(&json!({"schedule": "0 * * * *", "startingDeadlineSeconds": 30}));
        assert_eq!(created(&plan(&cron, &[], at("2026-01-01T01:00:20Z"))).len(), 1);
        assert_eq!(created(&plan(&cron, &[], at("2026-01-01T01:00:40Z"))).len(), 0);
    }

    #[test]
    fn concurrency_policy_forbids_or_replaces_running_jobs() {
        let running = [job("running", "Other", START)];
        let due = at("2026-01-01T00:01:00Z");
        let with = |policy: &str| plan(&cron(&json!({"concurrencyPolicy": policy})), &running, due);
        let allow = with("Allow");
        assert_eq!((created(&allow).len(), deleted(&allow).len()), (1, 0));
        assert_eq!(new_status(&allow)["active"][0]["name"], "running");
        assert_eq!(created(&with("Forbid")).len(), 0);
        let replace = with("Replace");
        assert_eq!((created(&replace).len(), deleted(&replace)), (1, vec!["running"]));
    }

    #[test]
    fn suspended_or_invalid_schedules_start_nothing() {
        let due = at("2026-01-01T00:01:00Z");
        assert_eq!(created(&plan(&cron(&json!({"suspend": true})), &[], due)).len(), 0);
        let invalid = plan(&cron(&json!({"schedule": "nonsense"})), &[], due);
        assert!(matches!(invalid.actions[0], Action::Event { warning: true, reason: "InvalidSchedule", .. }));
    }

    #[test]
    fn finished_jobs_beyond_the_history_are_deleted() {
        let jobs: Vec<Value> = (0..5)
            .map(|number| job(&format!("done{number}"), "Complete", &format!("2026-01-01T00:0{number}:00Z")))
            .chain([job("bad0", "Failed", START), job("bad1", "Failed", "2026-01-01T00:09:00Z")])
            .collect();
        let plan = plan(&cron(&json!({"suspend": true})), &jobs, at("2026-01-01T00:10:00Z"));
        assert_eq!(deleted(&plan), ["done1", "done0", "bad0"]);
    }
}
