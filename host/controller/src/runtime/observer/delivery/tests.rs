//! Sequences of deliveries, failures and new instances.

use super::*;
use crate::cache::computed::tests::packed_pod;

fn object(name: &str, version: u64) -> Object {
    Object::from_json(format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#
    ))
    .expect("an object")
}

fn added(name: &str, version: u64) -> Notification {
    Notification::Added { object: object(name, version), initial: false }
}

fn initial(name: &str, version: u64) -> Notification {
    Notification::Added { object: object(name, version), initial: true }
}

fn updated(name: &str, from: u64, to: u64) -> Notification {
    Notification::Updated { old: object(name, from), new: object(name, to) }
}

fn deleted(name: &str, version: u64) -> Notification {
    Notification::Deleted { last: object(name, version), final_state_unknown: false }
}

/// The current batch: `initial a1`, `added b2`, …
fn next(tracker: &DeliveryTracker) -> Vec<String> {
    let word = |notification: &Notification| match notification {
        Notification::Added { initial: true, .. } => "initial",
        Notification::Added { .. } => "added",
        Notification::Updated { .. } => "updated",
        Notification::Deleted { .. } => "deleted",
    };
    let text = |notification: Notification| {
        let object = notification.object();
        format!("{} {}{}", word(&notification), object.name(), object.resource_version())
    };
    tracker.current().unwrap_or_default().into_iter().map(text).collect()
}

/// A tracker whose observer has handled this batch.
fn after_delivery_of(batch: Vec<Notification>) -> DeliveryTracker {
    let mut tracker = DeliveryTracker::default();
    tracker.push(batch);
    tracker.succeeded(Object::clone);
    tracker
}

/// Fails until the batch is not tried again.
fn fail(tracker: &mut DeliveryTracker) -> FailureOutcome {
    for _ in 0..MAX_ATTEMPTS {
        match tracker.failed(false).expect("something is pending") {
            FailureOutcome::Retry { .. } => {}
            other => return other,
        }
    }
    panic!("the batch is retried for ever");
}

#[test]
fn a_new_instance_receives_the_replay_then_the_batch_that_failed() {
    let mut tracker = after_delivery_of(vec![initial("a", 1), initial("b", 1), initial("c", 1)]);
    tracker.push(vec![updated("a", 1, 2), deleted("b", 1)]);
    assert!(matches!(tracker.failed(false), Some(FailureOutcome::Retry { failures: 1 })));
    tracker.restart();
    assert!(tracker.is_replaying());
    // The last delivered states: the update and the deletion come after them, in order.
    assert_eq!(next(&tracker), ["initial a1", "initial b1", "initial c1"]);
    tracker.succeeded(Object::clone);
    assert!(!tracker.is_replaying());
    assert_eq!(next(&tracker), ["updated a2", "deleted b1"]);
    tracker.succeeded(Object::clone);
    tracker.restart();
    assert_eq!(next(&tracker), ["initial a2", "initial c1"], "deleted objects are not replayed");
}

#[test]
fn failures_are_counted_across_instances() {
    let mut tracker = after_delivery_of(vec![initial("a", 1)]);
    tracker.push(vec![added("bad", 2), added("c", 3)]);
    for failures in 1..MAX_ATTEMPTS {
        assert!(
            matches!(tracker.failed(false), Some(FailureOutcome::Retry { failures: f }) if f == failures)
        );
        tracker.restart();
        tracker.succeeded(Object::clone);
        assert_eq!(next(&tracker), ["added bad2", "added c3"]);
    }
    assert!(matches!(tracker.failed(false), Some(FailureOutcome::Split)));
    assert_eq!(next(&tracker), ["added bad2"]);
    assert!(matches!(fail(&mut tracker), FailureOutcome::Parked(n) if n.key().name() == "bad"));
    assert_eq!(next(&tracker), ["added c3"]);
    tracker.succeeded(Object::clone);
    tracker.restart();
    assert_eq!(next(&tracker), ["initial a1", "initial c3"], "a parked object is not replayed");
    tracker.succeeded(Object::clone);
    tracker.push(vec![updated("bad", 2, 4)]);
    assert_eq!(next(&tracker), ["added bad4"], "the observer never received it");
}

