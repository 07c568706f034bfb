//! *orphan*: what the plugin made for a key is still there after the key's object has gone.

use std::collections::{BTreeMap, BTreeSet};

use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
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

/// An object that was made for a deleted key.
struct DependentObject {
    rule: Rule,
    key: String,
    id: ObjectId,
    is_left: bool,
}

impl Oracle for Orphan {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let Some(reference) = reference else { return Judgement::without_subject() };
        if run.run.end != End::AtRest
            || reference.run().end != End::AtRest
            || reference.has_polled_longer_than(run)
        {
            return Judgement::without_subject();
        }
        let mut judgement = Judgement::without_subject();
        for dependent in dependents_of_deleted_keys(run)
            .into_iter()
            .filter(|dependent| reference.cleans_up(&dependent.rule))
        {
            judgement.had_subject = true;
            if dependent.is_left {
                let id = run.names.canonical_id(&dependent.id);
                let explanation = format!(
                    "{id} was made for {} and is still there, although {} was deleted",
                    dependent.key, dependent.key
                );
                judgement.violations.push(Violation::new(self, &id, None, explanation));
            }
        }
        judgement
    }
}

/// Returns what is always gone at rest once the key's object is.
pub(super) fn cleaned_up(run: &RunView<'_>) -> BTreeSet<Rule> {
    let dependents = dependents_of_deleted_keys(run);
    let left: BTreeSet<_> =
        dependents.iter().filter(|dependent| dependent.is_left).map(|dependent| &dependent.rule).collect();
    dependents.iter().map(|dependent| &dependent.rule).filter(|rule| !left.contains(rule)).cloned().collect()
}

fn dependents_of_deleted_keys(run: &RunView<'_>) -> Vec<DependentObject> {
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
    // What a key stands for was not made by the plugin. An object that it made may have the same name, and so may those of other kinds.
    let others = |ids: BTreeSet<ObjectId>| ids.into_iter().filter(|id| !made.contains(id));
    let gone: BTreeSet<_> = others(deleted_objects(run.run)).map(|id| id.key()).collect();
    let existing: BTreeSet<_> = run.run.objects.iter().map(ObjectId::of).collect();
    let standing: BTreeSet<_> = others(existing.clone()).map(|id| id.key()).collect();
    let mut result = Vec::new();
    for (id, writers) in writers.into_iter().filter(|(id, _)| made.contains(id)) {
        let Some((watch, key)) = writers.first().filter(|_| writers.len() == 1) else { continue };
        if gone.contains(key) && !standing.contains(key) {
            result.push(DependentObject {
                rule: (watch.clone(), id.resource.clone()),
                key: key.clone(),
                is_left: existing.contains(&id),
                id,
            });
        }
    }
    result
}

/// Returns the objects that were deleted at some time.
fn deleted_objects(run: &Run) -> BTreeSet<ObjectId> {
    run.events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Request(request)
                if request.changed && request.before.is_some() && request.after.is_none() =>
            {
                Some(request.object_id())
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
        let reference = ReferenceRuns::new(&plain, &plain);
        assert_eq!(judge(&Orphan, &run(false, false), Some(&reference)).violations[0].object, "a/made");
        let good = judge(&Orphan, &plain, Some(&reference));
        assert!(good.had_subject && good.violations.is_empty());
        assert_eq!(judge(&Orphan, &run(false, true), Some(&reference)).violations, []);
    }

    #[test]
    fn an_object_with_the_name_of_its_key_is_reported_too() {
        let run = |cleans_up: bool, is_recreated: bool| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
            run.start("a/foo");
            run.write("create", "configmaps", "a/foo", Some(json!({})));
            run.write("create", "services", "a/foo", Some(json!({})));
            run.actor("user", "delete", "foos.example.com", "a/foo", None);
            if is_recreated {
                run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
            }
            if cleans_up {
                run.controller("delete", "configmaps", "a/foo", None);
                run.controller("delete", "services", "a/foo", None);
            }
            run.finish()
        };
        let plain = run(true, false);
        let reference = ReferenceRuns::new(&plain, &plain);
        let violations = judge(&Orphan, &run(false, false), Some(&reference)).violations;
        let resources: Vec<_> = violations.iter().map(|violation| violation.resource.as_str()).collect();
        assert_eq!(resources, ["configmaps", "services"]);
        assert_eq!(judge(&Orphan, &run(false, true), Some(&reference)).violations, []);
    }

    #[test]
    fn what_is_deleted_of_a_key_that_is_still_there_is_no_orphan() {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
        run.start("a/foo");
        run.write("create", "configmaps", "a/foo", Some(json!({})));
        run.actor("user", "delete", "configmaps", "a/foo", None);
        run.start("a/foo");
        run.write("create", "configmaps", "a/foo", Some(json!({})));
        let run = run.finish();
        let reference = ReferenceRuns::new(&run, &run);
        assert!(!judge(&Orphan, &run, Some(&reference)).had_subject);
    }

    #[test]
    fn a_plugin_that_leaves_objects_on_purpose_is_not_judged() {
        let leaving = run(false, false);
        let reference = ReferenceRuns::new(&leaving, &leaving);
        assert!(!judge(&Orphan, &leaving, Some(&reference)).had_subject);
    }
}
