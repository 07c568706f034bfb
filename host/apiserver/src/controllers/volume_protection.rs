//! Claims, volumes and their classes stay while they are in use, after `k8s.io/kubernetes/pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}`: their finalizers, which
//! the server adds when they are created, are removed once nothing uses them.

use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::cluster::Cluster;
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{is_deleting, items, key};
use crate::meta;
use crate::rest::built_in_admission::defaults::{CLAIM_PROTECTION, CLASS_PROTECTION, VOLUME_PROTECTION};
use crate::storage::StoredObject;

/// Returns the controller of PersistentVolumeClaims.
pub(super) fn claims() -> KindController {
    let reconcile = |cluster: &Cluster<'_>, claim: &Value| {
        let namespace = meta::text(claim, "namespace");
        let pods = cluster.list(Kind::Pod, Some(namespace));
        plan(
            Kind::PersistentVolumeClaim,
            claim,
            pods.iter().any(|pod| uses(&pod.value(), meta::text(claim, "name"))),
        )
    };
    KindController::new(Kind::PersistentVolumeClaim, reconcile)
        .only(|claim| is_waiting(claim, CLAIM_PROTECTION))
        .triggers(&[(Kind::Pod, Trigger::Namespace)])
}

/// Returns the controller of PersistentVolumes.
pub(super) fn volumes() -> KindController {
    KindController::new(Kind::PersistentVolume, |_, volume| {
        plan(Kind::PersistentVolume, volume, volume["status"]["phase"] == "Bound")
    })
    .only(|volume| is_waiting(volume, VOLUME_PROTECTION))
}

/// Returns the controller of VolumeAttributesClasses.
pub(super) fn classes() -> KindController {
    let reconcile = |cluster: &Cluster<'_>, class: &Value| {
        let name = meta::text(class, "name");
        let kinds = [Kind::PersistentVolumeClaim, Kind::PersistentVolume];
        let mut users = kinds.iter().flat_map(|kind| cluster.list(*kind, None));
        plan(Kind::VolumeAttributesClass, class, users.any(|user| has_class(&user.value(), name)))
    };
    KindController::new(Kind::VolumeAttributesClass, reconcile)
        .only(|class| is_waiting(class, CLASS_PROTECTION))
        .triggers(&[(Kind::PersistentVolumeClaim, Trigger::All), (Kind::PersistentVolume, Trigger::All)])
}

/// Whether a claim or a volume has the class with this name, or gets it.
fn has_class(object: &Value, class: &str) -> bool {
    let status = &object["status"];
    object["spec"]["volumeAttributesClassName"] == class
        || status["currentVolumeAttributesClassName"] == class
        || status["modifyVolumeStatus"]["targetVolumeAttributesClassName"] == class
}

fn is_waiting(object: &StoredObject, finalizer: &str) -> bool {
    object.deleting && object.finalizers.iter().any(|one| &**one == finalizer)
}

/// Whether a Pod uses the claim with this name. One that is not scheduled does not: it cannot start any more.
fn uses(pod: &Value, claim: &str) -> bool {
    let is_scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    is_scheduled
        && items(&pod["spec"]["volumes"])
            .iter()
            .any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}

/// Removes the finalizer of a claim, a volume or a class that is being deleted and not used.
fn plan(kind: Kind, object: &Value, is_used: bool) -> Plan {
    let mut plan = Plan::default();
    let finalizer = match kind {
        Kind::PersistentVolume => VOLUME_PROTECTION,
        Kind::VolumeAttributesClass => CLASS_PROTECTION,
        _ => CLAIM_PROTECTION,
    };
    let finalizers = meta::finalizers(object);
    if is_used || !is_deleting(object) || !finalizers.iter().any(|one| one == finalizer) {
        return plan;
    }
    let remaining: Vec<String> = finalizers.into_iter().filter(|one| one != finalizer).collect();
    let patch = json!({"metadata": {"finalizers": remaining}});
    plan.actions.push(Action::Patch(kind, key(object), patch));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizer_of_a_deleted_claim_is_removed_once_no_scheduled_pod_uses_it() {
        let claim = json!({"metadata": {
            "name": "c", "namespace": "n", "deletionTimestamp": "t", "finalizers": ["example.com/x", CLAIM_PROTECTION],
        }});
        assert_eq!(plan(Kind::PersistentVolumeClaim, &claim, true), Plan::default());
        let patch = json!({"metadata": {"finalizers": ["example.com/x"]}});
        let key = ("n".into(), "c".into());
        assert_eq!(
            plan(Kind::PersistentVolumeClaim, &claim, false).actions,
            [Action::Patch(Kind::PersistentVolumeClaim, key, patch)]
        );
        let live = json!({"metadata": {"name": "c", "finalizers": [CLAIM_PROTECTION]}});
        assert_eq!(plan(Kind::PersistentVolumeClaim, &live, false), Plan::default());
        let mut pod =
            json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
        assert!(!uses(&pod, "c"));
        pod["spec"]["nodeName"] = json!("node");
        assert!(uses(&pod, "c") && !uses(&pod, "d"));
    }

    #[test]
    fn class_is_used_by_claims_that_have_it_or_get_it() {
        for (pointer, is_used) in [
            (json!({"spec": {"volumeAttributesClassName": "c"}}), true),
            (json!({"status": {"currentVolumeAttributesClassName": "c"}}), true),
            (json!({"status": {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "c"}}}), true),
            (json!({"spec": {"volumeAttributesClassName": "d"}}), false),
        ] {
            assert_eq!(has_class(&pointer, "c"), is_used, "{pointer}");
        }
        let class =
            json!({"metadata": {"name": "c", "deletionTimestamp": "t", "finalizers": [CLASS_PROTECTION]}});
        assert_eq!(plan(Kind::VolumeAttributesClass, &class, true), Plan::default());
        assert_eq!(plan(Kind::VolumeAttributesClass, &class, false).actions.len(), 1);
    }
}
