//! Tests of the delta queue.

use std::sync::Arc;

use pilothouse_model::{Deletion, Delta, Replacement};
use tokio_test::{assert_pending, assert_ready_eq, task};

use super::DeltaQueue;
use crate::scripted_server::{Pod, pod};
use crate::store::Store;

/// A capacity at which nothing is merged.
const LARGE: usize = 1000;

fn queue(capacity: usize) -> DeltaQueue {
    DeltaQueue::new(Arc::new(Store::new()), capacity)
}

fn added(pod: &Pod) -> Delta {
    Delta::Added(pod.object())
}

fn updated(pod: &Pod) -> Delta {
    Delta::Updated(pod.object())
}

fn deleted(pod: &Pod) -> Delta {
    Delta::Deleted(Deletion::observed(pod.object()))
}

fn tombstone(pod: &Pod) -> Delta {
    Delta::Deleted(Deletion { last: pod.object(), final_state_unknown: true })
}

fn replaced(version: &str, pods: &[Pod]) -> Delta {
    let items = pods.iter().map(Pod::object).collect();
    Delta::Replaced(Replacement { items, resource_version: version.into() })
}

/// Applies a delta to the store and abbreviates it.
fn apply(store: &Store, delta: Delta) -> String {
    let summary = |sign: &str, object: &pilothouse_model::Object| {
        format!("{sign}{}@{}", object.name(), object.resource_version())
    };
    match delta {
        Delta::Added(object) => {
            store.update(object.clone());
            summary("+", &object)
        }
        Delta::Updated(object) => {
            store.update(object.clone());
            summary("~", &object)
        }
        Delta::Sync(object) => summary("s", &object),
        Delta::Deleted(deletion) => {
            store.delete(deletion.last.key(), None);
            summary("-", &deletion.last) + if deletion.final_state_unknown { "?" } else { "" }
        }
        Delta::Replaced(replacement) => {
            store.replace_all(&replacement.items, &replacement.resource_version);
            format!("={}", replacement.resource_version)
        }
    }
}

fn pop(queue: &DeltaQueue) -> Option<String> {
    queue.try_pop(|delta| apply(&queue.store, delta))
}

fn drain(queue: &DeltaQueue) -> Vec<String> {
    std::iter::from_fn(|| pop(queue)).collect()
}

#[test]
fn every_delta_type_is_popped_as_it_was_pushed() {
    let queue = queue(LARGE);
    queue.push(replaced("3", &[pod("a", 1)]));
    queue.push(added(&pod("b", 4)));
    queue.push(updated(&pod("a", 5)));
    queue.push(Delta::Sync(pod("b", 4).object()));
    queue.push(deleted(&pod("a", 6)));
    assert_eq!(drain(&queue), ["=3", "+b@4", "~a@5", "sb@4", "-a@6"]);
}

#[test]
fn deltas_of_an_object_stay_in_order_and_a_merged_delta_keeps_the_first_position() {
    let queue = queue(4);
    for delta in [added(&pod("a", 1)), added(&pod("b", 2)), added(&pod("c", 3)), updated(&pod("b", 4))] {
        queue.push(delta);
    }
    queue.push(updated(&pod("a", 5)));
    queue.push(updated(&pod("c", 6)));
    assert_eq!(drain(&queue), ["+a@5", "+b@4", "+c@6"]);
}

#[test]
fn the_store_version_never_runs_ahead_of_merged_deltas_that_are_still_queued() {
    let queue = queue(2);
    queue.push(replaced("1", &[]));
    assert_eq!(drain(&queue), ["=1"]);
    for delta in [added(&pod("a", 2)), added(&pod("b", 3)), updated(&pod("a", 4))] {
        queue.push(delta);
    }
    queue.advance_to("4");
    assert_eq!(pop(&queue).as_deref(), Some("+a@4"));
    assert_eq!(queue.store.resource_version(), "1", "b is still queued");
    assert_eq!(pop(&queue).as_deref(), Some("+b@3"));
    assert_eq!(queue.store.resource_version(), "4");
}

#[test]
fn deltas_are_not_merged_across_a_replacement() {
    let queue = queue(2);
    queue.push(added(&pod("a", 1)));
    queue.push(replaced("2", &[pod("a", 1), pod("b", 2)]));
    for version in 3..20 {
        queue.push(updated(&pod("a", version)));
    }
    assert_eq!(drain(&queue), ["+a@1", "=2", "~a@19"]);
}

