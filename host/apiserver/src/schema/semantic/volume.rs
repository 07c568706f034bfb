//! The volumes of Pods, and StorageClasses.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::container_volumes::Volumes;
use super::{entries, has, items, names, push_invalid, text, validate_one_of, volume_source};
use crate::schema::field;
use crate::status::Causes;

/// The sources of a Pod's volumes, in the order in which kube-apiserver checks them.
const POD_SOURCES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];
/// The other source of a Pod's volumes.
const IMAGE: &str = "image";

/// Checks the volumes of a Pod. Returns the valid ones.
pub(super) fn validate_volumes<'a>(volumes: &'a Value, path: &str, causes: &mut Causes) -> Volumes<'a> {
    let mut found = Volumes::default();
    for (index, volume) in items(volumes).iter().enumerate() {
        let at = field::index(path, index);
        let mut own = Causes::default();
        validate_source(volume, &at, &mut own);
        let (at_name, name) = (field::child(&at, "name"), text(volume, "name"));
        if name.is_empty() {
            own.push(field::required(&at_name, ""));
        } else {
            push_invalid(&mut own, &at_name, name, names::label_errors(name));
        }
        if found.contains_key(name) {
            own.push(field::duplicate(&at_name, &Value::from(name)));
        }
        // As in Kubernetes, containers cannot mount an invalid volume.
        if own.is_empty() {
            let is_claim = has(volume, "persistentVolumeClaim") || has(volume, "ephemeral");
            found.insert(name, is_claim);
        }
        causes.append(&mut own);
    }
    found
}

/// Checks that a volume has exactly one source. Of several sources, only the first one is validated further.
fn validate_source(volume: &Value, at: &str, causes: &mut Causes) {
    let mut present = POD_SOURCES.into_iter().chain([IMAGE]).filter(|source| has(volume, source));
    match present.next() {
        Some(first) => volume_source::validate(first, &volume[first], &field::child(at, first), causes),
        None => causes.push(field::required(at, "must specify a volume type")),
    }
    for source in present {
        causes.push(field::forbidden(&field::child(at, source), "may not specify more than 1 volume type"));
    }
}

pub(super) fn validate_storage_class(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let provisioner = text(new, "provisioner");
    if provisioner.is_empty() {
        causes.push(field::required("provisioner", ""));
    } else {
        // As in Kubernetes, the message shows the text without capital letters.
        let provisioner = provisioner.to_lowercase();
        push_invalid(causes, "provisioner", &provisioner, names::qualified_name_errors(&provisioner));
    }
    if entries(new.get("parameters")).any(|(name, _)| name.is_empty()) {
        causes.push(field::invalid("parameters", &"".into(), "field can not be empty."));
    }
    validate_one_of(new, "reclaimPolicy", "", &["Delete", "Retain"], causes);
    validate_one_of(new, "volumeBindingMode", "", &["Immediate", "WaitForFirstConsumer"], causes);
    validate_topologies(&new["allowedTopologies"], causes);
    let Some(old) = old else { return };
    for name in ["parameters", "provisioner", "reclaimPolicy"] {
        if old.get(name) != new.get(name) {
            causes.push(field::forbidden(name, &format!("updates to {name} are forbidden.")));
        }
    }
    if old.get("volumeBindingMode") != new.get("volumeBindingMode") {
        causes.push(field::invalid("volumeBindingMode", &new["volumeBindingMode"], "field is immutable"));
    }
}

/// Checks where the volumes of a class can be.
fn validate_topologies(topologies: &Value, causes: &mut Causes) {
    let mut terms: BTreeSet<BTreeMap<&str, BTreeSet<&str>>> = BTreeSet::new();
    for (index, term) in items(topologies).iter().enumerate() {
        let at = field::child(&field::index("allowedTopologies", index), "matchLabelExpressions");
        let path = at.clone();
        let (mut keys, mut places) = (HashSet::default(), BTreeMap::new());
        for (index, requirement) in items(&term["matchLabelExpressions"]).iter().enumerate() {
            let at = field::index(&at, index);
            let (values, mut found) = (items(&requirement["values"]), HashSet::default());
            if values.is_empty() {
                causes.push(field::required(&field::child(&at, "values"), ""));
            }
            for (index, value) in values.iter().enumerate() {
                if !found.insert(value.as_str()) {
                    causes.push(field::duplicate(&field::index(&field::child(&at, "values"), index), value));
                }
            }
            let key = text(requirement, "key");
            push_invalid(causes, &field::child(&at, "key"), key, names::qualified_name_errors(key));
            if !keys.insert(key) {
                causes.push(field::duplicate(&field::child(&at, "key"), &key.into()));
            }
            places.insert(key, values.iter().filter_map(Value::as_str).collect());
        }
        // As in Kubernetes, a term without requirements is a duplicate, too.
        if places.is_empty() || !terms.insert(places) {
            causes.push(field::duplicate(&path, &"".into()));
        }
    }
}
