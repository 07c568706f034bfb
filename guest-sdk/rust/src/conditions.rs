//! Conditions in a status, as `k8s.io/apimachinery/pkg/api/meta` treats them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition that holds or does not. The time of the transition is set by [`set`].
#[must_use]
pub fn condition(
    condition_type: &str,
    status: bool,
    reason: &str,
    message: impl Into<String>,
    observed_generation: Option<i64>,
) -> Condition {
    Condition {
        type_: condition_type.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// Adds a condition or brings it up to date, and says whether that changed anything (if not, there is nothing to
/// write). `lastTransitionTime` becomes `now` (see [`clock::now`](crate::clock::now)) only when the status flips.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition, now: Timestamp) -> bool {
    let Some(present) = conditions.iter_mut().find(|present| present.type_ == condition.type_) else {
        condition.last_transition_time = Time(now);
        conditions.push(condition);
        return true;
    };
    let flips = present.status != condition.status;
    condition.last_transition_time = if flips { Time(now) } else { present.last_transition_time.clone() };
    let changed = *present != condition;
    *present = condition;
    changed
}

/// The condition of this type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == condition_type)
}

/// Whether the condition is there and `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], condition_type: &str) -> bool {
    find(conditions, condition_type).is_some_and(|condition| condition.status == "True")
}

/// Removes a condition, and says whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, condition_type: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != condition_type);
    conditions.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(status: bool, message: &str) -> Condition {
        condition("Ready", status, "Checked", message, Some(1))
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_flips() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, ready(false, "starting"), at(10)));
        assert!(set(&mut conditions, ready(false, "still starting"), at(20)));
        assert_eq!(conditions[0].last_transition_time, Time(at(10)));
        assert!(set(&mut conditions, ready(true, "up"), at(30)));
        assert_eq!(conditions[0].last_transition_time, Time(at(30)));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn the_same_condition_again_is_no_change() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, ready(true, "up"), at(10)));
        assert!(!set(&mut conditions, ready(true, "up"), at(20)));
    }

    #[test]
    fn conditions_are_found_and_removed_by_type() {
        let mut conditions = vec![ready(true, "up")];
        assert!(is_true(&conditions, "Ready"));
        assert!(!is_true(&conditions, "Progressing"));
        assert!(remove(&mut conditions, "Ready"));
        assert!(!remove(&mut conditions, "Ready"));
        assert!(find(&conditions, "Ready").is_none());
    }
}