#[test]
fn consecutive_deletes_are_merged() {
    for capacity in [1, LARGE] {
        let queue = queue(capacity);
        queue.store.update(pod("a", 1).object());
        queue.push(tombstone(&pod("a", 1)));
        queue.push(deleted(&pod("a", 2)));
        queue.push(tombstone(&pod("a", 1)));
        assert_eq!(queue.len(), 1);
        assert_eq!(drain(&queue), ["-a@2"], "the final state beats the tombstones");
    }
}

#[test]
fn deletes_with_an_addition_between_them_are_not_merged() {
    let queue = queue(LARGE);
    queue.store.update(pod("a", 1).object());
    queue.push(deleted(&pod("a", 2)));
    queue.push(added(&pod("a", 3).uid("new")));
    queue.push(deleted(&pod("a", 4).uid("new")));
    assert_eq!(drain(&queue), ["-a@2", "+a@3", "-a@4"]);
}

#[test]
fn deleting_an_unknown_object_queues_nothing() {
    let queue = queue(LARGE);
    queue.push(deleted(&pod("a", 1)));
    assert!(queue.is_empty());
    queue.push(added(&pod("b", 2)));
    queue.push(deleted(&pod("b", 3)));
    assert_eq!(queue.len(), 2, "the queue knows the object");
    queue.push(replaced("5", &[pod("c", 4)]));
    queue.push(deleted(&pod("b", 6)));
    queue.push(deleted(&pod("c", 7)));
    assert_eq!(drain(&queue), ["+b@2", "-b@3", "=5", "-c@7"], "a queued replacement decides");
}

#[test]
fn a_resync_skips_objects_with_a_queued_change() {
    let queue = queue(LARGE);
    for pod in [pod("a", 1), pod("b", 2), pod("c", 3)] {
        queue.store.update(pod.object());
    }
    queue.push(updated(&pod("b", 4)));
    queue.resync();
    queue.resync();
    assert_eq!(drain(&queue), ["~b@4", "sa@1", "sc@3"], "and resyncs do not pile up");
    queue.push(replaced("9", &[]));
    queue.resync();
    assert_eq!(drain(&queue), ["=9"], "a queued list is newer than the whole store");
}

#[test]
fn a_resync_of_a_large_store_does_not_start_merging() {
    let queue = queue(2);
    for name in ["a", "b", "c", "d"] {
        queue.store.update(pod(name, 1).object());
    }
    queue.push(updated(&pod("b", 5)));
    queue.resync();
    assert_eq!(queue.len(), 4);
    assert_eq!(drain(&queue), ["~b@5", "sa@1", "sc@1", "sd@1"]);
    queue.push(updated(&pod("a", 6)));
    queue.push(updated(&pod("b", 7)));
    queue.resync();
    assert_eq!(drain(&queue), ["~a@6", "~b@7", "sc@1", "sd@1"], "although the queue was full");
}

#[test]
fn a_popped_delta_is_applied_before_the_queue_is_unlocked() {
    let queue = queue(LARGE);
    queue.push(added(&pod("a", 1)));
    queue.try_pop(|delta| {
        // A deletion pushed by another thread now has to wait, or it would look like one of an unknown object.
        assert!(
            queue.inner.is_locked(),
            "the delta is neither queued nor stored, so the queue must be locked"
        );
        apply(&queue.store, delta)
    });
    queue.push(deleted(&pod("a", 2)));
    assert_eq!(drain(&queue), ["-a@2"]);
}

#[test]
fn the_queue_is_synced_once_the_first_replacement_is_processed() {
    let queue = queue(LARGE);
    queue.push(added(&pod("a", 1)));
    pop(&queue);
    queue.push(replaced("2", &[]));
    assert!(!queue.has_synced());
    queue.push(added(&pod("b", 3)));
    pop(&queue);
    assert!(queue.has_synced(), "an empty list counts");
}

#[tokio::test]
async fn close_wakes_a_blocked_pop() {
    let queue = queue(1);
    let mut first = task::spawn(queue.pop(|_| ()));
    let mut second = task::spawn(queue.pop(|_| ()));
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    queue.close();
    assert!(first.is_woken() && second.is_woken());
    assert_ready_eq!(first.poll(), None);
    assert_ready_eq!(second.poll(), None);
    queue.push(added(&pod("a", 1)));
    assert_eq!(queue.pop(|_| ()).await, None, "a closed queue accepts nothing");
}

