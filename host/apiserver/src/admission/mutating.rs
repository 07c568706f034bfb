//! Calls mutating webhooks, one after the other, after `k8s.io/apiserver/pkg/admission/plugin/webhook/mutating`.

use serde_json::Value;

use super::Active;
use super::call::{CallError, call, plan};
use super::chain::{BuiltIn, Reinvocation};
use super::request::{Objects, WriteRequest};
use super::review;
use super::webhook::Webhook;
use crate::patch::json_patch;
use crate::status::Status;

/// Lets the webhooks change the new object in one round of admission. Returns whether one of them did.
pub(super) async fn mutate(
    active: &Active<'_>,
    write: &WriteRequest<'_>,
    (new, old): (&mut Option<Value>, Option<&Value>),
    built_in: &dyn BuiltIn,
    (reinvocation, is_second_round): (&mut Reinvocation<usize>, bool),
) -> Result<bool, Status> {
    let mut any_change = false;
    for (index, webhook) in active.configuration.mutating.iter().enumerate() {
        if !reinvocation.is_due(&index, is_second_round) {
            continue;
        }
        let objects = Objects { new: new.as_ref(), old };
        let Some(invocation) = plan(active, webhook, write, objects).await? else { continue };
        let decision = call(active, webhook, write, &invocation, true).await;
        let applied = decision.and_then(|decision| match decision.outcome {
            Ok(None) => Ok(None),
            Ok(Some(patch)) => patched(webhook, invocation.new.as_ref(), &patch).map(Some),
            Err(status) => Err(CallError::Refused(review::denial(&webhook.name, &status))),
        });
        let mut changed = false;
        match applied {
            Ok(None) => {}
            Ok(Some(value)) => {
                changed = invocation.new.as_ref() != Some(&value);
                if changed {
                    let mut value = invocation.version.convert_back(write, value).await?;
                    built_in.complete(&mut value)?;
                    *new = Some(value);
                }
            }
            Err(error) => {
                if let Some(status) = error.into_status(webhook) {
                    return Err(status);
                }
            }
        }
        any_change |= changed;
        reinvocation.record(index, webhook.is_reinvoked, changed);
    }
    Ok(any_change)
}

fn patched(webhook: &Webhook, object: Option<&Value>, patch: &Value) -> Result<Value, CallError> {
    let Some(object) = object else {
        return Err(CallError::Refused(Status::internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            webhook.name
        ))));
    };
    match json_patch(object, patch) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(CallError::Refused(Status::internal(format!(
            "admission webhook {:?} replaced the object by something else",
            webhook.name
        )))),
        Err(error) => Err(CallError::Refused(Status::internal(error))),
    }
}
