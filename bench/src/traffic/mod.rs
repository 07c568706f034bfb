//! Traffic as clusters have it: Pods of 400 workloads, and changes of many kinds.
//!
//! Of a hundred changes, 65 are status updates by a kubelet, 8 change labels, 10 annotations and 7 the spec, and 10 replace the Pod: it is
//! deleted, and its owner creates another one. Conditions, container statuses and managed fields come, go and change their length. The
//! same seed yields the same traffic.

mod managed_fields;
mod pod;
mod random;
mod render;
mod status;
mod time;
mod workload;

use std::sync::Arc;

pub use pod::Change;
use pod::Pod;
use random::Random;
pub use render::PodText;
pub(crate) use render::TYPE;
use workload::Workload;

/// The number of workloads.
pub const WORKLOADS: usize = 400;
/// The number of changes in a second of the Pods' timestamps.
const CHANGES_PER_SECOND: u32 = 20;

/// An event of a watch, without its resource version.
#[derive(Clone, Debug)]
pub struct TrafficEvent {
    /// The event's type.
    pub kind: &'static str,
    /// The Pod.
    pub pod: PodText,
}

/// Generates Pods and events about them. The number of Pods stays the same after each change.
#[derive(Clone)]
pub struct Traffic {
    random: Random,
    workloads: Arc<[Workload]>,
    pods: Vec<Pod>,
    changes: u32,
    events: usize,
    /// The Pod that replaces the deleted one; its creation is the next event.
    created: Option<(usize, Pod)>,
    only: Option<Change>,
    with_time_of_sending: bool,
}

impl Traffic {
    /// Creates the Pods, which are listed by workload.
    #[must_use]
    pub fn new(seed: u64, objects: usize) -> Self {
        let mut random = Random::new(seed);
        let workloads: Arc<[_]> =
            (0..WORKLOADS).map(|number| Workload::generate(number, &mut random)).collect();
        let pods = (0..objects).map(|number| {
            let workload = number * WORKLOADS / objects;
            Pod::running(workload, &workloads[workload], time::FIRST, &mut random)
        });
        let pods = pods.collect();
        Self {
            pods,
            random,
            workloads,
            changes: 0,
            events: 0,
            created: None,
            only: None,
            with_time_of_sending: false,
        }
    }

    /// Sets whether each Pod has an annotation with the time at which its event is sent.
    #[must_use]
    pub fn with_time_of_sending(mut self, is_sent: bool) -> Self {
        self.with_time_of_sending = is_sent;
        self
    }

    /// Sets the only kind of change.
    #[must_use]
    pub fn with_only(mut self, change: Change) -> Self {
        self.only = Some(change);
        self
    }

    /// Returns the text of a Pod in its present state.
    #[must_use]
    pub fn pod(&self, number: usize) -> PodText {
        self.render(&self.pods[number])
    }

    /// Returns the text of a Pod after a further status update.
    #[must_use]
    pub fn changed_pod(&self, number: usize) -> PodText {
        let mut pod = self.pods[number].clone();
        pod.apply(Change::Status, self.now() + 1, &mut Random::new(number as u64));
        self.render(&pod)
    }

    fn render(&self, pod: &Pod) -> PodText {
        render::render(pod, &self.workloads[pod.workload], self.with_time_of_sending)
    }

    fn now(&self) -> u32 {
        time::FIRST + self.changes / CHANGES_PER_SECOND
    }

    /// Generates the next event. The last event of a sequence is no deletion, because the number of Pods would differ.
    pub fn next_event(&mut self, is_last: bool) -> TrafficEvent {
        let (kind, pod) = self.advance(is_last);
        TrafficEvent { kind, pod: self.render(&pod) }
    }

    /// Skips events without rendering them, as [`next_event`](Self::next_event) would generate them.
    pub fn skip(&mut self, events: usize) {
        for left in (0..events).rev() {
            self.advance(left == 0);
        }
    }

    /// Returns the last event about a Pod, counted from 1; 0 if there was none.
    #[must_use]
    pub fn last_event(&self, number: usize) -> usize {
        self.pods[number].event
    }

