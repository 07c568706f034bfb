//! Tests of the coalescing queue.

use pilothouse_model::Delta;

use super::{CoalescingQueue, MAX_SEARCHED};
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
    let key = pod("a", 1).object().key().clone();
    let mut queue = CoalescingQueue::new(100);
    for (name, version) in [("a", 1), ("a", 2), ("b", 3)] {
        queue.push(updated(name, version), UNKNOWN);
    }
    for latest in [Some("2"), Some("2"), None, None] {
        assert_eq!(version(queue.latest(&key)).as_deref(), latest);
        assert_eq!(version(queue.latest_mut(&key).as_deref()).as_deref(), latest);
        queue.pop();
    }
    assert!(queue.positions.is_empty(), "a short queue is searched");

    for number in 0..=MAX_SEARCHED {
        queue.push(updated(&format!("other-{number}"), 9), UNKNOWN);
    }
    for (name, version) in [("a", 1), ("a", 2), ("b", 3)] {
        queue.push(updated(name, version), UNKNOWN);
    }
    assert!(queue.positions.is_empty(), "positions are tracked from the first lookup on");
    assert_eq!(version(queue.latest(&key)).as_deref(), Some("2"));
    (0..=MAX_SEARCHED).for_each(|_| drop(queue.pop()));
    for (popped, latest, keys) in [("1", Some("2"), 2), ("2", None, 1), ("3", None, 0)] {
        assert_eq!(version(queue.pop().as_ref()).as_deref(), Some(popped));
        assert_eq!(version(queue.latest(&key)).as_deref(), latest);
        assert_eq!(version(queue.latest_mut(&key).as_deref()).as_deref(), latest);
        assert_eq!(queue.positions.len(), keys);
    }
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
