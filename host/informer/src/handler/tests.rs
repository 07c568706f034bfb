//! Tests of redelivery.

use super::*;
use crate::scripted_server::pod;

fn added(name: &str, version: u64) -> Notification {
    Notification::Added { object: pod(name, version).object(), initial: false }
}

fn updated(name: &str, from: u64, to: u64) -> Notification {
    Notification::Updated { old: pod(name, from).object(), new: pod(name, to).object() }
}

fn names(batch: Option<&[Notification]>) -> Vec<String> {
    batch.unwrap_or_default().iter().map(|notification| notification.key().name().to_owned()).collect()
}

/// Fails until the outcome is no longer a retry.
fn fail(redelivery: &mut Redelivery) -> FailureOutcome {
    loop {
        match redelivery.failed().expect("something is pending") {
            FailureOutcome::Retry { failures } => assert!(failures < MAX_ATTEMPTS),
            other => return other,
        }
    }
}

#[test]
fn a_failing_batch_is_redelivered_then_split_and_the_failing_object_is_parked() {
    let mut redelivery = Redelivery::default();
    redelivery.push(vec![added("a", 1), added("bad", 2), added("c", 3)]);
    for failures in 1..MAX_ATTEMPTS {
        let again = redelivery.failed();
        assert!(matches!(again, Some(FailureOutcome::Retry { failures: f }) if f == failures), "{again:?}");
        assert_eq!(names(redelivery.current()), ["a", "bad", "c"], "the whole batch again");
    }
    assert!(matches!(redelivery.failed(), Some(FailureOutcome::Split)));
    assert_eq!(names(redelivery.current()), ["a"]);
    redelivery.succeeded();
    assert_eq!(names(redelivery.current()), ["bad"]);
    let parked = fail(&mut redelivery);
    assert!(matches!(&parked, FailureOutcome::Parked(n) if n.key().name() == "bad"), "{parked:?}");
    assert_eq!(names(redelivery.current()), ["c"], "the other notifications are delivered");
    redelivery.succeeded();
    assert!(redelivery.current().is_none() && redelivery.failed().is_none());
}

#[test]
fn a_parked_object_is_skipped_until_it_changes() {
    let mut redelivery = Redelivery::default();
    redelivery.push(vec![added("bad", 2)]);
    fail(&mut redelivery);
    redelivery.push(vec![updated("bad", 2, 2), added("b", 3)]);
    assert_eq!(names(redelivery.current()), ["b"], "a resync is not a change");
    assert_eq!(redelivery.parked().map(ObjectKey::name).collect::<Vec<_>>(), ["bad"]);
    redelivery.succeeded();
    redelivery.push(vec![updated("bad", 2, 4)]);
    assert_eq!(names(redelivery.current()), ["bad"]);
    assert_eq!(redelivery.parked().count(), 0);
}

#[test]
fn the_deletion_of_a_parked_object_is_delivered() {
    let mut redelivery = Redelivery::default();
    redelivery.push(vec![added("bad", 2)]);
    fail(&mut redelivery);
    redelivery.push(vec![Notification::Deleted { last: pod("bad", 2).object(), final_state_unknown: true }]);
    assert_eq!(names(redelivery.current()), ["bad"]);
    assert_eq!(redelivery.parked().count(), 0);
}

fn deleted(name: &str, version: u64) -> Notification {
    Notification::Deleted { last: pod(name, version).object(), final_state_unknown: false }
}

#[test]
fn a_parked_deletion_is_retried_periodically() {
    let mut redelivery = Redelivery::default();
    redelivery.push(vec![deleted("bad", 2)]);
    assert_eq!(redelivery.deletion_retry_delay(), None);
    for minutes in [5, 10, 20, 40, 60, 60] {
        fail(&mut redelivery);
        assert!(redelivery.current().is_none());
        assert_eq!(redelivery.deletion_retry_delay(), Some(Duration::from_secs(60 * minutes)));
        redelivery.retry_deletions();
        assert_eq!(names(redelivery.current()), ["bad"]);
    }
    redelivery.succeeded();
    assert_eq!((redelivery.deletion_retry_delay(), redelivery.parked().count()), (None, 0));
}

#[test]
fn a_parked_deletion_is_delivered_before_a_new_object_of_the_same_name() {
    let mut redelivery = Redelivery::default();
    redelivery.push(vec![deleted("bad", 2)]);
    fail(&mut redelivery);
    redelivery.push(vec![added("bad", 3)]);
    assert!(matches!(redelivery.current(), Some([Notification::Deleted { .. }])));
    redelivery.succeeded();
    assert!(matches!(redelivery.current(), Some([Notification::Added { .. }])));
    assert_eq!(redelivery.parked().count(), 0);
}

#[test]
fn a_later_change_in_the_same_batch_is_delivered_after_the_first_is_given_up() {
    let mut redelivery = Redelivery::default();
    redelivery.push(vec![added("bad", 2), updated("bad", 2, 3)]);
    assert!(matches!(fail(&mut redelivery), FailureOutcome::Split));
    assert!(matches!(fail(&mut redelivery), FailureOutcome::Parked(_)));
    assert_eq!(redelivery.current().expect("the change").len(), 1);
    assert_eq!(redelivery.parked().count(), 0);
}

#[test]
fn a_discarded_version_is_not_delivered_but_other_versions_and_the_deletion_are() {
    let deletion = Notification::Deleted { last: pod("a", 2).object(), final_state_unknown: false };
    let mut redelivery = Redelivery::default();
    redelivery.push(vec![added("a", 1), updated("a", 1, 2), added("b", 2), deletion]);
    redelivery.push(vec![added("a", 2)]);
    redelivery.push(vec![updated("a", 2, 3)]);
    redelivery.discard_version(pod("a", 2).object().key(), "2");
    let left: Vec<_> = redelivery.current().unwrap_or_default().to_vec();
    let [Notification::Added { object: first, .. }, Notification::Added { object: other, .. }, last] =
        &left[..]
    else {
        panic!("{left:?}")
    };
    assert_eq!((first.name(), first.resource_version(), other.name()), ("a", "1", "b"));
    assert!(matches!(last, Notification::Deleted { .. }), "{last:?}");
    redelivery.succeeded();
    assert_eq!(names(redelivery.current()), ["a"], "an emptied batch is removed");
    redelivery.succeeded();
    assert!(redelivery.current().is_none());
}

#[test]
fn handler_failed_displays_its_own_text() {
    assert_eq!(HandlerFailed("no disk".into()).to_string(), "no disk");
}
