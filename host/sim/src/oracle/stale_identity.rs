//! *stale identity*: a delete that was decided on an object, or on the absence of an object, which the server no longer
//! has like that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::own_changes::owners;
use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::{ObjectId, RunView, mentions, metadata};
use crate::run::{EventKind, RequestEvent};

pub(super) const DESCRIPTION: Description = Description {
    name: "stale identity",
    reports: "the plugin deletes an object whose UID is not the one in its view; or an object that belongs to an owner which is alive on the \
              server, while the plugin's view has an earlier owner of that name or none",
    premise: "A delete cannot be taken back. Which object it concerns is decided on the live object, or guarded by a precondition on its UID or version; \
              whether its owner is gone, on the live owner. Not judged: deletes after a live read of the resource in the same reconcile, of the object's \
              in the first case and of the owner's in the second. An object belongs to its controller, or without one to the owners in its ownerReferences. It \
              also belongs to an object whose UID it contains, or whose name is one of its labels or annotations, if that object is the one of the \
              reconciled key, or if the deleted object is, and has no ownerReferences. A name counts only if the deleted object is younger, the \
              reference never deletes it, and the delete has no precondition; for an object with a generated name, which may be one too many, also only if \
              the view has nothing else of that name.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct StaleIdentity;

/// An object of the server.
#[derive(Clone, Debug)]
struct ExistingObject {
    uid: String,
    /// The index of the event that created it.
    since: usize,
    is_deleting: bool,
}

/// The server's objects and the host's view of them at some event.
#[derive(Default)]
struct State {
    server: BTreeMap<ObjectId, ExistingObject>,
    /// The UIDs that this process of the host was delivered; `None` after a deletion.
    view: BTreeMap<ObjectId, Option<String>>,
    /// The objects and UIDs that any process of the host is delivered at any time of the run. A watch may select a part of its
    /// resource's objects; the others are in no view, which is no sign of age.
    ever_delivered: BTreeSet<(ObjectId, String)>,
}

impl Oracle for StaleIdentity {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let mut state = State { ever_delivered: ever_delivered(run), ..State::default() };
        let mut judgement = Judgement::without_subject();
        for (index, event) in run.run.events.iter().enumerate() {
            match &event.kind {
                EventKind::HostStarted { .. } => state.view.clear(),
                EventKind::Delivered { resource, change, key, uid, .. } => {
                    state.deliver(resource, change, key, uid);
                }
                EventKind::Request(request) => {
                    if request.is_by_plugin() && request.is_effective_delete() {
                        judgement.had_subject = true;
                        let problem = state.problem(run, index, request, reference);
                        let id = run.names.canonical_id(&request.object_id());
                        judgement.violations.extend(problem.map(|text| {
                            Violation::new(self, &id, Some(index), format!("the plugin deleted {id}: {text}"))
                        }));
                    }
                    state.apply(index, request);
                }
                _ => {}
            }
        }
        judgement
    }
}

impl State {
    fn deliver(&mut self, resource: &str, change: &str, key: &str, uid: &str) {
        self.view.insert(address(resource, key), (change != "DELETED").then(|| uid.to_owned()));
    }

    fn apply(&mut self, index: usize, request: &RequestEvent) {
        if !request.changed {
            return;
        }
        let id = request.object_id();
        let Some(after) = &request.after else {
            self.server.remove(&id);
            return;
        };
        let uid = metadata(after, "uid").unwrap_or_default();
        let since = match self.server.get(&id) {
            Some(existing) if existing.uid == uid => existing.since,
            _ => index,
        };
        let is_deleting = metadata(after, "deletionTimestamp").is_some();
        self.server.insert(id, ExistingObject { uid: uid.to_owned(), since, is_deleting });
    }

