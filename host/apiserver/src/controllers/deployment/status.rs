//! The status of a Deployment.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::object::{
    after_seconds, condition, number, put_condition, remove_condition, set_counter, time, time_text,
};
use super::Settings;
use super::replica_sets::ReplicaSets;
use super::rollout::Progress;
use crate::meta;

/// Returns the status for the ReplicaSets as they are.
pub(super) fn status(
    deployment: &Value,
    settings: &Settings,
    sets: &ReplicaSets,
    progress: &Progress,
    now: Timestamp,
) -> Value {
    let before = &deployment["status"];
    let mut status = before.clone();
    if !status.is_object() {
        status = json!({});
    }
    let replicas = sets.total("replicas");
    let available = sets.total("availableReplicas");
    status["observedGeneration"] = meta::generation(deployment).into();
    set_counter(&mut status, "replicas", replicas);
    set_counter(&mut status, "updatedReplicas", sets.current().map_or(0, |set| set.count("replicas")));
    set_counter(&mut status, "readyReplicas", sets.total("readyReplicas"));
    set_counter(&mut status, "availableReplicas", available);
    set_counter(&mut status, "unavailableReplicas", (sets.total_replicas() - available).max(0));
    if progress.collision {
        status["collisionCount"] = (number(&before["collisionCount"], 0) + 1).into();
    }
    let writer = Writer { now: time_text(now) };
    let (state, reason, message) = if available >= settings.min_available() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    writer.set(&mut status, "Available", (state, reason, message), false);
    let failure = sets.all.iter().rev().find_map(|set| condition(&set.value["status"], "ReplicaFailure"));
    match failure {
        Some(failure) => {
            let text = |name: &str| failure[name].as_str().unwrap_or_default();
            let reported = (text("status"), text("reason"), text("message"));
            writer.set(&mut status, "ReplicaFailure", reported, false);
        }
        None => remove_condition(&mut status, "ReplicaFailure"),
    }
    set_progressing(deployment, settings, sets, progress, &mut status, (&writer, now));
    status
}

/// Whether the rollout is complete: all replicas are of the current template and available.
pub(super) fn is_complete(deployment: &Value, settings: &Settings, status: &Value) -> bool {
    let count = |name: &str| number(&status[name], 0);
    count("updatedReplicas") == settings.replicas
        && count("replicas") == settings.replicas
        && count("availableReplicas") == settings.replicas
        && count("observedGeneration") >= meta::generation(deployment)
}

fn set_progressing(
    deployment: &Value,
    settings: &Settings,
    sets: &ReplicaSets,
    progress: &Progress,
    status: &mut Value,
    (writer, now): (&Writer, Timestamp),
) {
    let Some(deadline) = settings.progress_deadline else {
        remove_condition(status, "Progressing");
        return;
    };
    let before = condition(&deployment["status"], "Progressing");
    let reason = before.and_then(|before| before["reason"].as_str()).unwrap_or_default();
    if settings.paused {
        writer.set(status, "Progressing", ("Unknown", "DeploymentPaused", "Deployment is paused"), false);
        return;
    }
    if let Some(name) = &progress.created {
        let message = format!("Created new replica set \"{name}\"");
        writer.set(status, "Progressing", ("True", "NewReplicaSetCreated", &message), true);
        return;
    }
    let subject = match sets.current() {
        Some(set) => format!("ReplicaSet \"{}\"", set.name()),
        None => format!("Deployment \"{}\"", meta::text(deployment, "name")),
    };
    let was_complete = reason == "NewReplicaSetAvailable"
        && number(&status["replicas"], 0) == number(&status["updatedReplicas"], 0);
    if is_complete(deployment, settings, status) {
        let message = format!("{subject} has successfully progressed.");
        writer.set(status, "Progressing", ("True", "NewReplicaSetAvailable", &message), false);
    } else if reason == "DeploymentPaused" {
        let message = "Deployment is resumed";
        writer.set(status, "Progressing", ("Unknown", "DeploymentResumed", message), false);
    } else if was_complete {
        // Pods that became unavailable after the rollout do not count as a rollout.
    } else if has_progressed(&deployment["status"], status) || before.is_none() {
        let message = format!("{subject} is progressing.");
        writer.set(status, "Progressing", ("True", "ReplicaSetUpdated", &message), true);
    } else {
        let since = before.and_then(|before| time(&before["lastUpdateTime"])).unwrap_or(now);
        if reason != "ProgressDeadlineExceeded" && after_seconds(since, deadline) < now {
            let message = format!("{subject} has timed out progressing.");
            writer.set(status, "Progressing", ("False", "ProgressDeadlineExceeded", &message), false);
        }
    }
}

/// Whether the rollout has moved on since the last status.
fn has_progressed(before: &Value, after: &Value) -> bool {
    let old_pods = |status: &Value| number(&status["replicas"], 0) - number(&status["updatedReplicas"], 0);
    let grew = |name: &str| number(&after[name], 0) > number(&before[name], 0);
    grew("updatedReplicas")
        || grew("readyReplicas")
        || grew("availableReplicas")
        || old_pods(after) < old_pods(before)
}

/// Writes conditions of Deployments, which have two times.
struct Writer {
    now: String,
}

impl Writer {
    /// Sets a condition. If its status and reason are the same, it is only written to `refresh` its update time.
    fn set(
        &self,
        status: &mut Value,
        kind: &str,
        (state, reason, message): (&str, &str, &str),
        refresh: bool,
    ) {
        let before = condition(status, kind);
        if before.is_some_and(|before| before["status"] == state && before["reason"] == reason) && !refresh {
            return;
        }
        let since = before.filter(|before| before["status"] == state);
        let since =
            since.and_then(|before| before["lastTransitionTime"].as_str()).unwrap_or(&self.now).to_owned();
        let condition = json!({
            "type": kind, "status": state, "reason": reason, "message": message,
            "lastUpdateTime": self.now, "lastTransitionTime": since,
        });
        put_condition(status, condition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progressing(status: &Value) -> (&Value, &Value) {
        let found = condition(status, "Progressing").expect("a condition");
        (&found["reason"], &found["lastUpdateTime"])
    }

    #[test]
    fn rollout_without_progress_exceeds_its_deadline() {
        let mut deployment = json!({
            "metadata": {"name": "web", "generation": 1},
            "spec": {"replicas": 2, "template": {}, "progressDeadlineSeconds": 60},
        });
        let settings = Settings::of(&deployment);
        let set = json!({"metadata": {"name": "web-x"}, "spec": {"replicas": 2, "template": {}}, "status": {"replicas": 2}});
        let sets = ReplicaSets::new(&deployment, vec![set]);
        let mut at = |time: &str| {
            let now = time.parse().expect("a time");
            deployment["status"] = status(&deployment, &settings, &sets, &Progress::default(), now);
            deployment["status"].clone()
        };
        let first = at("2026-01-01T00:00:00Z");
        assert_eq!(progressing(&first), (&json!("ReplicaSetUpdated"), &json!("2026-01-01T00:00:00Z")));
        assert_eq!(at("2026-01-01T00:00:59Z"), first, "nothing changed");
        let late = at("2026-01-01T00:01:01Z");
        assert_eq!(progressing(&late).0, "ProgressDeadlineExceeded");
        assert_eq!(condition(&late, "Available").expect("a condition")["status"], "False");
        assert_eq!(late["unavailableReplicas"], 2);
    }
}
