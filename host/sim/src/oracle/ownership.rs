//! *ownership*: a written owner reference must be one that the garbage collector can resolve.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::{ObjectId, RunView, metadata};
use crate::run::{EventKind, RequestEvent};

pub(super) const DESCRIPTION: Description = Description {
    name: "ownership",
    reports: "the plugin writes an owner reference without a UID, to an owner in another namespace, from a cluster-scoped object to a namespaced \
              owner, or with a UID that no object of that name ever had",
    premise: "The garbage collector treats such an owner as absent and deletes the object, or never deletes it (kubernetes.io, Owners and \
              Dependents). A UID that an object had earlier is no error.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct Ownership;

/// What is known of the owners of a run.
#[derive(Default)]
struct Owners {
    /// UIDs, and the namespaces of their objects.
    namespaces: BTreeMap<String, String>,
    /// The UIDs of each kind and name.
    uids: BTreeMap<(String, String), BTreeSet<String>>,
    /// UIDs that were only seen in deliveries, whose kinds are unknown.
    delivered: BTreeSet<String>,
}

impl Oracle for Ownership {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, _: Option<&ReferenceRuns>) -> Judgement {
        // Few writes add an owner, and collecting all objects costs as much as any other oracle.
        let owners = LazyCell::new(|| Owners::of(run));
        let mut judgement = Judgement::without_subject();
        for (index, request) in run.effective_writes() {
            for reference in new_references(request) {
                judgement.had_subject = true;
                if let Some(problem) = owners.problem(request, reference) {
                    let id = run.names.canonical_id(&request.object_id());
                    let owner = (text(reference, "kind"), text(reference, "name"));
                    let explanation =
                        format!("{} of {id} sets the owner {} {}: {problem}", request.verb, owner.0, owner.1);
                    judgement.violations.push(Violation::new(self, &id, Some(index), explanation));
                }
            }
        }
        judgement
    }
}

/// Returns the owner references that the write added.
fn new_references(request: &RequestEvent) -> Vec<&Value> {
    fn references(object: Option<&Value>) -> &[Value] {
        object.and_then(|object| object["metadata"]["ownerReferences"].as_array()).map_or(&[], Vec::as_slice)
    }
    let before = references(request.before.as_deref());
    references(request.after.as_deref()).iter().filter(|reference| !before.contains(reference)).collect()
}

fn text<'a>(reference: &'a Value, member: &str) -> &'a str {
    reference[member].as_str().unwrap_or_default()
}

impl Owners {
    fn of(run: &RunView<'_>) -> Self {
        let mut owners = Self::default();
        for event in &run.run.events {
            match &event.kind {
                EventKind::Request(request) => {
                    for object in [&request.before, &request.after].into_iter().flatten() {
                        owners.add(&request.object_id(), object);
                    }
                }
                EventKind::Delivered { key, uid, .. } if !uid.is_empty() => {
                    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
                    owners.namespaces.entry(uid.clone()).or_insert_with(|| namespace.to_owned());
                    owners.delivered.insert(uid.clone());
                }
                _ => {}
            }
        }
        for stored in &run.run.objects {
            owners.add(&ObjectId::of(stored), &stored.object);
        }
        owners
    }

    fn add(&mut self, id: &ObjectId, object: &Value) {
        let Some(uid) = metadata(object, "uid") else { return };
        self.namespaces.insert(uid.to_owned(), id.namespace.clone());
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        self.uids.entry((kind, id.name.clone())).or_default().insert(uid.to_owned());
    }

    fn problem(&self, request: &RequestEvent, reference: &Value) -> Option<String> {
        let uid = text(reference, "uid");
        if uid.is_empty() {
            return Some("it has no UID".to_owned());
        }
        if let Some(namespace) = self.namespaces.get(uid) {
            return match (namespace.as_str(), request.namespace.as_str()) {
                ("", _) => None,
                (namespace, "") => {
                    Some(format!("it is in the namespace {namespace}, but the object is cluster-scoped"))
                }
                (owner, own) if owner != own => Some(format!("it is in the namespace {owner}, not in {own}")),
                _ => None,
            };
        }
        let known =
            self.uids.get(&(text(reference, "kind").to_owned(), text(reference, "name").to_owned()))?;
        (!known.contains(uid) && !self.delivered.contains(uid))
            .then(|| format!("no such object ever had the UID {uid}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{RunBuilder, judge};

    fn run(owner: &str, dependent: &str, uid: Option<&str>) -> crate::Run {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "foos.example.com", owner, Some(json!({"kind": "Foo"})));
        let uid = uid.map_or_else(|| run.uid("foos.example.com", owner), str::to_owned);
        let name = owner.rsplit('/').next();
        run.start(owner);
        let references = json!([{"kind": "Foo", "name": name, "uid": uid}]);
        run.write("create", "secrets", dependent, Some(json!({"metadata": {"ownerReferences": references}})));
        run.finish()
    }

    fn problem(owner: &str, dependent: &str, uid: Option<&str>) -> Option<String> {
        let judgement = judge(&Ownership, &run(owner, dependent, uid), None);
        assert!(judgement.had_subject);
        judgement.violations.into_iter().next().map(|violation| violation.explanation)
    }

    #[test]
    fn an_owner_that_cannot_be_resolved_is_reported() {
        assert!(
            problem("a/foo", "b/copy", None).expect("a problem").contains("in the namespace a, not in b")
        );
        assert!(problem("a/foo", "copy", None).expect("a problem").contains("cluster-scoped"));
        assert!(problem("a/foo", "a/copy", Some("")).expect("a problem").contains("no UID"));
        assert!(problem("a/foo", "a/copy", Some("invented")).expect("a problem").contains("ever had"));
    }

    #[test]
    fn an_owner_in_the_same_namespace_or_of_the_cluster_is_right() {
        assert_eq!(problem("a/foo", "a/copy", None), None);
        assert_eq!(problem("foo", "a/copy", None), None);
    }
}
