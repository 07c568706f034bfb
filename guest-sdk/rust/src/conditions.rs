//! Status conditions, with the semantics of `k8s.io/apimachinery/pkg/api/meta`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Returns a condition whose status is `True` or `False`. [`set`] fills in its transition time.
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

/// Adds or updates a condition, and returns whether the list changed; if not, the status need not be written.
/// `lastTransitionTime` becomes `now` (see [`clock::now`](crate::clock::now)) only when the condition's status changes.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition, now: Timestamp) -> bool {
    let Some(present) = conditions.iter_mut().find(|present| present.type_ == condition.type_) else {
        condition.last_transition_time = Time(now);
        conditions.push(condition);
        return true;
    };
    let status_changed = present.status != condition.status;
    condition.last_transition_time =
        if status_changed { Time(now) } else { present.last_transition_time.clone() };
    let changed = *present != condition;
    *present = condition;
    changed
}

/// Returns the condition of this type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == condition_type)
}

/// Returns whether the condition exists and is `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], condition_type: &str) -> bool {
    find(conditions, condition_type).is_some_and(|condition| condition.status == "True")
}

/// Removes a condition, and returns whether it existed.
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
    fn the_transition_time_changes_only_with_the_status() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, ready(false, "starting"), at(10)));
        assert!(set(&mut conditions, ready(false, "still starting"), at(20)));
        assert_eq!(conditions[0].last_transition_time, Time(at(10)));
        assert!(set(&mut conditions, ready(true, "up"), at(30)));
        assert_eq!(conditions[0].last_transition_time, Time(at(30)));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn setting_an_equal_condition_is_no_change() {
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
