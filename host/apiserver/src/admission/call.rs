//! One call of a webhook: whether it is for a write, and what it answered.

use bytes::Bytes;
use serde_json::Value;

use super::Active;
use super::conditions::{ConditionsResult, FailurePolicy};
use super::criteria::MatchedVersion;
use super::expressions::{CONDITIONS_BUDGET, Inputs};
use super::request::{Objects, WriteRequest};
use super::review::{self, Decision};
use super::webhook::Webhook;
use crate::meta;
use crate::status::Status;

/// The objects of a write in the version that a webhook asked for.
pub(super) struct Invocation {
    pub version: MatchedVersion,
    pub new: Option<Value>,
    pub old: Option<Value>,
}

/// Why a webhook has no decision.
#[derive(Debug)]
pub(super) enum CallError {
    /// The call failed. The failure policy decides.
    Failed(String),
    /// The write is refused whatever the failure policy says.
    Refused(Status),
}

impl CallError {
    /// Returns the error of the write, or `None` if the webhook's failure policy ignores it.
    pub(super) fn into_status(self, webhook: &Webhook) -> Option<Status> {
        match self {
            Self::Refused(status) => Some(status),
            Self::Failed(problem) => {
                let problem = format!("failed calling webhook {:?}: {problem}", webhook.name);
                if webhook.failure_policy == FailurePolicy::Ignore {
                    tracing::warn!(
                        webhook = webhook.name,
                        problem,
                        "the failure of an admission webhook is ignored"
                    );
                    return None;
                }
                Some(Status::internal(problem))
            }
        }
    }
}

/// Returns how to call a webhook for a write, or `None` if the webhook is not for it.
pub(super) async fn plan(
    active: &Active<'_>,
    webhook: &Webhook,
    write: &WriteRequest<'_>,
    objects: Objects<'_>,
) -> Result<Option<Invocation>, Status> {
    let namespaces = &active.control.namespaces;
    let Some(version) = webhook.criteria.matches(write, objects, &active.registry, namespaces)? else {
        return Ok(None);
    };
    let new = version.convert(write, objects.new).await?;
    let old = version.convert(write, objects.old).await?;
    if !webhook.conditions.is_empty() {
        let request = write.to_value(version.endpoint(write.endpoint), &active.user, &active.options);
        let inputs = Inputs::new(new.as_ref(), old.as_ref(), request);
        let inputs = inputs.with_authorizer(active.access, &active.user, write);
        let mut budget = CONDITIONS_BUDGET;
        match webhook.conditions.evaluate(&inputs, webhook.failure_policy, &mut budget) {
            ConditionsResult::Match => {}
            ConditionsResult::NoMatch => return Ok(None),
            ConditionsResult::Error(problem) => {
                let name = name_of(write, objects.new);
                return Err(Status::forbidden(write.endpoint.resource_ref(), name, &problem));
            }
        }
    }
    Ok(Some(Invocation { version, new, old }))
}

/// Returns the name that errors show: that of the request, of the object, or its prefix.
pub(super) fn name_of<'a>(write: &WriteRequest<'a>, object: Option<&'a Value>) -> &'a str {
    if !write.name.is_empty() {
        return write.name;
    }
    object.map_or("Unknown", meta::shown_name)
}

/// Calls a webhook.
pub(super) async fn call(
    active: &Active<'_>,
    webhook: &Webhook,
    write: &WriteRequest<'_>,
    invocation: &Invocation,
    is_mutating: bool,
) -> Result<Decision, CallError> {
    if write.dry_run && !webhook.allows_dry_run {
        let problem = format!("admission webhook {:?} does not support dry run", webhook.name);
        return Err(CallError::Refused(Status::bad_request(problem)));
    }
    let failed = |problem: &str| CallError::Failed(problem.to_owned());
    let destination = webhook
        .destination
        .as_ref()
        .map_err(|problem| CallError::Failed(format!("could not get REST client: {problem}")))?;
    let version = webhook
        .review_version
        .ok_or_else(|| failed("webhook does not accept known AdmissionReview versions (v1, v1beta1)"))?;
    let uid = active.control.client.new_review_uid();
    let objects = Objects { new: invocation.new.as_ref(), old: invocation.old.as_ref() };
    let endpoint = invocation.version.endpoint(write.endpoint);
    let review = review::build(version, &uid, write, endpoint, &active.user, &active.options, objects);
    let body = Bytes::from(review.to_string());
    let answer = active.control.client.post(destination, webhook.timeout, body).await;
    let answer = answer.map_err(|problem| CallError::Failed(format!("failed to call webhook: {problem}")))?;
    let decision = review::parse(&answer, version, &uid, is_mutating);
    let decision = decision
        .map_err(|problem| CallError::Failed(format!("received invalid webhook response: {problem}")))?;
    active.notes.warn(&decision.warnings);
    Ok(decision)
}