#[tokio::test]
async fn close_wakes_a_blocked_producer() {
    let queue = queue(1);
    queue.push(added(&pod("a", 1)));
    let mut ready = task::spawn(queue.ready());
    assert_pending!(ready.poll());
    queue.close();
    assert!(ready.is_woken() && ready.poll().is_ready());
    assert_eq!(drain(&queue), ["+a@1"], "queued deltas can still be popped");
}

#[tokio::test]
async fn a_push_wakes_a_pop_and_a_pop_wakes_a_producer() {
    let queue = queue(2);
    let mut consumer = task::spawn(queue.pop(|delta| apply(&queue.store, delta)));
    assert_pending!(consumer.poll());
    queue.push(added(&pod("a", 1)));
    assert!(consumer.is_woken());
    assert_ready_eq!(consumer.poll(), Some("+a@1".to_owned()));
    queue.push_all([added(&pod("b", 2)), added(&pod("c", 3))]);
    let mut producer = task::spawn(queue.ready());
    assert_pending!(producer.poll());
    pop(&queue);
    assert!(producer.is_woken() && producer.poll().is_ready());
}

#[test]
fn queued_updates_of_one_object_merge_into_the_last() {
    let queue = queue(2);
    queue.store.update(pod("a", 1).object());
    for version in 2..1000 {
        queue.push(updated(&pod("a", version)));
    }
    assert_eq!(queue.len(), 1);
    assert_eq!(drain(&queue), ["~a@999"]);
}

#[test]
fn an_object_created_and_deleted_before_delivery_leaves_no_delta() {
    let queue = queue(2);
    for round in 0..10_000_u64 {
        let pod = pod(&format!("p{round}"), round * 2);
        queue.push(added(&pod));
        queue.push(deleted(&pod));
    }
    assert!(queue.len() <= 2, "{}", queue.len());
    assert!(queue.store.is_empty());
}

#[test]
fn a_recreated_known_object_becomes_a_deletion_and_an_addition() {
    let queue = queue(2);
    queue.store.update(pod("a", 1).uid("A").object());
    queue.push(deleted(&pod("a", 2).uid("A")));
    queue.push(added(&pod("a", 3).uid("B")));
    queue.push(deleted(&pod("a", 4).uid("B")));
    queue.push(added(&pod("a", 5).uid("C")));
    queue.push(updated(&pod("a", 6).uid("C")));
    assert_eq!(queue.len(), 2);
    assert_eq!(drain(&queue), ["-a@2", "+a@6"]);
}

#[test]
fn the_deletion_of_a_delivered_object_is_never_dropped() {
    let queue = queue(1);
    queue.push(added(&pod("a", 1)));
    pop(&queue);
    for version in 2..50 {
        queue.push(updated(&pod("a", version)));
    }
    queue.push(deleted(&pod("a", 50)));
    assert_eq!(drain(&queue), ["-a@50"]);
}

#[test]
fn the_length_counts_every_delta_and_the_items_of_a_replacement() {
    let queue = queue(LARGE);
    assert!(queue.is_empty());
    queue.push(added(&pod("a", 1)));
    queue.push(added(&pod("b", 2)));
    queue.push(replaced("3", &[pod("a", 1), pod("b", 2), pod("c", 3)]));
    queue.push(updated(&pod("c", 4)));
    queue.push(replaced("5", &[]));
    assert!(!queue.is_empty());
    assert_eq!(
        format!("{queue:?}"),
        "DeltaQueue { len: 7, capacity: 1000, synced: false, closed: false, .. }"
    );
    for (popped, left) in [("+a@1", 6), ("+b@2", 5), ("=3", 2), ("~c@4", 1), ("=5", 0)] {
        assert_eq!((pop(&queue).as_deref(), queue.len()), (Some(popped), left));
    }
}

#[test]
fn merged_and_dropped_deltas_are_counted_once_over_all_segments() {
    let queue = queue(1);
    queue.store.update(pod("a", 1).object());
    for version in 2..5 {
        queue.push(updated(&pod("a", version)));
    }
    queue.push(replaced("5", &[pod("a", 4)]));
    queue.push(deleted(&pod("a", 6)));
    queue.push(tombstone(&pod("a", 6)));
    queue.push(tombstone(&pod("a", 6)));
    queue.push(deleted(&pod("b", 7)));
    let counts = queue.take_counts();
    assert_eq!((counts.merged, counts.dropped), (2 + 2, 1));
    for version in 8..11 {
        queue.push(added(&pod("c", version)));
    }
    assert_eq!(queue.take_counts().merged, 2);
    assert_eq!(queue.take_counts(), super::Counts::default());
}
