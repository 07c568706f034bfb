//! *history*: the objects at rest depend on how the users came to the state that they want.

mod last_write;
mod past;

use std::collections::BTreeMap;

use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::{CanonicalEnd, EndDifference, ObjectId, RunView};
use crate::plan::HistoryPlan;
use crate::run::{End, Run};
use last_write::{LastWrite, is_silently_refused, last_writes};
use past::{Past, mentions_word};

pub(super) const DESCRIPTION: Description = Description {
    name: "history",
    reports: "after a longer way to the same objects of users, an object of the plugin is there that is named after a text which a user has replaced; or an \
              entry of one contains such a text, or the Namespace of an object that is gone; or an object is missing that a reconcile of the deleted \
              object's key deleted, or that was never made because a Namespace is being deleted; or a change of one was refused as invalid, and nothing tells it",
    premise: "A controller acts on the objects that exist, not on what users did before. A run of the shorter way, without the deleted objects and with the last \
              texts from the start, shows the end. An object of a former name counts only if the object of the new name is there, too, and if it belongs to the \
              object of the user, or if the plugin deletes such objects together with it. Not judged: Pods, Jobs and volumes, which may hold data or a result, and other kinds whose objects are kept \
              as a history; texts of fields for versions or images; metadata, statuses, and objects of users; changes that are refused if the reconcile \
              returns the error, or if the plugin writes a status or an Event.",
};

/// Resources whose objects may be kept on purpose.
const KEPT: [&str; 7] = [
    "persistentvolumeclaims",
    "persistentvolumes",
    "volumesnapshots.snapshot.storage.k8s.io",
    "pods",
    "jobs.batch",
    "replicasets.apps",
    "controllerrevisions.apps",
];

/// The oracle.
#[derive(Debug)]
pub(super) struct History;

impl Oracle for History {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let Some(reference) = reference.filter(|reference| is_pair(run.run, reference.run())) else {
            return Judgement::without_subject();
        };
        if run.run.end != End::AtRest || reference.run().end != End::AtRest {
            return Judgement::without_subject();
        }
        let comparison = Comparison {
            run,
            reference,
            expected: RunView::new(reference.run(), reference.random()).canonical_end(),
            found: run.canonical_end(),
            past: Past::of(run),
            writes: last_writes(run),
        };
        let mut first: BTreeMap<String, Violation> = BTreeMap::new();
        for difference in comparison.expected.differences(&comparison.found, reference.mask()) {
            if let Some((event, explanation)) = comparison.problem(&difference) {
                let violation = Violation::new(self, &difference.id, event, explanation);
                first.entry(difference.id.resource.clone()).or_insert(violation);
            }
        }
        Judgement::of(first.into_values().collect())
    }
}

/// Whether the runs are the two ways of one history.
fn is_pair(run: &Run, other: &Run) -> bool {
    match (run.plan.history, other.plan.history) {
        (Some(longer), Some(shorter)) => {
            !longer.is_shorter && shorter == HistoryPlan { is_shorter: true, ..longer }
        }
        _ => false,
    }
}

struct Comparison<'a> {
    run: &'a RunView<'a>,
    reference: &'a ReferenceRuns,
    /// The end of the shorter way.
    expected: CanonicalEnd,
    found: CanonicalEnd,
    past: Past,
    writes: BTreeMap<ObjectId, LastWrite<'a>>,
}

/// The event that shows a problem, and its explanation.
type Problem = (Option<usize>, String);