    fn problem(
        &self,
        run: &RunView<'_>,
        index: usize,
        request: &RequestEvent,
        reference: Option<&ReferenceRuns>,
    ) -> Option<String> {
        let before = request.before.as_deref()?;
        let uid = metadata(before, "uid")?;
        // The server refuses a wrong one.
        let is_guarded = has_precondition(request);
        if let Some(cached) = &request.cached_uid
            && cached != uid
            && !is_guarded
            && !is_read_live(run, index, request, &request.resource)
        {
            return Some("its view had an earlier object of that name, with another UID".to_owned());
        }
        let target = request.object_id();
        let reconciled = request.reconcile.and_then(|number| run.reconciles.get(&number));
        let owners = deciding_owners(before);
        for (id, existing) in
            self.server.iter().filter(|(id, existing)| **id != target && !existing.is_deleting)
        {
            let seen = self.view.get(id).cloned().flatten();
            let is_watched = self.ever_delivered.contains(&(id.clone(), existing.uid.clone()));
            if seen.as_ref() == Some(&existing.uid) || !is_watched {
                continue;
            }
            if is_read_live(run, index, request, &id.resource)
                || seen.as_ref().is_some_and(|seen| mentions(before, seen))
            {
                continue;
            }
            let is_decisive = || {
                reconciled.is_some_and(|reconcile| {
                    id.key() == reconcile.key || target.key() == reconcile.key && owners.is_empty()
                })
            };
            let is_labelled = || {
                has_label(before, &id.name)
                    && !is_guarded
                    && !(run.names.is_generated(&target.name) && self.has_other_of_key(id, &target))
                    && self.server.get(&target).is_some_and(|target| target.since > existing.since)
                    && is_never_deleted(run, &target, reference)
            };
            let is_owned = owners.contains(&existing.uid.as_str())
                || (mentions(before, &existing.uid) || is_labelled()) && is_decisive();
            if is_owned {
                let view = if seen.is_some() { "an earlier object of that name" } else { "no such object" };
                return Some(format!("it belongs to {id}, which is alive, but the plugin's view had {view}"));
            }
        }
        None
    }
}

impl State {
    /// Whether the view has another object of the same name. It may be what the key stands for, and a child with a generated name may be one too many.
    fn has_other_of_key(&self, id: &ObjectId, target: &ObjectId) -> bool {
        self.server.iter().any(|(other, existing)| {
            other != id
                && other != target
                && (&other.namespace, &other.name) == (&id.namespace, &id.name)
                && self.view.get(other).is_some_and(|seen| seen.as_ref() == Some(&existing.uid))
        })
    }
}

/// Whether the delete names the UID or the version of the object.
fn has_precondition(request: &RequestEvent) -> bool {
    let preconditions = request.body.as_ref().map(|body| &body["preconditions"]);
    preconditions.is_some_and(|given| given["uid"].is_string() || given["resourceVersion"].is_string())
}

/// Returns the UIDs of the owners whose end is a reason to delete the object: of the controller, if one of several is.
fn deciding_owners(object: &Value) -> Vec<&str> {
    let owners = owners(Some(object));
    let controller = owners.iter().find(|owner| owner["controller"] == true);
    let deciding = controller.map_or(owners, std::slice::from_ref);
    deciding.iter().filter_map(|owner| owner["uid"].as_str()).collect()
}

fn address(resource: &str, key: &str) -> ObjectId {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    ObjectId { resource: resource.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn ever_delivered(run: &RunView<'_>) -> BTreeSet<(ObjectId, String)> {
    run.run
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Delivered { resource, key, uid, .. } => Some((address(resource, key), uid.clone())),
            _ => None,
        })
        .collect()
}

/// Whether the reconcile read the resource from the server before the request. A refused read tells the plugin nothing.
fn is_read_live(run: &RunView<'_>, index: usize, request: &RequestEvent, resource: &str) -> bool {
    let reconcile = request.reconcile.and_then(|number| run.reconciles.get(&number));
    reconcile.is_some_and(|reconcile| {
        reconcile.requests.iter().take_while(|other| **other < index).any(|other| {
            run.request(*other).is_some_and(|read| {
                let is_answer = read.status.is_some_and(|status| status < 300 || status == 404);
                let is_read = matches!(read.verb.as_str(), "get" | "list") && read.resource == resource;
                is_read && read.answered && is_answer
            })
        })
    })
}

