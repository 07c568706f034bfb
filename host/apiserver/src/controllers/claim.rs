//! The objects that belong to a workload, after `ControllerRefManager` in `k8s.io/kubernetes/pkg/controller`.
//!
//! An object belongs to the workload that its owner references name as its controller. An object without a controller
//! that the selector matches is adopted. An object that the selector no longer matches is released.

use pilothouse_model::LabelSelector;
use serde_json::{Value, json};

use super::action::Action;
use super::cluster::Cluster;
use super::kind::Kind;
use super::object::{is_deleting, items, key, owner_reference};
use crate::meta;
use crate::storage::StoredObject;

/// The objects of a workload, and the writes that adopt and release objects.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    pub(super) objects: Vec<Value>,
    pub(super) actions: Vec<Action>,
}

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Keep,
    Adopt,
    Release,
    Ignore,
}

/// Claims the objects of `kind` for `owner`, an object of `owner_kind`.
pub(super) fn claim(
    cluster: &Cluster<'_>,
    kind: Kind,
    (owner_kind, owner): (Kind, &Value),
    selector: &LabelSelector,
) -> Claimed {
    let mut claimed = Claimed::default();
    let uid = meta::text(owner, "uid");
    let owner_deleting = is_deleting(owner);
    let concerns_owner =
        |candidate: &StoredObject| decide(uid, owner_deleting, selector, candidate) != Decision::Ignore;
    for candidate in cluster.select(kind, meta::text(owner, "namespace"), concerns_owner) {
        let decision = decide(uid, owner_deleting, selector, &candidate);
        let object = candidate.value();
        let references = items(&object["metadata"]["ownerReferences"]);
        let changed = match decision {
            Decision::Keep | Decision::Ignore => None,
            Decision::Adopt => {
                let own = owner_reference(owner_kind, owner);
                Some(references.iter().cloned().chain([own]).collect::<Vec<_>>())
            }
            Decision::Release => {
                Some(references.iter().filter(|owner| owner["uid"] != uid).cloned().collect())
            }
        };
        if let Some(references) = changed {
            let references = if references.is_empty() { Value::Null } else { references.into() };
            let patch = json!({"metadata": {"ownerReferences": references}});
            claimed.actions.push(Action::Patch(kind, key(&object), patch));
        }
        if decision != Decision::Release {
            claimed.objects.push(object);
        }
    }
    claimed
}

fn decide(uid: &str, owner_deleting: bool, selector: &LabelSelector, candidate: &StoredObject) -> Decision {
    let matches = || !selector.is_empty() && selector.matches(|name| candidate.labels.get(name));
    match candidate.owners.iter().find(|owner| owner.controller) {
        Some(owner) if &*owner.uid != uid => Decision::Ignore,
        Some(_) if matches() || owner_deleting => Decision::Keep,
        Some(_) => Decision::Release,
        None if owner_deleting || candidate.deleting || !matches() => Decision::Ignore,
        None => Decision::Adopt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::ObjectDraft;

    fn decision(labels: &Value, owners: &Value) -> Decision {
        let value = json!({"metadata": {"labels": labels, "ownerReferences": owners}});
        let candidate = StoredObject::unwritten(ObjectDraft { value, fields: Box::default(), schema: 0 });
        decide("me", false, &LabelSelector::parse("app=a").expect("a selector"), &candidate)
    }

    #[test]
    fn matching_orphans_are_adopted_and_changed_objects_are_released() {
        let (matching, other) = (json!({"app": "a"}), json!({"app": "b"}));
        let owned_by = |uid: &str| json!([{"uid": uid, "controller": true}]);
        assert_eq!(decision(&matching, &json!([])), Decision::Adopt);
        assert_eq!(decision(&matching, &json!([{"uid": "x"}])), Decision::Adopt);
        assert_eq!(decision(&matching, &owned_by("me")), Decision::Keep);
        assert_eq!(decision(&other, &owned_by("me")), Decision::Release);
        assert_eq!(decision(&matching, &owned_by("x")), Decision::Ignore);
        assert_eq!(decision(&other, &json!([])), Decision::Ignore);
    }
}
