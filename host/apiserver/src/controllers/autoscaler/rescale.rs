//! What follows a change of a target's replicas, whether it succeeds or not. Pure.

use serde_json::Value;

use super::ABLE_TO_SCALE;
use crate::controllers::action::{Action, ScaleTarget};
use crate::controllers::object::{Condition, set_condition};

/// A change of the replicas of a target by an autoscaler.
#[derive(Debug, PartialEq)]
pub(in crate::controllers) struct Rescale {
    pub(in crate::controllers) target: ScaleTarget,
    pub(in crate::controllers) replicas: i64,
    /// Why the replicas change.
    pub(super) reason: &'static str,
    /// The autoscaler's status after a success, apart from its condition.
    pub(super) scaled: Value,
    /// The autoscaler's status after a failure, apart from its condition.
    pub(super) unscaled: Value,
}

impl Rescale {
    /// Returns what the autoscaler reports: an Event and its status. `result` has the message of the error; `now` is the time of the condition.
    pub(in crate::controllers) fn report(self, result: Result<(), &str>, now: &str) -> [Action; 2] {
        let size = format!("New size: {}; reason: {}", self.replicas, self.reason);
        let (status, mut value, reason, message) = match result {
            Ok(()) => {
                let message =
                    format!("the HPA controller was able to update the target scale to {}", self.replicas);
                (true, self.scaled, "SucceededRescale", message)
            }
            Err(error) => {
                let message = format!("the HPA controller was unable to update the target scale: {error}");
                (false, self.unscaled, "FailedUpdateScale", message)
            }
        };
        set_condition(&mut value, Condition { kind: ABLE_TO_SCALE, status, reason, message: &message }, now);
        let event = match result {
            Ok(()) => Action::Event { warning: false, reason: "SuccessfulRescale", message: size },
            Err(error) => {
                let message = format!("{size}; error: {error}");
                Action::Event { warning: true, reason: "FailedRescale", message }
            }
        };
        [event, Action::SetStatus(value)]
    }
}
