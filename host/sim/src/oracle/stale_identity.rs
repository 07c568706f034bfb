//! *stale identity*: a delete that was decided on an object, or on the absence of an object, which the server no longer
//! has like that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Description, Judgement, Oracle, Reference, Violation};
use crate::analysis::{ObjectId, RunView, mentions, metadata};
use crate::run::{EventKind, RequestEvent};

pub(super) const DESCRIPTION: Description = Description {
    name: "stale identity",
    reports: "the plugin deletes an object whose UID is not the one in its view; or an object that belongs to an owner which is alive on the \
              server, while the plugin's view has an earlier owner of that name or none",
    premise: "A delete cannot be taken back, so it is decided on the live owner or guarded by a UID precondition. \
              Not judged: deletes with a precondition on the right UID, and deletes after a live read of the owner's resource in the same reconcile. \
              An object belongs to an owner if it contains the owner's UID, or if one of its labels or annotations is the owner's name \
              and it is younger than the owner.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct StaleIdentity;

/// An object of the server.
#[derive(Clone, Debug)]
struct Living {
    uid: String,
    /// The index of the event that created it.
    since: usize,
    is_deleting: bool,
}

/// The server's objects and the host's view of them at some event.
#[derive(Default)]
struct State {
    server: BTreeMap<ObjectId, Living>,
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

    fn judge(&self, run: &RunView<'_>, reference: Option<&Reference>) -> Judgement {
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
            Some(living) if living.uid == uid => living.since,
            _ => index,
        };
        let is_deleting = metadata(after, "deletionTimestamp").is_some();
        self.server.insert(id, Living { uid: uid.to_owned(), since, is_deleting });
    }

    fn problem(
        &self,
        run: &RunView<'_>,
        index: usize,
        request: &RequestEvent,
        reference: Option<&Reference>,
    ) -> Option<String> {
        let before = request.before.as_deref()?;
        let uid = metadata(before, "uid")?;
        let precondition = request.body.as_ref().and_then(|body| body["preconditions"]["uid"].as_str());
        if let Some(cached) = &request.cached_uid
            && cached != uid
            && precondition.is_none()
        {
            return Some("its view had an earlier object of that name, with another UID".to_owned());
        }
        let target = request.object_id();
        for (id, living) in self.server.iter().filter(|(id, living)| **id != target && !living.is_deleting) {
            let seen = self.view.get(id).cloned().flatten();
            let is_watched = self.ever_delivered.contains(&(id.clone(), living.uid.clone()));
            if seen.as_ref() == Some(&living.uid) || !is_watched {
                continue;
            }
            if is_read_live(run, index, request, &id.resource)
                || seen.as_ref().is_some_and(|seen| mentions(before, seen))
            {
                continue;
            }
            let is_owned = mentions(before, &living.uid)
                || (has_label(before, &id.name)
                    && self.server.get(&target).is_some_and(|target| target.since > living.since)
                    && is_never_deleted(run, &target, reference));
            if is_owned {
                let view = if seen.is_some() { "an earlier object of that name" } else { "no such object" };
                return Some(format!("it belongs to {id}, which is alive, but the plugin's view had {view}"));
            }
        }
        None
    }
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

fn is_never_deleted(run: &RunView<'_>, target: &ObjectId, reference: Option<&Reference>) -> bool {
    reference.is_some_and(|reference| {
        reference.deletes(&run.names.canonical_id(target)) == 0 && reference.has_task_of(run)
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
        for (precondition, count) in [(false, 1), (true, 0)] {
            let mut run = RunBuilder::new();
            run.actor("user", "create", CLAIMS, "x", Some(json!({})));
            let uid = run.uid(CLAIMS, "x");
            let request = run.write("delete", CLAIMS, "x", None);
            request.cached_uid = Some("earlier".to_owned());
            request.body = precondition.then(|| json!({"preconditions": {"uid": uid}}));
            assert_eq!(judge(&StaleIdentity, &run.finish(), None).violations.len(), count);
        }
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
        let reference = Reference::new(&world(false), &world(false));
        let judgement = judge(&StaleIdentity, &world(true), Some(&reference));
        assert!(judgement.violations[0].explanation.contains("no such object"));
    }
}
