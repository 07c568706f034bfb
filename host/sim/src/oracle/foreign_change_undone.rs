//! *foreign change undone*: a write without a resource version reverts what another client wrote in between, or removes
//! metadata of somebody else.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::own_changes::{OwnChanges, changed_pointers, finalizers, owners};
use super::timers::late_timer_writes;
use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::{ObjectId, RunView};
use crate::run::{Author, RequestEvent};
use crate::scenario::generate::{FOREIGN_FINALIZER, FOREIGN_METADATA};

/// The JSON pointer of the annotation that another client sets before a request (rule W2).
const INTERFERENCE_METADATA: &str = "/metadata/annotations/simulation.pilothouse.dev~1touched";

pub(super) const DESCRIPTION: Description = Description {
    name: "foreign change undone",
    reports: "an update, a patch or a forced apply without a resource version restores what another client had just changed, in a field that the \
              plugin does not change in the reference; or a write removes a finalizer that the plugin never adds, an owner reference that another client added to an \
              object, or a label or annotation that the simulation gives to generated objects and, before some requests, to others",
    premise: "A field, finalizer or owner of another client is not the plugin's to change. Resource versions, and patches of the plugin's own \
              fields alone, avoid it. Not judged: fields that the plugin also changes without faults, and, in patches, \
              those with which it creates objects of the kind; what timers of 30 s or more restore, because a run with faults is longer; finalizers that it adds to any object, or that objects \
              have from their creation and it removes without faults; owners of a kind that it adds, too. A plugin that by agreement removes a \
              finalizer that another controller adds does so by right: switch the oracle off in its scenario.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct ForeignChangeUndone;

impl Oracle for ForeignChangeUndone {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let changes =
            Changes { run, reference, own: OnceCell::default(), late_timer_writes: OnceCell::default() };
        let mut foreign =
            Foreign { changes: &changes, from_creation: BTreeSet::new(), owners: BTreeSet::new() };
        let mut judgement = Judgement::without_subject();
        let mut last: BTreeMap<ObjectId, &RequestEvent> = BTreeMap::new();
        for (index, _, request) in run.requests().filter(|(_, _, request)| request.is_effective()) {
            if request.is_by_plugin() {
                let previous =
                    last.get(&request.object_id()).copied().filter(|previous| !previous.is_by_plugin());
                let undone = previous.and_then(|previous| {
                    judgement.had_subject = true;
                    undone_field(previous, request, &changes)
                });
                judgement.had_subject |= foreign.is_subject(request);
                let id = run.names.canonical_id(&request.object_id());
                let restored = undone.map(|pointer| {
                    format!(
                        "the plugin's {} of {id} restored {pointer}, which another client had just changed",
                        request.verb
                    )
                });
                let removed = foreign
                    .removed(request)
                    .into_iter()
                    .map(|what| format!("the plugin's {} of {id} removed {what}", request.verb));
                judgement.violations.extend(
                    restored
                        .into_iter()
                        .chain(removed)
                        .map(|text| Violation::new(self, &id, Some(index), text)),
                );
            } else {
                foreign.add(request);
            }
            last.insert(request.object_id(), request);
        }
        judgement
    }
}

/// What the plugins change. It is computed when it is needed, which is rare.
struct Changes<'a> {
    run: &'a RunView<'a>,
    reference: Option<&'a ReferenceRuns>,
    own: OnceCell<OwnChanges>,
    late_timer_writes: OnceCell<BTreeSet<u64>>,
}

impl Changes<'_> {
    /// Returns what the plugins change in this run.
    fn own(&self) -> &OwnChanges {
        self.own.get_or_init(|| OwnChanges::of(self.run))
    }

    /// Returns what they change without faults. The reference itself is compared with itself: what it shows needs no fault.
    fn expected(&self) -> &OwnChanges {
        self.reference.map_or_else(|| self.own(), ReferenceRuns::own_changes)
    }

    /// Whether the plugin wrote because of a timer that it had set for a long time.
    fn is_by_late_timer(&self, write: &RequestEvent) -> bool {
        let late = || self.late_timer_writes.get_or_init(|| late_timer_writes(self.run));
        write.reconcile.is_some_and(|reconcile| late().contains(&reconcile))
    }
}

/// What belongs to other clients.
struct Foreign<'a> {
    changes: &'a Changes<'a>,
    /// The resources and finalizers with which other clients create objects. They may be the plugin's: a restored object has them, and so has one that
    /// an earlier process of the host has changed.
    from_creation: BTreeSet<(String, String)>,
    /// The objects to which an actor added an owner, and the owners' UIDs.
    owners: BTreeSet<(ObjectId, String)>,
}

