//! *stuck deletion*: a finalizer of the plugin stays although the plugin has nothing left to do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::own_changes::finalizers;
use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::{ObjectId, RunView, is_record, mentions};
use crate::run::{End, ReconcileResult, RequestEvent, StoredObject};

pub(super) const DESCRIPTION: Description = Description {
    name: "stuck deletion",
    reports: "at rest, without any fault, an object is being deleted and has only finalizers that the plugin adds, although the last reconcile of its key has \
              succeeded and asks for nothing",
    premise: "Whoever adds a finalizer removes it when its work is done. Not judged: objects that another object names, other than Events and Leases, because the plugin may wait \
              until that is gone; and objects for which a reconcile of their key has written another object that still exists, because it may wait for the controller of that.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct StuckDeletion;

impl Oracle for StuckDeletion {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, _: Option<&ReferenceRuns>) -> Judgement {
        if run.run.end != End::AtRest || !run.run.plan.deviations.is_empty() {
            return Judgement::without_subject();
        }
        let own = own_finalizers(run);
        let mut judgement = Judgement::without_subject();
        judgement.had_subject = !own.is_empty();
        for object in &run.run.objects {
            let id = ObjectId::of(object);
            if is_kept_by(object, &own) && is_done(run, &id) && !is_awaited(run, &id) {
                let finalizers =
                    finalizers(Some(object.object.as_ref())).into_iter().collect::<Vec<_>>().join(", ");
                let explanation = format!(
                    "at rest {id} is being deleted and has the finalizer {finalizers}, although the last reconcile of {} has succeeded and asks for nothing",
                    id.key()
                );
                let id = run.names.canonical_id(&id);
                judgement.violations.push(Violation::new(self, &id, None, explanation));
            }
        }
        judgement
    }
}

/// Returns the finalizers that the plugin has added, each with the resource.
fn own_finalizers(run: &RunView<'_>) -> BTreeSet<(String, String)> {
    let added = |request: &RequestEvent| -> Vec<(String, String)> {
        let before = finalizers(request.before.as_deref());
        let after = finalizers(request.after.as_deref());
        after.difference(&before).map(|name| (request.resource.clone(), (*name).to_owned())).collect()
    };
    run.effective_writes().flat_map(|(_, request)| added(request)).collect()
}

/// Whether the object is being deleted, and nothing but the plugin's finalizers keeps it.
fn is_kept_by(object: &StoredObject, own: &BTreeSet<(String, String)>) -> bool {
    let names = finalizers(Some(object.object.as_ref()));
    object.object.pointer("/metadata/deletionTimestamp").is_some()
        && !names.is_empty()
        && names.iter().all(|name| own.contains(&(object.resource.clone(), (*name).to_owned())))
}

/// Whether the last reconcile of the key in each watch has succeeded without a further one being due, and one of them has begun after the deletion.
fn is_done(run: &RunView<'_>, id: &ObjectId) -> bool {
    let deletion = run.requests().find(|(_, _, request)| {
        let is_deleted = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
        let was_deleted = request.before.as_deref().is_some_and(is_deleted);
        request.object_id() == *id && request.after.as_deref().is_some_and(is_deleted) && !was_deleted
    });
    let Some((deletion, ..)) = deletion else { return false };
    let key = id.key();
    let mut last = BTreeMap::new();
    for reconcile in run.reconciles.values().filter(|reconcile| reconcile.key == key) {
        last.insert((reconcile.plugin, reconcile.watch), reconcile);
    }
    let is_ok = |result: Option<(usize, &ReconcileResult)>| matches!(result, Some((_, ReconcileResult::Ok)));
    last.values().all(|reconcile| is_ok(reconcile.end))
        && last.values().any(|reconcile| reconcile.start > deletion)
}

/// Whether the plugin may wait until another object is gone or changed.
fn is_awaited(run: &RunView<'_>, id: &ObjectId) -> bool {
    let key = id.key();
    let mut written = BTreeSet::new();
    for (_, request) in run.effective_writes() {
        let reconcile = request.reconcile.and_then(|number| run.reconciles.get(&number));
        if reconcile.is_some_and(|reconcile| reconcile.key == key) {
            written.insert(request.object_id());
        }
    }
    run.run.objects.iter().any(|object| {
        let other = ObjectId::of(object);
        let is_other = other != *id && !is_record(&other.resource) && !object.is_initial;
        is_other && (written.contains(&other) || mentions(&object.object, &id.name))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{RunBuilder, judge};

    fn terminating() -> Value {
        json!({"metadata": {"finalizers": ["own/one"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    }

    /// A plugin adds a finalizer, and the object is deleted. `work` is what the plugin does then.
    fn run(result: ReconcileResult, work: &dyn Fn(&mut RunBuilder)) -> RunBuilder {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "foos.example.com", "a/foo", Some(json!({})));
        run.start("a/foo");
        run.write(
            "patch",
            "foos.example.com",
            "a/foo",
            Some(json!({"metadata": {"finalizers": ["own/one"]}})),
        );
        run.write("create", "configmaps", "a/made", Some(json!({})));
        run.end(ReconcileResult::Ok);
        run.actor("user", "delete", "foos.example.com", "a/foo", Some(terminating()));
        run.start("a/foo");
        work(&mut run);
        run.end(result);
        run
    }

    fn count(run: RunBuilder) -> usize {
        judge(&StuckDeletion, &run.finish(), None).violations.len()
    }

    fn delete_child(run: &mut RunBuilder) {
        run.write("delete", "configmaps", "a/made", None);
    }

    #[test]
    fn a_finalizer_that_stays_for_ever_is_reported() {
        assert_eq!(count(run(ReconcileResult::Ok, &delete_child)), 1);
        let right = run(ReconcileResult::Ok, &|run| {
            delete_child(run);
            run.write("patch", "foos.example.com", "a/foo", None);
        });
        let judgement = judge(&StuckDeletion, &right.finish(), None);
        assert!(judgement.had_subject && judgement.violations.is_empty());
    }

    #[test]
    fn a_plugin_that_waits_is_right() {
        assert_eq!(count(run(ReconcileResult::Requeue(10), &delete_child)), 0);
        assert_eq!(count(run(ReconcileResult::Error("busy".to_owned()), &delete_child)), 0);
        assert_eq!(count(run(ReconcileResult::Ok, &|_| {})), 0, "its child is still there");
        let mut named = run(ReconcileResult::Ok, &delete_child);
        named.actor("user", "create", "bars.example.com", "a/bar", Some(json!({"spec": {"foo": "foo"}})));
        assert_eq!(count(named), 0, "another object names it");
    }

    #[test]
    fn finalizers_of_others_and_runs_with_faults_are_not_judged() {
        let mut foreign = run(ReconcileResult::Ok, &delete_child);
        let mut object = terminating();
        object["metadata"]["finalizers"] = json!(["own/one", "other/one"]);
        foreign.actor("user", "patch", "foos.example.com", "a/foo", Some(object));
        assert_eq!(count(foreign), 0);
        let mut faulty = run(ReconcileResult::Ok, &delete_child);
        faulty.deviate(crate::plan::Moment::Time(0), crate::plan::Fault::Reload);
        assert_eq!(count(faulty), 0);
    }
}
