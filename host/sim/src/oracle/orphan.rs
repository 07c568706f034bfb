//! *orphan*: what the plugin made for a key is still there after the key's object has gone.

use std::collections::{BTreeMap, BTreeSet};

use super::{Description, Judgement, Oracle, Reference, Violation};
use crate::analysis::{ObjectId, RunView};
use crate::run::{End, EventKind, Run};

pub(super) const DESCRIPTION: Description = Description {
    name: "orphan",
    reports: "an object that reconciles of one key alone made exists at rest, although the key's object was deleted",
    premise: "In the reference, objects of that resource which were made for a deleted key are gone at rest. The oracle says nothing if the reference shows \
              no such case, if another key wrote the object, too, or if the run is too short for what the plugin writes without faults after it has asked for a \
              key at short intervals for 30 s.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct Orphan;

/// A watch, and a resource that its reconciles make.
pub(super) type Rule = (String, String);

/// What was made for a deleted key.
struct Made {
    rule: Rule,
    key: String,
    id: ObjectId,
    is_left: bool,
}

impl Oracle for Orphan {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&Reference>) -> Judgement {
        let Some(reference) = reference else { return Judgement::without_subject() };
        if run.run.end != End::AtRest
            || reference.run().end != End::AtRest
            || reference.has_polled_longer_than(run)
        {
            return Judgement::without_subject();
        }
        let mut judgement = Judgement::without_subject();
        for made in made_for_deleted_keys(run).into_iter().filter(|made| reference.cleans_up(&made.rule)) {
            judgement.had_subject = true;
            if made.is_left {
                let id = run.names.canonical_id(&made.id);
                let explanation = format!(
                    "{id} was made for {} and is still there, although {} was deleted",
                    made.key, made.key
                );
                judgement.violations.push(Violation::new(self, &id, None, explanation));
            }
        }
        judgement
    }
}

/// Returns what is always gone at rest once the key's object is.
pub(super) fn cleaned_up(run: &RunView<'_>) -> BTreeSet<Rule> {
    let made = made_for_deleted_keys(run);
    let left: BTreeSet<_> = made.iter().filter(|made| made.is_left).map(|made| &made.rule).collect();
    made.iter().map(|made| &made.rule).filter(|rule| !left.contains(rule)).cloned().collect()
}

fn made_for_deleted_keys(run: &RunView<'_>) -> Vec<Made> {
    let mut writers: BTreeMap<ObjectId, BTreeSet<(String, String)>> = BTreeMap::new();
    let mut made: BTreeSet<ObjectId> = BTreeSet::new();
    for (_, request) in run.effective_writes().filter(|(_, request)| !request.is_effective_delete()) {
        let reconcile = request.reconcile.and_then(|number| run.reconciles.get(&number));
        let writer = reconcile
            .map(|reconcile| (reconcile.watch.to_owned(), reconcile.key.to_owned()))
            .unwrap_or_default();
        let id = request.object_id();
        if request.before.is_none() {
            made.insert(id.clone());
        }
        writers.entry(id).or_default().insert(writer);
    }
    let gone = deleted_keys(run.run);
    let existing: BTreeSet<_> = run.run.objects.iter().map(ObjectId::of).collect();
    let mut result = Vec::new();
    for (id, writers) in writers.into_iter().filter(|(id, _)| made.contains(id)) {
        let Some((watch, key)) = writers.first().filter(|_| writers.len() == 1) else { continue };
        // Another object of the key's name may be what the key stands for.
        let is_gone = gone.contains(key) && !existing.iter().any(|other| other != &id && other.key() == *key);
        if is_gone && id.key() != *key {
            result.push(Made {
                rule: (watch.clone(), id.resource.clone()),
                key: key.clone(),
                is_left: existing.contains(&id),
                id,
            });
        }
    }
    result
}

/// Returns the keys of objects that others made and that were deleted.
fn deleted_keys(run: &Run) -> BTreeSet<String> {
    run.events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Request(request)
                if request.changed && request.before.is_some() && request.after.is_none() =>
            {
                Some(request.object_id().key())
            }
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{RunBuilder, judge};

    fn run(cleans_up: bool, other_key_writes: bool) -> crate::Run {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
        run.start("a/foo");
        run.write("create", "configmaps", "a/made", Some(json!({})));
        if other_key_writes {
            run.start("a/other");
            run.write("update", "configmaps", "a/made", Some(json!({"shared": true})));
        }
        run.actor("user", "delete", "foos.example.com", "a/foo", None);
        if cleans_up {
            run.controller("delete", "configmaps", "a/made", None);
        }
        run.finish()
    }

    #[test]
    fn what_is_left_of_a_deleted_key_is_reported() {
        let plain = run(true, false);
        let reference = Reference::new(&plain, &plain);
        assert_eq!(judge(&Orphan, &run(false, false), Some(&reference)).violations[0].object, "a/made");
        let good = judge(&Orphan, &plain, Some(&reference));
        assert!(good.had_subject && good.violations.is_empty());
        assert_eq!(judge(&Orphan, &run(false, true), Some(&reference)).violations, []);
    }

    #[test]
    fn a_plugin_that_leaves_objects_on_purpose_is_not_judged() {
        let leaving = run(false, false);
        let reference = Reference::new(&leaving, &leaving);
        assert!(!judge(&Orphan, &leaving, Some(&reference)).had_subject);
    }
}
