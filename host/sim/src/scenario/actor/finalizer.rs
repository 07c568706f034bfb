//! An actor that stands in for the controller that has set a finalizer: it removes the finalizer from objects that are being deleted.

use std::collections::BTreeMap;

use pilothouse_model::ResourceType;
use serde_json::{Value, json};

use super::retry_interval;
use crate::actor::{ActorPoll, ActorWrite, ObjectView, Operation, PollMoment, WriteOutcome};

/// Whose finalizer is removed, and when.
#[derive(Debug)]
pub struct FinalizerRemoval {
    /// The resources of the objects.
    pub resources: Vec<ResourceType>,
    /// The finalizer.
    pub finalizer: String,
    /// The time between the deletion and the removal, in virtual milliseconds.
    pub after_ms: u64,
}

/// The objects that are being deleted, and the write that is under way.
#[derive(Debug, Default)]
pub(super) struct RemovalState {
    /// When the finalizer of each object is removed, by the object's UID.
    due: BTreeMap<String, u64>,
    /// How often the write of an object was refused.
    attempts: u32,
    /// The UID of the object whose write is under way.
    in_flight: Option<String>,
    /// Whether the next removal does not wait for its time, because the plan says so.
    is_hurried: bool,
    writes: u32,
}

impl RemovalState {
    pub(super) fn poll(
        &mut self,
        removal: &FinalizerRemoval,
        view: &dyn ObjectView,
        moment: PollMoment,
    ) -> ActorPoll {
        let mut next: Option<(u64, ActorWrite, String)> = None;
        for resource in &removal.resources {
            for object in view.list(resource) {
                let Some((uid, write)) = removal.write(resource, &object) else { continue };
                let due = *self.due.entry(uid.clone()).or_insert(moment.now_ms + removal.after_ms);
                if next.as_ref().is_none_or(|(earliest, ..)| due < *earliest) {
                    next = Some((due, write, uid));
                }
            }
        }
        match next {
            Some((due, write, uid)) if due <= moment.now_ms || self.is_hurried => {
                self.is_hurried = false;
                self.in_flight = Some(uid);
                self.writes += 1;
                ActorPoll::Write(Box::new(ActorWrite { step: self.writes, ..write }))
            }
            next => ActorPoll::Wait { until: next.map(|(due, ..)| due), for_rest: false },
        }
    }

    pub(super) fn written(&mut self, outcome: &WriteOutcome, now_ms: u64) {
        let Some(uid) = self.in_flight.take() else { return };
        if (200..300).contains(&outcome.status) {
            self.attempts = 0;
            self.due.remove(&uid);
        } else {
            self.attempts = self.attempts.saturating_add(1);
            self.due.insert(uid, now_ms + retry_interval(self.attempts));
        }
    }

    pub(super) fn take_next_step(&mut self) {
        self.is_hurried = true;
    }
}

impl FinalizerRemoval {
    /// Returns the object's UID and the removal; `None` if the object is not being deleted or does not have the finalizer.
    fn write(&self, resource: &ResourceType, object: &Value) -> Option<(String, ActorWrite)> {
        let metadata = &object["metadata"];
        metadata.get("deletionTimestamp")?;
        let finalizers = metadata["finalizers"].as_array()?;
        let others: Vec<&Value> =
            finalizers.iter().filter(|finalizer| **finalizer != *self.finalizer).collect();
        if others.len() == finalizers.len() {
            return None;
        }
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let write = ActorWrite {
            step: 0,
            resource: resource.clone(),
            subresource: String::new(),
            namespace: text("namespace"),
            name: text("name"),
            operation: Operation::MergePatch(json!({"metadata": {"finalizers": others}})),
        };
        Some((text("uid"), write))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::kinds::Kinds;
    use super::super::super::test_view::TestView;
    use super::*;

    fn removal() -> FinalizerRemoval {
        let resource = Kinds::built_in().resolve("Secret").expect("built in").resource.clone();
        FinalizerRemoval {
            resources: vec![resource],
            finalizer: "example.org/backup".to_owned(),
            after_ms: 5000,
        }
    }

    fn secret(finalizers: &Value, is_deleting: bool) -> Value {
        let mut secret =
            json!({"kind": "Secret", "metadata": {"name": "a", "uid": "1", "finalizers": finalizers}});
        if is_deleting {
            secret["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        secret
    }

    fn poll(state: &mut RemovalState, object: Value, now_ms: u64) -> ActorPoll {
        let view = TestView::new(vec![object]);
        state.poll(&removal(), &view, PollMoment { now_ms, at_rest: false })
    }

    #[test]
    fn the_finalizer_is_removed_some_time_after_the_deletion_and_others_stay() {
        let mut state = RemovalState::default();
        let both = json!(["example.org/backup", "other/one"]);
        let idle = ActorPoll::Wait { until: None, for_rest: false };
        assert_eq!(poll(&mut state, secret(&both, false), 0), idle);
        assert_eq!(poll(&mut state, secret(&json!(["other/one"]), true), 0), idle);
        let waiting = ActorPoll::Wait { until: Some(6000), for_rest: false };
        assert_eq!(poll(&mut state, secret(&both, true), 1000), waiting);
        assert_eq!(poll(&mut state, secret(&both, true), 5999), waiting);
        let ActorPoll::Write(write) = poll(&mut state, secret(&both, true), 6000) else { panic!("a write") };
        let patch = json!({"metadata": {"finalizers": ["other/one"]}});
        assert_eq!((write.step, write.operation), (1, Operation::MergePatch(patch)));
        state.written(&WriteOutcome { status: 500, message: String::new() }, 6000);
        let again = ActorPoll::Wait { until: Some(7000), for_rest: false };
        assert_eq!(poll(&mut state, secret(&both, true), 6000), again);
        state.take_next_step();
        assert!(matches!(poll(&mut state, secret(&both, true), 6000), ActorPoll::Write(_)));
    }
}