impl Foreign<'_> {
    /// Notes what a write of another client added.
    fn add(&mut self, request: &RequestEvent) {
        let newer = request.after.as_deref();
        let Some(older) = request.before.as_deref() else {
            let names = finalizers(newer).into_iter().filter(|name| *name != FOREIGN_FINALIZER);
            self.from_creation.extend(names.map(|name| (request.resource.clone(), name.to_owned())));
            return;
        };
        if matches!(request.author, Author::Actor(_)) {
            let added = owners(newer).iter().filter(|owner| !owners(Some(older)).contains(owner));
            let uids = added.filter_map(|owner| owner["uid"].as_str());
            self.owners.extend(uids.map(|uid| (request.object_id(), uid.to_owned())));
        }
    }

    /// Whether a write concerns an object with something that may belong to other clients.
    fn is_subject(&self, request: &RequestEvent) -> bool {
        let older = request.before.as_deref();
        let has_metadata =
            |object: &Value| FOREIGN_METADATA.iter().any(|pointer| object.pointer(pointer).is_some());
        let is_foreign = |owner: &Value| {
            let uid = owner["uid"].as_str().unwrap_or_default().to_owned();
            self.owners.contains(&(request.object_id(), uid))
        };
        !finalizers(older).is_empty()
            || older.is_some_and(has_metadata)
            || owners(older).iter().any(is_foreign)
    }

    /// Names what a write removed although it belongs to another client.
    fn removed(&self, request: &RequestEvent) -> Vec<String> {
        let finalizer = self.removed_finalizer(request);
        let finalizer = finalizer.map(|name| format!("the finalizer {name}, which it never added"));
        let mut found: Vec<String> = finalizer.into_iter().collect();
        if let (Some(older), Some(newer)) = (request.before.as_deref(), request.after.as_deref()) {
            found.extend(self.removed_owner(request, older, newer));
            found.extend(self.removed_metadata(request, older, newer));
        }
        found
    }

    fn removed_owner(&self, request: &RequestEvent, older: &Value, newer: &Value) -> Option<String> {
        let text = |owner: &Value, field: &str| owner[field].as_str().unwrap_or_default().to_owned();
        let is_kept = |owner: &Value| owners(Some(newer)).iter().any(|kept| kept["uid"] == owner["uid"]);
        let owner = owners(Some(older)).iter().find(|owner| {
            let kind = (request.resource.clone(), text(owner, "kind"));
            !is_kept(owner)
                && self.owners.contains(&(request.object_id(), text(owner, "uid")))
                && !self.changes.own().added_owner_kinds.contains(&kind)
                && !self.changes.expected().added_owner_kinds.contains(&kind)
        })?;
        let (kind, name) = (text(owner, "kind"), text(owner, "name"));
        Some(format!("the owner {kind} {name}, which another client had added"))
    }

    fn removed_metadata(&self, request: &RequestEvent, older: &Value, newer: &Value) -> Option<String> {
        let pointer = FOREIGN_METADATA.into_iter().chain([INTERFERENCE_METADATA]).find(|pointer| {
            let value = older.pointer(pointer);
            let entry = (request.resource.clone(), (*pointer).to_owned());
            value.is_some()
                && value != newer.pointer(pointer)
                && !self.changes.own().added_metadata.contains(&entry)
                && !self.changes.expected().added_metadata.contains(&entry)
        })?;
        Some(format!("or changed {pointer}, which another client had set"))
    }

    fn removed_finalizer(&self, request: &RequestEvent) -> Option<String> {
        if request.is_effective_delete() {
            return None;
        }
        let (before, after) = (finalizers(request.before.as_deref()), finalizers(request.after.as_deref()));
        before.difference(&after).map(|name| (request.resource.clone(), (*name).to_owned())).find_map(
            |pair| {
                let is_own = self.changes.own().added_finalizers.contains(&pair)
                    || self.changes.expected().added_finalizers.contains(&pair)
                    || self.from_creation.contains(&pair)
                        && self.changes.expected().removed_finalizers.contains(&pair);
                (!is_own).then_some(pair.1)
            },
        )
    }
}

