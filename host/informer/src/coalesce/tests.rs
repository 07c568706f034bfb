//! Tests of the coalescing queue.

use pilothouse_model::Delta;

use super::CoalescingQueue;
use crate::scripted_server::pod;

const UNKNOWN: &dyn Fn(&pilothouse_model::ObjectKey) -> bool = &|_| false;

fn updated(name: &str, version: u64) -> Delta {
    Delta::Updated(pod(name, version).object())
}

fn version(delta: Option<&Delta>) -> Option<String> {
    match delta {
        Some(Delta::Updated(object)) => Some(object.resource_version().to_owned()),
        _ => None,
    }
}

#[test]
fn latest_returns_the_last_item_of_a_key_until_it_is_popped() {
    let mut queue = CoalescingQueue::new(10);
    for (name, version) in [("a", 1), ("a", 2), ("b", 3)] {
        queue.push(updated(name, version), UNKNOWN);
    }
    let key = pod("a", 1).object().key().clone();
    for (popped, latest, keys) in [("1", Some("2"), 2), ("2", None, 1), ("3", None, 0)] {
        assert_eq!(version(queue.pop().as_ref()).as_deref(), Some(popped));
        assert_eq!(version(queue.latest(&key)).as_deref(), latest);
        assert_eq!(version(queue.latest_mut(&key).as_deref()).as_deref(), latest);
        assert_eq!(queue.positions.len(), keys);
    }
    // Positions are tracked from the first lookup on, not before.
    queue.push(updated("a", 4), UNKNOWN);
    assert!(queue.positions.is_empty());
    assert_eq!(version(queue.latest(&key)).as_deref(), Some("4"));
    queue.push(updated("a", 5), UNKNOWN);
    assert_eq!(version(queue.latest(&key)).as_deref(), Some("5"));
    while queue.pop().is_some() {}
    assert!(queue.latest(&key).is_none() && queue.positions.is_empty());
}

#[test]
fn merging_ends_when_the_consumer_has_caught_up() {
    let mut queue = CoalescingQueue::new(2);
    for (name, version) in [("a", 1), ("b", 2), ("c", 3), ("c", 4)] {
        queue.push(updated(name, version), UNKNOWN);
    }
    assert!(queue.merging);
    assert_eq!((queue.len(), queue.take_merged()), (3, 1));
    while queue.pop().is_some() {}
    assert!(queue.is_empty() && queue.positions.is_empty());
    queue.push(updated("a", 5), UNKNOWN);
    queue.push(updated("a", 6), UNKNOWN);
    assert_eq!((queue.len(), queue.take_merged()), (2, 0), "the queue is exact again");
}
