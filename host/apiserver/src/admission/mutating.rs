//! Calls mutating webhooks, one after the other, after `k8s.io/apiserver/pkg/admission/plugin/webhook/mutating`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Active;
use super::call::{CallError, call, plan};
use super::request::{Objects, WriteRequest};
use super::review;
use super::webhook::Webhook;
use crate::patch::json_patch;
use crate::status::Status;

/// Which webhooks are called again in the second round.
#[derive(Debug, Default)]
struct Reinvocation {
    /// Webhooks that may be called again and were called since the last change.
    called: BTreeSet<usize>,
    /// Webhooks that were called before a later change.
    outdated: BTreeSet<usize>,
}

impl Reinvocation {
    /// Records the call of a webhook.
    fn record(&mut self, webhook: usize, is_reinvoked: bool, changed: bool) {
        if changed {
            self.outdated.append(&mut self.called);
        }
        if is_reinvoked {
            self.called.insert(webhook);
        }
    }
}

/// Lets the webhooks change the new object. Returns whether one of them did.
pub(super) async fn mutate(
    active: &Active<'_>,
    write: &WriteRequest<'_>,
    new: &mut Option<Value>,
    old: Option<&Value>,
) -> Result<bool, Status> {
    let mut reinvocation = Reinvocation::default();
    let mut any_change = false;
    for round in 0..2 {
        for (index, webhook) in active.configuration.mutating.iter().enumerate() {
            if round > 0 && !reinvocation.outdated.contains(&index) {
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
                        *new = Some(invocation.version.convert_back(write, value).await?);
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
        if reinvocation.outdated.is_empty() {
            break;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls webhooks 0, 1, …, each given as (may be called again, changes the object), and returns those of the second round.
    fn second_round(webhooks: &[(bool, bool)]) -> Vec<usize> {
        let mut reinvocation = Reinvocation::default();
        for (index, (is_reinvoked, changed)) in webhooks.iter().enumerate() {
            reinvocation.record(index, *is_reinvoked, *changed);
        }
        reinvocation.outdated.into_iter().collect()
    }

    #[test]
    fn webhooks_are_called_again_if_a_later_one_changed_the_object() {
        type Case = (&'static [(bool, bool)], &'static [usize]);
        let cases: [Case; 5] = [
            (&[(true, false), (false, false)], &[]),
            (&[(true, false), (false, true)], &[0]),
            (&[(false, true), (true, true)], &[]),
            (&[(true, true), (true, true), (true, true)], &[0, 1]),
            (&[(true, false), (true, false), (false, true), (true, false)], &[0, 1]),
        ];
        for (webhooks, expected) in cases {
            assert_eq!(second_round(webhooks), expected, "{webhooks:?}");
        }
    }
}