#[test]
fn an_object_that_fails_in_a_replay_is_parked_until_it_changes() {
    let mut tracker = after_delivery_of(vec![initial("a", 1), initial("bad", 1), initial("c", 1)]);
    tracker.restart();
    for _ in 1..MAX_ATTEMPTS {
        assert!(matches!(tracker.failed(false), Some(FailureOutcome::Retry { .. })));
        tracker.restart();
        assert_eq!(next(&tracker).len(), 3, "the same batch again, with its failure count");
    }
    assert!(matches!(tracker.failed(false), Some(FailureOutcome::Split)));
    tracker.restart();
    tracker.succeeded(Object::clone);
    assert_eq!(next(&tracker), ["initial bad1"]);
    for _ in 1..MAX_ATTEMPTS {
        assert!(matches!(tracker.failed(false), Some(FailureOutcome::Retry { .. })));
        tracker.restart();
        tracker.succeeded(Object::clone);
    }
    assert!(matches!(tracker.failed(false), Some(FailureOutcome::Parked(n)) if n.key().name() == "bad"));
    assert_eq!(next(&tracker), ["initial c1"]);
    tracker.succeeded(Object::clone);
    assert!(!tracker.is_replaying());
    tracker.push(vec![updated("bad", 1, 1)]);
    assert!(tracker.current().is_none(), "a resync is not a change");
    tracker.push(vec![updated("bad", 1, 2)]);
    assert_eq!(next(&tracker), ["added bad2"]);
}

#[test]
fn a_pending_resync_does_not_deliver_a_parked_object_again() {
    let mut tracker = after_delivery_of(vec![initial("bad", 1), initial("c", 1)]);
    tracker.push(vec![updated("bad", 1, 1), updated("c", 1, 2)]);
    tracker.push(vec![updated("bad", 1, 1)]);
    tracker.restart();
    assert!(matches!(tracker.failed(true), Some(FailureOutcome::Split)));
    assert!(matches!(tracker.failed(true), Some(FailureOutcome::Parked(n)) if n.key().name() == "bad"));
    tracker.succeeded(Object::clone);
    assert_eq!(next(&tracker), ["updated c2"]);
    tracker.succeeded(Object::clone);
    assert!(tracker.current().is_none(), "the resyncs are left out");
}

#[test]
fn a_permanent_failure_parks_one_object_at_once_and_delivers_the_rest_of_its_batch() {
    let mut tracker = DeliveryTracker::default();
    tracker.push(vec![added("a", 1), added("bad", 2)]);
    assert!(matches!(tracker.failed(true), Some(FailureOutcome::Split)));
    assert_eq!(next(&tracker), ["added a1"]);
    tracker.succeeded(Object::clone);
    assert!(matches!(tracker.failed(true), Some(FailureOutcome::Parked(n)) if n.key().name() == "bad"));
    assert!(tracker.current().is_none() && tracker.failed(true).is_none());
}

#[test]
fn a_long_replay_is_delivered_in_batches() {
    let all: Vec<_> =
        (0..BATCH as u64 + 1).map(|number| initial(&format!("o{number:04}"), number + 1)).collect();
    let mut tracker = after_delivery_of(all);
    tracker.restart();
    assert_eq!(next(&tracker).len(), BATCH);
    tracker.succeeded(Object::clone);
    assert_eq!(next(&tracker).len(), 1);
    tracker.restart();
    assert_eq!(next(&tracker).len(), BATCH, "the next instance receives the replay from its beginning");
}

#[test]
fn what_an_observer_reads_of_a_replay_is_not_kept() {
    let object = packed_pod("a");
    let packed_size = object.memory_size();
    let mut tracker = after_delivery_of(vec![Notification::Added { object, initial: true }]);
    tracker.restart();
    let replay = tracker.current().expect("a replay");
    assert!(replay[0].object().json().len() > 1600, "the observer reads it");
    let kept: Vec<_> = tracker.into_delivered().into_values().map(|object| object.memory_size()).collect();
    assert_eq!(kept, [packed_size]);
}