impl Comparison<'_> {
    /// Returns why a difference of the ends is an error of the plugin; `None` if it may be right.
    fn problem(&self, difference: &EndDifference) -> Option<Problem> {
        let EndDifference { id, pointer, .. } = difference;
        if self.past.contains(id) {
            return None;
        }
        let is_made = self.writes.get(id).is_some_and(|write| write.is_made_by_plugin);
        if !pointer.is_empty() {
            let is_judged = !["/metadata", "/status"].iter().any(|other| pointer.starts_with(other));
            return self.content(difference).filter(|_| is_made && is_judged);
        }
        if self.found.count(id) < self.expected.count(id) {
            self.missing(id)
        } else {
            self.surplus(id).filter(|_| is_made).map(|explanation| (None, explanation))
        }
    }

    /// Of an object that only the shorter way has.
    fn missing(&self, id: &ObjectId) -> Option<Problem> {
        if !self.reference.is_made_by_plugin(id) {
            return None;
        }
        match self.writes.get(id) {
            Some(write) if write.request.is_by_plugin() && write.request.is_effective_delete() => {
                let key = write.key;
                self.past.has_key(key).then(|| {
                    let text = format!(
                        "at rest there is no {id}: a reconcile of {key}, which is gone, has deleted it; if {key} has never existed, it is there"
                    );
                    (Some(write.event), text)
                })
            }
            None if self.past.has_closed_namespace() && !self.is_written(id) => {
                let namespaces =
                    self.past.namespaces.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                let text = format!(
                    "at rest there is no {id}, although it has nothing to do with the Namespace {namespaces}, which is being deleted; without that Namespace, it is there"
                );
                Some((None, text))
            }
            _ => None,
        }
    }

    /// Whether an object with this canonical address was written, which may have a generated name.
    fn is_written(&self, id: &ObjectId) -> bool {
        self.writes.keys().any(|written| self.run.names.canonical_id(written) == *id)
    }

    /// Of an object that only the longer way has.
    fn surplus(&self, id: &ObjectId) -> Option<String> {
        if KEPT.contains(&id.resource.as_str()) || !self.has_owner(id) {
            return None;
        }
        self.past.texts.iter().find_map(|(former, current)| {
            let renamed = ObjectId { name: id.name.replace(former, current), ..id.clone() };
            let is_there = self.found.count(&renamed) > 0 && self.expected.count(&renamed) > 0;
            (mentions_word(&id.name, former) && is_there).then(|| {
                format!(
                    "at rest there is {id}, although nothing is named {former:?} any more; if it has been {current:?} from the start, there is only {renamed}"
                )
            })
        })
    }

    /// Whether an object belongs to one that exists, or would be deleted together with that of its key.
    fn has_owner(&self, id: &ObjectId) -> bool {
        let object = self.run.run.objects.iter().find(|object| ObjectId::of(object) == *id);
        let has_owner = object.is_some_and(|object| {
            object.object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty())
        });
        has_owner
            || self
                .writes
                .get(id)
                .is_some_and(|write| self.reference.cleans_up(&(write.watch.to_owned(), id.resource.clone())))
    }

    /// Of an object with another content.
    fn content(&self, difference: &EndDifference) -> Option<Problem> {
        let EndDifference { id, pointer, expected, found } = difference;
        let write = self.writes.get(id)?;
        if is_silently_refused(self.run, write) {
            let (verb, status) = (&write.request.verb, write.request.status.unwrap_or_default());
            let text = format!(
                "at rest {id} has {found} at {pointer}, and {expected} if it is created after the changes: the {verb} was refused with {status}, and neither the \
                 reconcile of {} nor a status or an Event tells it",
                write.key
            );
            return Some((Some(write.event), text));
        }
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let of_text = self.past.texts.iter().find(|(former, current)| {
            let is_entry =
                expected == "nothing" && (mentions_word(last, former) || mentions_word(found, former));
            let is_item = found.starts_with('[')
                && mentions_word(found, former)
                && mentions_word(found, current)
                && !mentions_word(expected, former);
            is_entry || is_item
        });
        if let Some((former, current)) = of_text {
            let text = format!(
                "at rest {id} has {found} at {pointer}, although nothing is named {former:?} any more; if it has been {current:?} from the start, there is {expected}"
            );
            return Some((None, text));
        }
        let names = self.past.names();
        let name = names.iter().find(|name| {
            (mentions_word(found, name) || mentions_word(last, name)) && !mentions_word(expected, name)
        })?;
        let text = format!(
            "at rest {id} has {found} at {pointer}, although the object in the Namespace {name} is gone; if it has never existed, there is {expected}"
        );
        Some((None, text))
    }
}

#[cfg(test)]
mod tests;
