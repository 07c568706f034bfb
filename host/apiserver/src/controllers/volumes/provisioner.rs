//! A simulated storage provisioner. It creates PersistentVolumes without storage for the StorageClasses that name it, and deletes them when
//! they are released.

use serde_json::{Value, json};

use super::super::action::{Action, Plan};
use super::super::cluster::Cluster;
use super::super::kind::Kind;
use super::super::kind_controller::{ControllerGroup, KindController};
use super::super::object::is_deleting;
use super::{PROVISIONER, annotation, claim::waits_for_consumer, matching};
use crate::meta;
use crate::request::options::WriteOptions;
use crate::rest::verbs::create::create;
use crate::state::State;

/// The name of the controller.
pub(in super::super) const NAME: &str = "storage-provisioner";

/// The provisioner of the StorageClasses whose volumes are simulated.
const SIMULATED: &str = "pilothouse.dev/simulated";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The StorageClass that exists from the start. It has the name of that of kind and minikube.
const CLASS_NAME: &str = "standard";

/// Returns the controllers that create and delete volumes.
pub(in super::super) fn controllers() -> ControllerGroup {
    ControllerGroup(vec![
        KindController::new(Kind::PersistentVolumeClaim, provision).manager(NAME),
        KindController::new(Kind::PersistentVolume, |_, volume| delete_released(volume)).manager(NAME),
    ])
}

/// Creates the default StorageClass, unless a class of that name exists.
pub(in super::super) fn create_default_class(state: &State) {
    let registry = state.registry();
    let Some(classes) = registry.endpoint("storage.k8s.io", "v1", "storageclasses") else { return };
    if classes.resource.table.get("", CLASS_NAME).is_some() {
        return;
    }
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": CLASS_NAME, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": SIMULATED, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    });
    if let Err(error) = create(state, classes, None, class, &WriteOptions::internal(NAME)) {
        tracing::warn!(%error, "cannot create the default StorageClass, so claims stay pending");
    }
}

fn provision(cluster: &Cluster<'_>, claim: &Value) -> Plan {
    let mut plan = Plan::default();
    let is_asked = PROVISIONER.iter().any(|name| annotation(claim, name) == Some(SIMULATED));
    let is_named = claim["spec"]["volumeName"].as_str().is_some_and(|name| !name.is_empty());
    if !is_asked || is_named || is_deleting(claim) {
        return plan;
    }
    let Some(class) = cluster.get(Kind::StorageClass, "", matching::class(claim)) else { return plan };
    let volume = new_volume(claim, &class);
    let name = meta::text(&volume, "name");
    if waits_for_consumer(claim, Some(&class)) || cluster.get(Kind::PersistentVolume, "", name).is_some() {
        return plan;
    }
    let message = format!("Successfully provisioned volume {name}");
    plan.actions.push(Action::CreateOrStop(Kind::PersistentVolume, volume));
    plan.actions.push(Action::Event { warning: false, reason: "ProvisioningSucceeded", message });
    plan
}

/// Returns the volume of a claim, which refers to it already.
fn new_volume(claim: &Value, class: &Value) -> Value {
    let uid = meta::text(claim, "uid");
    let name = format!("pvc-{uid}");
    let mut spec = json!({
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "accessModes": claim["spec"]["accessModes"],
        "hostPath": {"path": format!("/var/lib/pilothouse/{name}"), "type": "DirectoryOrCreate"},
        "persistentVolumeReclaimPolicy": class["reclaimPolicy"].as_str().unwrap_or("Delete"),
        "storageClassName": meta::text(class, "name"),
        "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta::text(claim, "namespace"),
            "name": meta::text(claim, "name"), "uid": uid, "resourceVersion": meta::text(claim, "resourceVersion"),
        },
    });
    for (field, value) in [
        ("mountOptions", &class["mountOptions"]),
        ("volumeMode", &claim["spec"]["volumeMode"]),
        ("volumeAttributesClassName", &claim["spec"]["volumeAttributesClassName"]),
    ] {
        if !value.is_null() {
            spec[field] = value.clone();
        }
    }
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: SIMULATED}}, "spec": spec,
    })
}

/// Deletes a volume of its own whose claim is gone, if its policy says so.
fn delete_released(volume: &Value) -> Plan {
    let mut plan = Plan::default();
    let is_own = annotation(volume, PROVISIONED_BY) == Some(SIMULATED);
    let is_released = volume["status"]["phase"] == "Released";
    if is_own
        && is_released
        && !is_deleting(volume)
        && volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    {
        plan.actions.push(Action::delete(Kind::PersistentVolume, volume));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_has_what_the_claim_and_the_class_say() {
        let claim = json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Block"},
        });
        let volume = new_volume(&claim, &json!({"metadata": {"name": "s"}, "reclaimPolicy": "Retain"}));
        let spec = &volume["spec"];
        assert_eq!(meta::text(&volume, "name"), "pvc-u");
        assert_eq!(
            (&spec["capacity"]["storage"], &spec["accessModes"][0]),
            (&json!("1Gi"), &json!("ReadWriteMany"))
        );
        assert_eq!(
            (&spec["volumeMode"], &spec["persistentVolumeReclaimPolicy"]),
            (&json!("Block"), &json!("Retain"))
        );
        assert_eq!((&spec["claimRef"]["uid"], &spec["storageClassName"]), (&json!("u"), &json!("s")));
    }

    #[test]
    fn only_released_volumes_of_its_own_are_deleted() {
        let volume = |by: &str, phase: &str, policy: &str| {
            json!({
                "metadata": {"name": "v", "annotations": {PROVISIONED_BY: by}},
                "spec": {"persistentVolumeReclaimPolicy": policy}, "status": {"phase": phase},
            })
        };
        assert_eq!(delete_released(&volume(SIMULATED, "Released", "Delete")).actions.len(), 1);
        for kept in [
            volume(SIMULATED, "Bound", "Delete"),
            volume(SIMULATED, "Released", "Retain"),
            volume("example.org/disks", "Released", "Delete"),
        ] {
            assert_eq!(delete_released(&kept), Plan::default());
        }
    }
}
