//! When and how a Job ends.
//!
//! A condition announces the end first. The one that reports it follows when no Pod is left that has not ended.

use jiff::Timestamp;
use serde_json::Value;

use super::super::action::{Action, Plan};
use super::super::object::{after_seconds, condition, is_true, items, number, time, until};
use super::super::pod;
use super::count::{Count, is_indexed};
use super::failure_policy::{Verdict, verdict};
use super::success_policy::met_rule;
use super::{is_suspended, set_condition};

/// How a Job ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) outcome: Outcome,
    reason: String,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Failure,
}

impl Outcome {
    /// The type of the condition that announces the end.
    fn announcement(self) -> &'static str {
        match self {
            Self::Success => "SuccessCriteriaMet",
            Self::Failure => "FailureTarget",
        }
    }

    /// The type of the condition that reports the end.
    fn report(self) -> &'static str {
        match self {
            Self::Success => "Complete",
            Self::Failure => "Failed",
        }
    }
}

impl End {
    fn success(reason: &str, message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Success, reason: reason.to_owned(), message: message.into() }
    }

    fn failure(reason: &str, message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failure, reason: reason.to_owned(), message: message.into() }
    }

    /// Announces the end in one step, and reports it in a later one. `is_over` says whether all Pods have ended, which the report requires.
    pub(super) fn proceed(&self, status: &mut Value, is_over: bool, now: &str, plan: &mut Plan) {
        let outcome = self.outcome;
        if !is_true(status, outcome.announcement()) {
            set_condition(status, (outcome.announcement(), true), (&self.reason, &self.message), now);
            return;
        }
        if !is_over {
            return;
        }
        set_condition(status, (outcome.report(), true), (&self.reason, &self.message), now);
        plan.actions.push(match outcome {
            Outcome::Success => {
                status["completionTime"] = now.into();
                Action::Event { warning: false, reason: "Completed", message: "Job completed".to_owned() }
            }
            Outcome::Failure => Action::Event {
                warning: true,
                reason: event_reason(&self.reason),
                message: self.message.clone(),
            },
        });
    }
}

/// Returns a reason of [`find`] as a constant. Somebody else may have announced the end for another reason.
fn event_reason(reason: &str) -> &'static str {
    let known = [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "FailedIndexes",
        "MaxFailedIndexesExceeded",
        "PodFailurePolicy",
    ];
    known.into_iter().find(|known| *known == reason).unwrap_or("Failed")
}

/// Returns how the Job ends now. An announced end stays. A failure comes before a success.
pub(super) fn find(
    job: &Value,
    status: &Value,
    counted: &Count<'_>,
    pods: &[Value],
    now: Timestamp,
) -> Option<End> {
    announced(status)
        .or_else(|| failed_by_policy(job, counted))
        .or_else(|| past_a_limit(job, status, counted, pods, now))
        .or_else(|| decided_by_indexes(job, counted))
        .or_else(|| completed(job, counted))
}

fn announced(status: &Value) -> Option<End> {
    [Outcome::Success, Outcome::Failure].into_iter().find_map(|outcome| {
        let found = condition(status, outcome.announcement()).filter(|found| found["status"] == "True")?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Some(End { outcome, reason: text("reason"), message: text("message") })
    })
}

fn failed_by_policy(job: &Value, counted: &Count<'_>) -> Option<End> {
    counted.failed_pods.iter().find_map(|pod| match verdict(&job["spec"]["podFailurePolicy"], pod) {
        Verdict::FailJob(message) => Some(End::failure("PodFailurePolicy", message)),
        _ => None,
    })
}

fn past_a_limit(
    job: &Value,
    status: &Value,
    counted: &Count<'_>,
    pods: &[Value],
    now: Timestamp,
) -> Option<End> {
    let limit = number(&job["spec"]["backoffLimit"], 6);
    if counted.failures(job) > limit || has_too_many_restarts(job, pods, limit) {
        return Some(End::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    let is_late = deadline(job, status).is_some_and(|deadline| until(deadline, now).is_none());
    is_late.then(|| End::failure("DeadlineExceeded", "Job was active longer than specified deadline"))
}

/// Whether containers that restart in their Pods have done so too often.
fn has_too_many_restarts(job: &Value, pods: &[Value], limit: i64) -> bool {
    if job["spec"]["template"]["spec"]["restartPolicy"] != "OnFailure" {
        return false;
    }
    let running = pods.iter().filter(|pod| matches!(pod::phase(pod), "Running" | "Pending"));
    let containers = running.flat_map(|pod| {
        ["initContainerStatuses", "containerStatuses"]
            .into_iter()
            .flat_map(|list| items(&pod["status"][list]))
    });
    let restarts =
        containers.map(|container| number(&container["restartCount"], 0)).fold(0, i64::saturating_add);
    restarts >= limit.max(1)
}

fn decided_by_indexes(job: &Value, counted: &Count<'_>) -> Option<End> {
    if !is_indexed(job) {
        return None;
    }
    let spec = &job["spec"];
    let completions = number(&spec["completions"], 0);
    if let Some(failed) = &counted.failed_indexes {
        if spec["maxFailedIndexes"].as_i64().is_some_and(|max| failed.len() > max) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(End::failure("MaxFailedIndexesExceeded", message));
        }
        if !failed.is_empty() && failed.len().saturating_add(counted.succeeded) >= completions {
            return Some(End::failure("FailedIndexes", "Job has failed indexes"));
        }
    }
    let message = met_rule(&spec["successPolicy"], &counted.completed_indexes, completions)?;
    Some(End::success("SuccessPolicy", message))
}

fn completed(job: &Value, counted: &Count<'_>) -> Option<End> {
    let is_complete = match job["spec"]["completions"].as_i64() {
        Some(completions) => counted.succeeded >= completions,
        // A work queue: the first success means that the work is done.
        None => counted.succeeded > 0,
    };
    (is_complete && counted.active.is_empty())
        .then(|| End::success("CompletionsReached", "Reached expected number of succeeded pods"))
}

/// Returns when a Job that runs has run for too long.
pub(super) fn deadline(job: &Value, status: &Value) -> Option<Timestamp> {
    let seconds = job["spec"]["activeDeadlineSeconds"].as_i64()?;
    time(&status["startTime"]).filter(|_| !is_suspended(job)).map(|start| after_seconds(start, seconds))
}
