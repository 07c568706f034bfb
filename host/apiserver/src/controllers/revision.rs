//! The history of the templates of StatefulSets and DaemonSets, after `k8s.io/kubernetes/pkg/controller/history`.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::action::Action;
use super::kind::Kind;
use super::object::{Key, key, number, owner_reference, template_hash};
use crate::meta;

/// The label of Pods and ControllerRevisions with the hash of the template. For StatefulSets, it is the revision's name.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";

/// The current template, and what has to be written for it.
#[derive(Debug)]
pub(super) struct Revisions {
    /// The name of the revision of the current template.
    pub(super) name: String,
    /// The hash in that name.
    pub(super) hash: String,
    pub(super) actions: Vec<Action>,
}

/// Returns the revision of the current template of a workload, given its stored revisions.
pub(super) fn current(kind: Kind, workload: &Value, stored: &[Value]) -> Revisions {
    let data = data(workload);
    let newest = stored.iter().map(revision_number).max().unwrap_or(0);
    if let Some(found) = stored.iter().find(|revision| revision["data"] == data) {
        let mut actions = Vec::new();
        if revision_number(found) < newest {
            // The template of an earlier revision is the current one again.
            let patch = json!({"revision": newest.saturating_add(1)});
            actions.push(Action::Patch(Kind::ControllerRevision, key(found), patch));
        }
        let hash = found["metadata"]["labels"][HASH_LABEL].as_str().unwrap_or_default().to_owned();
        return Revisions { name: meta::text(found, "name").to_owned(), hash, actions };
    }
    let collisions = number(&workload["status"]["collisionCount"], 0);
    let hash = template_hash(&data, collisions);
    let name = format!("{}-{hash}", meta::text(workload, "name"));
    let mut labels = workload["spec"]["template"]["metadata"]["labels"].clone();
    labels[HASH_LABEL] = hash.as_str().into();
    let mut revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": name, "namespace": meta::text(workload, "namespace"), "labels": labels,
            "ownerReferences": [owner_reference(kind, workload)],
        },
        "data": data, "revision": newest.saturating_add(1),
    });
    if let Some(annotations) = workload["metadata"].get("annotations") {
        revision["metadata"]["annotations"] = annotations.clone();
    }
    Revisions { name, hash, actions: vec![Action::Create(Kind::ControllerRevision, revision)] }
}

/// Returns the deletions of old revisions beyond the limit of the history, except for those that are `in_use`.
pub(super) fn clean_up(workload: &Value, stored: &[Value], in_use: &BTreeSet<Key>) -> Vec<Action> {
    let limit = usize::try_from(number(&workload["spec"]["revisionHistoryLimit"], 10)).unwrap_or(usize::MAX);
    let mut unused: Vec<&Value> = stored.iter().filter(|revision| !in_use.contains(&key(revision))).collect();
    unused.sort_by_key(|revision| Reverse(revision_number(revision)));
    unused
        .into_iter()
        .skip(limit)
        .map(|revision| Action::delete(Kind::ControllerRevision, revision))
        .collect()
}

/// Returns the patch that `kubectl rollout undo` applies to return to the template.
fn data(workload: &Value) -> Value {
    let mut template = workload["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// Returns the template of a stored revision.
pub(super) fn template(revision: &Value) -> Value {
    let mut template = revision["data"]["spec"]["template"].clone();
    if let Some(members) = template.as_object_mut() {
        members.remove("$patch");
    }
    template
}

fn revision_number(revision: &Value) -> i64 {
    number(&revision["revision"], 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(image: &str) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u"},
            "spec": {"revisionHistoryLimit": 1, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"image": image}}},
        })
    }

    fn created(revisions: &Revisions) -> Value {
        let [Action::Create(Kind::ControllerRevision, value)] = revisions.actions.as_slice() else {
            panic!("{revisions:?}")
        };
        value.clone()
    }

    #[test]
    fn each_template_has_one_revision_and_an_old_one_is_renewed() {
        let first = created(&current(Kind::StatefulSet, &workload("1"), &[]));
        assert_eq!(
            (&first["revision"], &first["data"]["spec"]["template"]["$patch"]),
            (&json!(1), &json!("replace"))
        );
        let second = created(&current(Kind::StatefulSet, &workload("2"), std::slice::from_ref(&first)));
        assert_eq!(second["revision"], 2);
        let stored = [first, second];
        assert_eq!(current(Kind::StatefulSet, &workload("2"), &stored).actions, []);
        let back = current(Kind::StatefulSet, &workload("1"), &stored);
        assert_eq!(back.name, meta::text(&stored[0], "name"));
        assert_eq!(
            back.actions,
            [Action::Patch(Kind::ControllerRevision, key(&stored[0]), json!({"revision": 3}))]
        );
    }

    #[test]
    fn revisions_in_use_and_within_the_limit_are_kept() {
        let revision =
            |name: &str, number: i64| json!({"metadata": {"name": name, "uid": name}, "revision": number});
        let stored = [revision("used", 1), revision("old", 2), revision("recent", 3)];
        let in_use = BTreeSet::from([key(&stored[0])]);
        assert_eq!(
            clean_up(&workload("x"), &stored, &in_use),
            [Action::delete(Kind::ControllerRevision, &stored[1])]
        );
    }
}