    fn advance(&mut self, is_last: bool) -> (&'static str, Pod) {
        self.events += 1;
        if let Some((number, mut pod)) = self.created.take() {
            pod.event = self.events;
            self.pods[number] = pod.clone();
            return ("ADDED", pod);
        }
        self.changes += 1;
        let now = self.now();
        let drawn = self.draw();
        let number = self.random.below(self.pods.len());
        let pod = &mut self.pods[number];
        pod.event = self.events;
        if drawn == Change::Replacement && !is_last {
            pod.deleted = Some(now);
            let deleted = pod.clone();
            let workload = &self.workloads[deleted.workload];
            let created = Pod::create(deleted.workload, workload, now, &mut self.random);
            self.created = Some((number, created));
            return ("DELETED", deleted);
        }
        pod.apply(drawn, now, &mut self.random);
        ("MODIFIED", pod.clone())
    }

    fn draw(&mut self) -> Change {
        let drawn = self.random.below(100);
        self.only.unwrap_or(match drawn {
            0..65 => Change::Status,
            65..73 => Change::Labels,
            73..83 => Change::Annotations,
            83..90 => Change::Spec,
            _ => Change::Replacement,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

    fn text(pod: &PodText, version: usize) -> String {
        let version = version.to_string();
        String::from_utf8(pod.parts(version.as_bytes(), b"1234567890123456789").concat()).expect("UTF-8")
    }

    fn value(pod: &PodText) -> Value {
        serde_json::from_str(&text(pod, 17)).expect("JSON")
    }

    #[test]
    fn a_seed_yields_the_same_traffic() {
        let all = |seed| {
            let mut traffic = Traffic::new(seed, 50);
            let list: Vec<_> = (0..50).map(|number| text(&traffic.pod(number), number)).collect();
            let events: Vec<_> = (0..200)
                .map(|number| {
                    let event = traffic.next_event(false);
                    (event.kind, text(&event.pod, number))
                })
                .collect();
            (list, events)
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        let (mut rendered, mut skipped) = (Traffic::new(1, 50), Traffic::new(1, 50));
        (0..200).for_each(|number| drop(rendered.next_event(number == 199)));
        skipped.skip(200);
        assert!((0..50).all(|number| text(&rendered.pod(number), 1) == text(&skipped.pod(number), 1)));
    }

    #[test]
    fn pods_have_about_4_kilobytes() {
        let mut traffic = Traffic::new(1, 2_000);
        let listed: usize = (0..2_000).map(|number| text(&traffic.pod(number), 1).len()).sum();
        let sent: usize = (0..2_000).map(|_| text(&traffic.next_event(false).pod, 1).len()).sum();
        for bytes in [listed / 2_000, sent / 2_000] {
            assert!((3_700..4_100).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn the_objects_of_the_events_are_those_of_the_list() {
        let mut traffic = Traffic::new(1, 100);
        let uid = |pod: &Value| pod["metadata"]["uid"].as_str().expect("a UID").to_owned();
        let name = |pod: &Value| {
            let metadata = &pod["metadata"];
            format!("{}/{}", metadata["namespace"], metadata["name"])
        };
        let mut known: BTreeMap<_, _> = (0..100)
            .map(|number| value(&traffic.pod(number)))
            .map(|pod| (name(&pod), (uid(&pod), pod["metadata"]["ownerReferences"].clone())))
            .collect();
        let owners: BTreeSet<_> = known.values().map(|(_, owner)| owner.to_string()).collect();
        let mut kinds = BTreeMap::new();
        for number in 0..2_000 {
            let event = traffic.next_event(number == 1_999);
            let pod = value(&event.pod);
            let entry = (uid(&pod), pod["metadata"]["ownerReferences"].clone());
            assert!(owners.contains(&entry.1.to_string()), "a known owner");
            *kinds.entry(event.kind).or_insert(0) += 1;
            match event.kind {
                "ADDED" => assert_eq!(known.insert(name(&pod), entry), None),
                "DELETED" => assert_eq!(known.remove(&name(&pod)), Some(entry)),
                _ => assert_eq!(known.get(&name(&pod)), Some(&entry)),
            }
        }
        assert_eq!(known.len(), 100, "the number of Pods stays the same");
        assert_eq!(kinds["ADDED"], kinds["DELETED"]);
        assert!((150..220).contains(&kinds["DELETED"]), "{kinds:?}");
    }

    #[test]
    fn the_time_of_sending_is_an_annotation() {
        let traffic = Traffic::new(1, 3).with_time_of_sending(true);
        assert_eq!(value(&traffic.pod(1))["metadata"]["annotations"]["bench/sent-at"], "1234567890123456789");
        assert_eq!(value(&traffic.changed_pod(1))["metadata"]["resourceVersion"], "17");
    }
}
