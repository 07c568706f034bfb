//! PersistentVolumes and the claims that they are bound to, after `k8s.io/kubernetes/pkg/controller/volume/persistentvolume`.
//!
//! A claim is bound to a volume in steps, each of which is repeated until it is done: the volume refers to the claim, the claim names the
//! volume, and both report it in their status. [`matching`] selects a volume, and [`provisioner`] creates one.

mod claim;
mod matching;
pub(super) mod provisioner;
mod volume;

use serde_json::Value;

pub(super) use claim::waits_for_consumer;
pub(super) use matching::class;

use super::kind::Kind;
use super::kind_controller::{Concerned, ControllerGroup, KindController, Trigger};
use crate::meta;
use crate::storage::StoredObject;

/// The annotation of a claim that is bound as a whole.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a claim or a volume whose counterpart the controller selected.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of a claim with the Node of the Pod that waits for it.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotations of a claim with the name of the provisioner that is to create its volume.
const PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];

/// Returns the controllers of PersistentVolumes and of their claims.
pub(super) fn controllers() -> ControllerGroup {
    let volumes = KindController::new(Kind::PersistentVolume, volume::reconcile)
        .triggers(&[(Kind::PersistentVolumeClaim, Trigger::Referenced(volume_of_claim))]);
    let claims = KindController::new(Kind::PersistentVolumeClaim, claim::reconcile).triggers(&[
        (Kind::PersistentVolume, Trigger::Referenced(claims_of_volume)),
        (Kind::StorageClass, Trigger::All),
    ]);
    ControllerGroup(vec![volumes, claims])
}

/// A claim concerns the volume that it names.
fn volume_of_claim(claim: &StoredObject) -> Concerned {
    match claim.value()["spec"]["volumeName"].as_str() {
        Some(name) if !name.is_empty() => Concerned::One(("".into(), name.into())),
        _ => Concerned::None,
    }
}

/// A volume concerns the claim that it refers to. Any claim may get one that refers to none.
fn claims_of_volume(volume: &StoredObject) -> Concerned {
    let volume = volume.value();
    let claim = &volume["spec"]["claimRef"];
    match (claim["namespace"].as_str(), claim["name"].as_str()) {
        (Some(namespace), Some(name)) => Concerned::One((namespace.into(), name.into())),
        _ => Concerned::All,
    }
}

/// Whether a volume refers to this claim. A reference without a UID is one that somebody wrote before the claim existed.
fn refers_to(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    let uid = reference["uid"].as_str().unwrap_or_default();
    reference["name"] == meta::text(claim, "name")
        && reference["namespace"] == meta::text(claim, "namespace")
        && (uid.is_empty() || uid == meta::text(claim, "uid"))
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str()
}