/// Whether a label or annotation of the object is this name.
fn has_label(object: &Value, name: &str) -> bool {
    ["labels", "annotations"].iter().any(|member| {
        object["metadata"][member].as_object().is_some_and(|map| map.values().any(|value| value == name))
    })
}

fn is_never_deleted(run: &RunView<'_>, target: &ObjectId, reference: Option<&ReferenceRuns>) -> bool {
    reference.is_some_and(|reference| {
        reference.deletes(&run.names.canonical_id(target)) == 0 && reference.has_actor_writes_of(run)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{RunBuilder, judge};

    const OWNERS: &str = "zoos.example.com";
    const CLAIMS: &str = "persistentvolumeclaims";

    /// Creates an owner twice, and a claim of the second one; the view has the first one.
    fn recreated(claim_of_second: bool) -> RunBuilder {
        let mut run = RunBuilder::new();
        run.actor("user", "create", OWNERS, "a", Some(json!({})));
        run.deliver(OWNERS, "a", "ADDED");
        let first = run.uid(OWNERS, "a");
        run.actor("user", "delete", OWNERS, "a", None);
        run.actor("user", "create", OWNERS, "a", Some(json!({})));
        let owner = if claim_of_second { run.uid(OWNERS, "a") } else { first };
        let claim = json!({"metadata": {"annotations": {"owner": owner}}});
        run.actor("volumes", "create", CLAIMS, "data-a", Some(claim));
        run.start("a");
        run
    }

    /// Lets the view catch up, and judges.
    fn judged(mut run: RunBuilder) -> Judgement {
        run.deliver(OWNERS, "a", "ADDED");
        judge(&StaleIdentity, &run.finish(), None)
    }

    #[test]
    fn deleting_what_belongs_to_the_new_owner_is_reported() {
        let mut run = recreated(true);
        run.write("delete", CLAIMS, "data-a", None);
        let judgement = judged(run);
        assert_eq!(judgement.violations[0].resource, CLAIMS);
        assert!(judgement.violations[0].explanation.contains("an earlier object of that name"));
    }

    #[test]
    fn deleting_what_belonged_to_the_old_owner_is_right() {
        let mut run = recreated(false);
        run.write("delete", CLAIMS, "data-a", None);
        let judgement = judged(run);
        assert!(judgement.had_subject && judgement.violations.is_empty());
    }

    #[test]
    fn a_live_read_of_the_owner_excuses_if_it_was_answered() {
        for (status, violations) in [(200, 0), (404, 0), (403, 1), (500, 1)] {
            let mut run = recreated(true);
            run.ask("get", OWNERS, "a", status);
            run.write("delete", CLAIMS, "data-a", None);
            assert_eq!(judged(run).violations.len(), violations, "{status}");
        }
    }

    #[test]
    fn an_owner_that_no_watch_delivers_is_not_judged() {
        let mut run = recreated(true);
        run.write("delete", CLAIMS, "data-a", None);
        assert_eq!(judge(&StaleIdentity, &run.finish(), None).violations, []);
    }

    #[test]
    fn a_delete_by_name_of_a_newer_object_needs_a_precondition() {
        for (precondition, count) in [(None, 1), (Some("uid"), 0), (Some("resourceVersion"), 0)] {
            let mut run = RunBuilder::new();
            run.actor("user", "create", CLAIMS, "x", Some(json!({})));
            let uid = run.uid(CLAIMS, "x");
            let request = run.write("delete", CLAIMS, "x", None);
            request.cached_uid = Some("earlier".to_owned());
            request.body = precondition.map(|member| json!({"preconditions": {member: uid}}));
            assert_eq!(judge(&StaleIdentity, &run.finish(), None).violations.len(), count);
        }
    }

    #[test]
    fn a_delete_by_name_is_right_after_a_live_read_of_the_object() {
        for (status, count) in [(200, 0), (500, 1)] {
            let mut run = RunBuilder::new();
            run.actor("user", "create", CLAIMS, "x", Some(json!({})));
            run.start("x");
            run.ask("get", CLAIMS, "x", status);
            run.write("delete", CLAIMS, "x", None).cached_uid = Some("earlier".to_owned());
            assert_eq!(judge(&StaleIdentity, &run.finish(), None).violations.len(), count, "{status}");
        }
    }

    /// The plugin reconciles `a`, whose object is gone, and deletes a child with these owners; the view does not have the Zoo `b` yet, which is
    /// alive. Returns how many violations that has.
    fn deleted_for_the_end_of_a(child: impl Fn(&str) -> Value, precondition: bool) -> usize {
        let mut run = RunBuilder::new();
        run.actor("user", "create", OWNERS, "b", Some(json!({})));
        let uid = run.uid(OWNERS, "b");
        run.actor("user", "create", "secrets", "s", Some(json!({"metadata": child(&uid)})));
        run.start("a");
        let request = run.write("delete", "secrets", "s", None);
        request.body = precondition.then(|| json!({"preconditions": {"uid": "any"}}));
        run.deliver(OWNERS, "b", "ADDED");
        let run = run.finish();
        judge(&StaleIdentity, &run, Some(&ReferenceRuns::new(&run, &run))).violations.len()
    }

    #[test]
    fn a_surplus_child_that_names_an_unseen_object_of_the_key_s_name_is_not_judged() {
        let world = |generates: bool, is_owner_seen: bool, deletes: bool| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", OWNERS, "a", Some(json!({})));
            if is_owner_seen {
                run.deliver(OWNERS, "a", "ADDED");
            }
            run.actor("user", "create", "deployments.apps", "a", Some(json!({})));
            let pod = json!({"metadata": {"labels": {"app": "a"}, "generateName": if generates { "a-" } else { "" }}});
            run.actor("user", "create", "pods", "a-abcde", Some(pod));
            run.start("a");
            if deletes {
                run.write("delete", "pods", "a-abcde", None);
            }
            run.deliver("deployments.apps", "a", "ADDED");
            run.finish()
        };
        for (generates, is_owner_seen, count) in [(true, true, 0), (true, false, 1), (false, true, 1)] {
            let plain = world(generates, is_owner_seen, false);
            let reference = ReferenceRuns::new(&plain, &plain);
            let run = world(generates, is_owner_seen, true);
            let violations = judge(&StaleIdentity, &run, Some(&reference)).violations;
            assert_eq!(violations.len(), count, "{generates} {is_owner_seen} {violations:?}");
        }
    }

    #[test]
    fn an_object_belongs_to_its_owners_and_not_to_all_that_it_names() {
        let of = |uid: &str, is_controller: bool| json!({"kind": "Zoo", "name": "b", "uid": uid, "controller": is_controller});
        let named = |uid: &str| json!({"annotations": {"target": uid}, "labels": {"target": "b"}});
        assert_eq!(deleted_for_the_end_of_a(named, false), 0);
        assert_eq!(deleted_for_the_end_of_a(|uid| json!({"ownerReferences": [of(uid, false)]}), false), 1);
        let both = |uid: &str| json!({"ownerReferences": [of(uid, false), of("earlier", true)]});
        assert_eq!(deleted_for_the_end_of_a(both, false), 0, "the controller is gone");
        let owned = |uid: &str| json!({"ownerReferences": [of(uid, true)]});
        assert_eq!(
            deleted_for_the_end_of_a(owned, true),
            1,
            "the UID of a child says nothing about its owner"
        );
    }

    #[test]
    fn deleting_by_the_name_of_an_owner_that_the_view_lacks_is_reported() {
        let world = |deletes: bool| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", OWNERS, "a", Some(json!({})));
            run.deliver(OWNERS, "a", "ADDED");
            run.actor(
                "user",
                "create",
                "secrets",
                "s",
                Some(json!({"metadata": {"labels": {"owner": "a"}}})),
            );
            run.restart(&[(OWNERS, 1)]);
            run.deliver("secrets", "s", "LISTED");
            run.start("s");
            if deletes {
                run.write("delete", "secrets", "s", None);
            }
            run.finish()
        };
        let reference = ReferenceRuns::new(&world(false), &world(false));
        let judgement = judge(&StaleIdentity, &world(true), Some(&reference));
        assert!(judgement.violations[0].explanation.contains("no such object"));
    }
}
