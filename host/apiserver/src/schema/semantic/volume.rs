//! The volumes of Pods, PersistentVolumes, their claims and StorageClasses.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{
    entries, has, items, names, push_invalid, quantity, text, validate_label_selector, validate_one_of,
    volume_source,
};
use crate::schema::field;
use crate::status::Causes;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

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

/// The sources of PersistentVolumes, in the order in which kube-apiserver checks them.
const PERSISTENT_SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Checks the volumes of a Pod. Returns their names.
pub(super) fn validate_volumes<'a>(volumes: &'a Value, path: &str, causes: &mut Causes) -> HashSet<&'a str> {
    let mut found = HashSet::default();
    for (index, volume) in items(volumes).iter().enumerate() {
        let at = field::index(path, index);
        let mut own = Causes::default();
        let sources = POD_SOURCES.into_iter().chain([IMAGE]);
        validate_source(volume, &at, sources, "must specify a volume type", &mut own);
        volume_source::validate(volume, &at, &mut own);
        let (at_name, name) = (field::child(&at, "name"), text(volume, "name"));
        if name.is_empty() {
            own.push(field::required(&at_name, ""));
        } else {
            push_invalid(&mut own, &at_name, name, names::label_errors(name));
        }
        if found.contains(name) {
            own.push(field::duplicate(&at_name, &Value::from(name)));
        }
        // As in Kubernetes, containers cannot mount an invalid volume.
        if own.is_empty() {
            found.insert(name);
        }
        causes.append(&mut own);
    }
    found
}

/// Checks that a volume has exactly one source.
fn validate_source(
    volume: &Value,
    at: &str,
    sources: impl Iterator<Item = &'static str>,
    missing: &str,
    causes: &mut Causes,
) {
    let mut present = sources.filter(|source| has(volume, source));
    if present.next().is_none() {
        causes.push(field::required(at, missing));
    }
    for source in present {
        causes.push(field::forbidden(&field::child(at, source), "may not specify more than 1 volume type"));
    }
}

pub(super) fn validate_persistent_volume(spec: &Value, causes: &mut Causes) {
    if items(&spec["accessModes"]).is_empty() {
        causes.push(field::required("spec.accessModes", ""));
    }
    validate_access_modes(spec, causes);
    let capacity = &spec["capacity"];
    if entries(Some(capacity)).next().is_none() {
        causes.push(field::required("spec.capacity", ""));
    } else if !has(capacity, "storage") || entries(Some(capacity)).count() > 1 {
        causes.push(field::not_supported("spec.capacity", capacity, &["storage"]));
    }
    for (name, amount) in entries(Some(capacity)) {
        validate_positive(amount, &field::key("spec.capacity", name), causes);
    }
    let policies = ["Delete", "Recycle", "Retain"];
    validate_one_of(spec, "persistentVolumeReclaimPolicy", "spec", &policies, causes);
    validate_source(spec, "spec", PERSISTENT_SOURCES.into_iter(), "must specify a volume type", causes);
    validate_one_of(spec, "volumeMode", "spec", &["Block", "Filesystem"], causes);
}

pub(super) fn validate_claim(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    if items(&spec["accessModes"]).is_empty() {
        causes.push(field::required("spec.accessModes", "at least 1 access mode is required"));
    }
    validate_label_selector(&spec["selector"], "spec.selector", causes);
    validate_access_modes(spec, causes);
    let path = field::key("spec.resources", "storage");
    match spec.pointer("/resources/requests/storage") {
        None | Some(Value::Null) => causes.push(field::required(&path, "")),
        Some(amount) => validate_positive(amount, &path, causes),
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        push_invalid(causes, "spec.storageClassName", class, names::subdomain_errors(class));
    }
    validate_one_of(spec, "volumeMode", "spec", &["Block", "Filesystem"], causes);
    let Some(old) = old else { return };
    let (before, is_bound) = (&old["spec"], old["status"]["phase"] == "Bound");
    if fixed_part(before, is_bound) != fixed_part(spec, is_bound) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                      claims";
        causes.push(field::forbidden("spec", detail));
    }
    if before["volumeMode"] != spec["volumeMode"] {
        causes.push(field::invalid("volumeMode", &spec["volumeMode"], "field is immutable"));
    }
}

/// Returns what may not change in a claim's specification. The volume may be set once, and so may the class of a claim without one. What a bound
/// claim requests may change.
fn fixed_part(spec: &Value, is_bound: bool) -> Value {
    let mut spec = spec.clone();
    if is_bound && let Some(requests) = spec.pointer_mut("/resources/requests").and_then(Value::as_object_mut)
    {
        requests.remove("storage");
    }
    if let Some(members) = spec.as_object_mut() {
        members.remove("volumeName");
        members.remove("storageClassName");
        if is_bound {
            members.remove("volumeAttributesClassName");
        }
        members.retain(|_, value| !value.is_null());
    }
    spec
}

fn validate_access_modes(spec: &Value, causes: &mut Causes) {
    const ONE_POD: &str = "ReadWriteOncePod";
    let modes = items(&spec["accessModes"]);
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.iter().any(|known| mode == known)) {
        causes.push(field::not_supported("spec.accessModes", mode, &ACCESS_MODES));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == ONE_POD) {
        let detail = "may not use ReadWriteOncePod with other access modes";
        causes.push(field::forbidden("spec.accessModes", detail));
    }
}

fn validate_positive(amount: &Value, path: &str, causes: &mut Causes) {
    if quantity::nanos(amount).is_some_and(|nanos| nanos <= 0) {
        causes.push(field::invalid(path, amount, "must be greater than zero"));
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
    for (index, term) in items(topologies).iter().enumerate() {
        let at = field::child(&field::index("allowedTopologies", index), "matchLabelExpressions");
        let mut keys = HashSet::default();
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
        }
    }
}
