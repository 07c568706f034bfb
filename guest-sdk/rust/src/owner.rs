//! Owner references, by which the garbage collector deletes an object after its owner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use thiserror::Error;

use crate::Resource;

/// Returns a controlling reference to `owner`, for `metadata.ownerReferences` of an object that the owner creates. The garbage
/// collector deletes the object after its owner; with foreground deletion the owner waits for the object (`blockOwnerDeletion`).
///
/// # Panics
/// When `owner` has no name or UID, because it was never stored by the server.
#[must_use]
pub fn controller_owner_ref<K: Resource>(owner: &K) -> OwnerReference {
    let Some(reference) = owner.controller_owner_ref(&()) else {
        panic!("{} without name and UID cannot own anything: was it read from the server?", K::kind(&()));
    };
    OwnerReference { block_owner_deletion: Some(true), ..reference }
}

/// Returns the reference to the object's controlling owner.
#[must_use]
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_deref().unwrap_or_default().iter().find(|owner| owner.controller == Some(true))
}

/// Returns whether `owner` controls `object`. Compares UIDs, because an owner that was deleted and recreated does not own the
/// objects of its predecessor.
#[must_use]
pub fn is_controlled_by<K: Resource, O: Resource>(object: &K, owner: &O) -> bool {
    let uid = owner.meta().uid.as_deref();
    uid.is_some() && controller_of(object.meta()).map(|controller| controller.uid.as_str()) == uid
}

/// The error that another object already controls the object.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{object} is already controlled by {kind} {name}")]
pub struct AlreadyControlled {
    /// The object's name.
    pub object: String,
    /// The kind of its controller.
    pub kind: String,
    /// The name of its controller.
    pub name: String,
}

/// Makes `owner` the controller of `object`, as controller-runtime's `SetControllerReference` does. A reference to the same
/// owner is replaced if it differs.
///
/// # Errors
/// When another object already controls it: two controllers would fight over it.
///
/// # Panics
/// As [`controller_owner_ref`].
pub fn set_controller<K: Resource, O: Resource>(object: &mut K, owner: &O) -> Result<(), AlreadyControlled> {
    let reference = controller_owner_ref(owner);
    let meta = object.meta_mut();
    if let Some(other) = controller_of(meta).filter(|other| other.uid != reference.uid) {
        return Err(AlreadyControlled {
            object: meta.name.clone().unwrap_or_default(),
            kind: other.kind.clone(),
            name: other.name.clone(),
        });
    }
    let references = meta.owner_references.get_or_insert_default();
    match references.iter_mut().find(|present| present.uid == reference.uid) {
        Some(present) => *present = reference,
        None => references.push(reference),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

    use super::*;

    fn mk_deployment(name: &str, uid: &str) -> Deployment {
        let metadata = ObjectMeta { name: Some(name.into()), uid: Some(uid.into()), ..ObjectMeta::default() };
        Deployment { metadata, ..Deployment::default() }
    }

    #[test]
    fn a_controller_reference_has_kind_name_uid_and_controller() {
        assert_eq!(
            controller_owner_ref(&mk_deployment("web", "u1")),
            OwnerReference {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                name: "web".into(),
                uid: "u1".into(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }
        );
    }

    #[test]
    #[should_panic(expected = "Deployment without name and UID")]
    fn a_reference_to_an_owner_that_was_never_stored_panics() {
        let _ = controller_owner_ref(&Deployment::default());
    }

    #[test]
    fn control_is_determined_by_uid_not_by_name() {
        let mut set = ReplicaSet::default();
        set_controller(&mut set, &mk_deployment("web", "u1")).unwrap();
        assert!(is_controlled_by(&set, &mk_deployment("web", "u1")));
        assert!(!is_controlled_by(&set, &mk_deployment("web", "u2")));
        assert!(!is_controlled_by(&set, &Deployment::default()));
        assert!(!is_controlled_by(&ReplicaSet::default(), &mk_deployment("web", "u1")));
    }

    #[test]
    fn setting_the_same_controller_again_changes_nothing() {
        let mut set = ReplicaSet::default();
        set_controller(&mut set, &mk_deployment("web", "u1")).unwrap();
        let other = OwnerReference { uid: "u9".into(), ..OwnerReference::default() };
        set.metadata.owner_references.as_mut().unwrap().push(other);
        let before = set.clone();
        set_controller(&mut set, &mk_deployment("web", "u1")).unwrap();
        assert_eq!(set, before, "the order of the references stays");
    }

    #[test]
    fn a_second_controller_is_rejected() {
        let mut set = ReplicaSet::default();
        set.metadata.name = Some("web-1".into());
        set_controller(&mut set, &mk_deployment("web", "u1")).unwrap();
        set_controller(&mut set, &mk_deployment("web", "u1")).unwrap();
        assert_eq!(set.metadata.owner_references.as_ref().map(Vec::len), Some(1));
        let error = set_controller(&mut set, &mk_deployment("other", "u2")).unwrap_err();
        assert_eq!(error.to_string(), "web-1 is already controlled by Deployment web");
    }
}