/// Returns a field that another client changed and that the plugin's write restored.
fn undone_field(previous: &RequestEvent, write: &RequestEvent, changes: &Changes<'_>) -> Option<String> {
    let body = write.body.as_ref()?;
    let has_version = body["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty());
    if !matches!(write.verb.as_str(), "update" | "patch") || has_version || previous.after != write.before {
        return None;
    }
    let (older, foreign) = (previous.before.as_deref()?, previous.after.as_deref()?);
    let after = write.after.as_deref()?;
    changed_pointers(Some(older), Some(foreign)).into_iter().find(|pointer| {
        let field = (write.resource.clone(), pointer.clone());
        let value = older.pointer(pointer);
        // A patch changes what it contains. A plugin may apply a field again and again with which it has created the object.
        let is_meant = write.verb == "update"
            || value.is_some()
                && body.pointer(pointer) == value
                && !changes.expected().created_fields.contains(&field);
        !pointer.starts_with("/status")
            && is_meant
            && !changes.expected().fields.contains(&field)
            && after.pointer(pointer) == value
            && !changes.is_by_late_timer(write)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::ReconcileResult;
    use crate::testing::{RunBuilder, judge};

    fn run(interferes: bool, version: Option<&str>, finalizers: &[&str]) -> crate::Run {
        let mut run = RunBuilder::new();
        let object = |note: &str, size: u32| json!({"metadata": {"finalizers": ["other/guard"], "annotations": {"note": note}}, "size": size});
        run.actor("user", "create", "configmaps", "a/x", Some(json!({"size": 0})));
        run.actor("other", "patch", "configmaps", "a/x", Some(object("old", 1)));
        run.start("a/x");
        if interferes {
            run.actor("other", "patch", "configmaps", "a/x", Some(object("new", 1)));
        }
        let mut updated = object("old", 2);
        updated["metadata"]["finalizers"] = json!(finalizers);
        let request = run.write("update", "configmaps", "a/x", Some(updated));
        let body = request.body.as_mut().expect("a body");
        body["metadata"]["resourceVersion"] = json!(version);
        run.finish()
    }

    #[test]
    fn an_update_without_a_version_that_restores_a_field_is_reported() {
        let plain = run(false, None, &["other/guard"]);
        let reference = ReferenceRuns::new(&plain, &plain);
        let bad = judge(&ForeignChangeUndone, &run(true, None, &["other/guard"]), Some(&reference));
        assert!(bad.violations[0].explanation.contains("/metadata/annotations/note"));
        let good = judge(&ForeignChangeUndone, &run(true, Some("7"), &["other/guard"]), Some(&reference));
        assert!(good.had_subject && good.violations.is_empty());
    }

    #[test]
    fn the_annotation_of_a_client_that_came_in_between_is_not_the_plugins_to_remove() {
        let run = |keeps: bool| {
            let mut run = RunBuilder::new();
            let annotated = json!({"metadata": {"annotations": {"simulation.pilothouse.dev/touched": "1"}}});
            run.start("a/x");
            run.write("create", "services", "a/x", Some(json!({"metadata": {}})));
            run.actor("other", "patch", "services", "a/x", Some(annotated.clone()));
            let kept = if keeps { annotated } else { json!({"metadata": {}}) };
            let mut updated = kept;
            updated["spec"] = json!({"size": 2});
            run.write("update", "services", "a/x", Some(updated));
            run.finish()
        };
        let found = |keeps| judge(&ForeignChangeUndone, &run(keeps), None).violations;
        assert_eq!(found(true), []);
        assert!(
            found(false)[0].explanation.contains("simulation.pilothouse.dev~1touched"),
            "{:?}",
            found(false)
        );
    }

    #[test]
    fn a_field_that_the_plugin_changes_anyway_is_its_own() {
        let reverting = run(true, None, &["other/guard"]);
        let reference = ReferenceRuns::new(&reverting, &reverting);
        assert_eq!(judge(&ForeignChangeUndone, &reverting, Some(&reference)).violations, []);
    }

    /// A run in which another client changes the image of an object, and the plugin applies the object with this image and of this size.
    fn applied(creates: bool, image: Option<&str>, version: Option<&str>) -> crate::Run {
        let mut run = RunBuilder::new();
        let object = |image: &str, size: u32| json!({"spec": {"image": image, "size": size}});
        if creates {
            run.start("a/y");
            run.write("patch", "deployments.apps", "a/y", Some(object("any", 1)));
        }
        run.actor("user", "create", "deployments.apps", "a/x", Some(object("old", 1)));
        run.start("a/x");
        run.actor("user", "patch", "deployments.apps", "a/x", Some(object("new", 1)));
        let request = run.write("patch", "deployments.apps", "a/x", Some(object(image.unwrap_or("new"), 2)));
        request.body =
            Some(json!({"metadata": {"resourceVersion": version}, "spec": {"image": image, "size": 2}}));
        run.finish()
    }

    #[test]
    fn a_forced_apply_that_restores_a_field_of_another_client_is_reported() {
        let found = |run: &crate::Run, creates: bool| {
            let expected = applied(creates, None, None);
            let reference = ReferenceRuns::new(&expected, &expected);
            judge(&ForeignChangeUndone, run, Some(&reference)).violations
        };
        let bad = found(&applied(false, Some("old"), None), false);
        assert!(bad.len() == 1 && bad[0].explanation.contains("restored /spec/image"), "{bad:?}");
        assert_eq!(found(&applied(false, Some("old"), Some("7")), false), [], "it has a resource version");
        assert_eq!(found(&applied(false, None, None), false), [], "it leaves the image alone");
        assert_eq!(
            found(&applied(true, Some("old"), None), true),
            [],
            "it creates such objects with an image"
        );
    }

    #[test]
    fn what_a_long_timer_restores_is_due_to_the_length_of_the_run() {
        let found = |delay: u64| {
            let mut run = RunBuilder::new();
            let object = |size: u32| Some(json!({"spec": {"size": size}}));
            run.actor("user", "create", "deployments.apps", "a/x", object(1));
            run.start("a/x");
            run.end(ReconcileResult::Requeue(delay));
            run.actor("user", "patch", "deployments.apps", "a/x", object(2));
            run.at(delay);
            run.start_for("a/x", "requeue");
            run.write("patch", "deployments.apps", "a/x", object(1)).body = object(1);
            run.end(ReconcileResult::Ok);
            let plain = RunBuilder::new().finish();
            let reference = ReferenceRuns::new(&plain, &plain);
            judge(&ForeignChangeUndone, &run.finish(), Some(&reference)).violations.len()
        };
        assert_eq!((found(1_000), found(45_000)), (1, 0));
    }

    #[test]
    fn removing_a_foreign_finalizer_is_reported() {
        let plain = run(false, None, &["other/guard"]);
        let reference = ReferenceRuns::new(&plain, &plain);
        let bad = judge(&ForeignChangeUndone, &run(false, None, &[]), Some(&reference));
        assert!(bad.violations[0].explanation.contains("other/guard"));
        let removing = run(false, None, &[]);
        let reference = ReferenceRuns::new(&removing, &removing);
        for reference in [Some(&reference), None] {
            let bad = judge(&ForeignChangeUndone, &removing, reference);
            assert_eq!(bad.violations.len(), 1, "removing it without faults does not make it the plugin's");
        }
    }

    #[test]
    fn a_finalizer_that_the_plugin_adds_to_any_object_is_its_own() {
        let mut adding = RunBuilder::new();
        let object = |finalizers: &[&str]| Some(json!({"metadata": {"finalizers": finalizers}}));
        adding.actor("user", "create", "configmaps", "a/x", object(&["own/guard"]));
        adding.actor("user", "create", "configmaps", "a/y", object(&[]));
        adding.start("a/x");
        adding.write("patch", "configmaps", "a/y", object(&["own/guard"]));
        adding.write("patch", "configmaps", "a/x", object(&[]));
        assert_eq!(judge(&ForeignChangeUndone, &adding.finish(), None).violations, []);
    }

    #[test]
    fn a_finalizer_that_an_object_has_from_its_creation_may_be_the_plugins() {
        let of = |finalizer: &str| {
            let mut run = RunBuilder::new();
            let object = |finalizers: &[&str]| Some(json!({"metadata": {"finalizers": finalizers}}));
            run.actor("user", "create", "configmaps", "a/x", object(&[finalizer]));
            run.start("a/x");
            run.write("patch", "configmaps", "a/x", object(&[]));
            judge(&ForeignChangeUndone, &run.finish(), None).violations.len()
        };
        assert_eq!(of("any/guard"), 0);
        assert_eq!(of(FOREIGN_FINALIZER), 1, "the simulation gives it to generated objects");
    }

    /// A run in which another client adds an owner to an object, and the plugin writes it with these owners and this label.
    fn with_owner(owners: &Value, label: &str) -> crate::Run {
        let mut run = RunBuilder::new();
        let object = |owners: &Value, label: &str| {
            Some(
                json!({"metadata": {"ownerReferences": owners, "labels": {"simulation.pilothouse.dev/team": label}}}),
            )
        };
        run.actor("user", "create", "configmaps", "a/x", object(&json!([]), "blue"));
        run.actor("user", "patch", "configmaps", "a/x", object(&json!([namespace()]), "blue"));
        run.start("a/x");
        run.write("patch", "configmaps", "a/x", object(owners, label));
        run.finish()
    }

    fn namespace() -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "name": "a", "uid": "7"})
    }

    #[test]
    fn removing_an_owner_or_a_label_of_another_client_is_reported() {
        let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "name": "a", "uid": "8"});
        let found = |owners: &Value, label: &str| {
            let judgement = judge(&ForeignChangeUndone, &with_owner(owners, label), None);
            assert!(judgement.had_subject);
            judgement.violations.into_iter().map(|violation| violation.explanation).collect::<Vec<_>>()
        };
        assert_eq!(found(&json!([namespace(), foo]), "blue"), [""; 0]);
        let bad = found(&json!([foo]), "blue");
        assert!(bad.len() == 1 && bad[0].contains("removed the owner Namespace a"), "{bad:?}");
        let bad = found(&json!([namespace(), foo]), "");
        assert!(bad.len() == 1 && bad[0].contains("removed or changed /metadata/labels/"), "{bad:?}");
    }
}
