//! Deletes by which something is lost: data, running work, or what another client has made.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::{ObjectId, RunView};
use crate::run::Author;

/// Resources whose objects lose data, or running work, when they are deleted and created again.
const STATEFUL: [&str; 8] = [
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "nodes",
    "namespaces",
    "statefulsets.apps",
    "volumesnapshots.snapshot.storage.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
];

/// How often the plugin deleted an object, and the index of the event that did it last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) count: usize,
    pub(super) event: usize,
}

impl Loss {
    fn add(&mut self, event: usize) {
        self.count += 1;
        self.event = self.event.max(event);
    }
}

/// Returns the deletes by which something is lost, by canonical address. `actors` are those that take steps.
///
/// What the plugin made itself and holds no state is no loss. What it made after the first fault, it may have made because of an old view, and
/// correct that: this is a loss only if it makes the object once more although no actor has asked for anything since.
pub(super) fn losses(run: &RunView<'_>, actors: &BTreeSet<String>) -> BTreeMap<ObjectId, Loss> {
    let first_fault = run.deviations.first().map_or(usize::MAX, |(index, _)| *index);
    let mut losses: BTreeMap<ObjectId, Loss> = BTreeMap::new();
    // What the plugin made at any time, and by which name after the first fault.
    let (mut made, mut made_late) = (BTreeSet::new(), BTreeSet::new());
    let mut corrected: BTreeMap<ObjectId, usize> = BTreeMap::new();
    for (index, _, request) in run.requests().filter(|(_, _, request)| request.is_effective()) {
        let object = request.object_id();
        let id = run.names.canonical_id(&object);
        if matches!(&request.author, Author::Actor(name) if actors.contains(name)) {
            corrected.clear();
        }
        if request.before.is_none() {
            if let Some(deleted) = corrected.remove(&id).filter(|_| request.is_by_plugin()) {
                losses.entry(id.clone()).or_default().add(deleted);
            }
            if request.is_by_plugin() && index > first_fault {
                made_late.insert(object);
            } else {
                made_late.remove(&object);
            }
            if request.is_by_plugin() {
                made.insert(id);
            } else {
                made.remove(&id);
            }
        } else if request.is_by_plugin() && request.is_effective_delete() {
            if made.contains(&id) && !STATEFUL.contains(&id.resource.as_str()) {
                continue;
            }
            if made_late.contains(&object) {
                corrected.insert(id, index);
            } else {
                losses.entry(id).or_default().add(index);
            }
        }
    }
    losses
}
