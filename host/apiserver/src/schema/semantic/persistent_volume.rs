//! PersistentVolumes.

use serde_json::{Map, Value};

use super::{
    claim, csi, entries, has, items, names, pod_scheduling, push_invalid, quantity, text, validate_one_of,
    volume_source, volume_vendors,
};
use crate::schema::field;
use crate::status::Causes;

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

/// The references of CSI volumes to Secrets, in the order in which kube-apiserver checks them.
const CSI_SECRETS: [&str; 4] = [
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
];

/// Checks a PersistentVolume. `old` is the stored object on updates.
pub(super) fn validate(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    if items(&spec["accessModes"]).is_empty() {
        causes.push(field::required("spec.accessModes", ""));
    }
    claim::validate_access_modes(spec, "spec", causes);
    validate_capacity(&spec["capacity"], causes);
    let policies = ["Delete", "Recycle", "Retain"];
    validate_one_of(spec, "persistentVolumeReclaimPolicy", "spec", &policies, causes);
    if has(spec, "nodeAffinity") {
        let at = "spec.nodeAffinity.required";
        match &spec["nodeAffinity"]["required"] {
            Value::Null => causes.push(field::required(at, "must specify required node constraints")),
            required => pod_scheduling::validate_node_selector(required, at, causes),
        }
    }
    validate_sources(spec, causes);
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" && is_root(text(&spec["hostPath"], "path")) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        causes.push(field::forbidden("spec.persistentVolumeReclaimPolicy", detail));
    }
    claim::validate_class(spec, "storageClassName", "spec", causes);
    validate_one_of(spec, "volumeMode", "spec", &["Block", "Filesystem"], causes);
    if let Some(class) = spec["volumeAttributesClassName"].as_str() {
        let path = "spec.volumeAttributesClassName";
        if class.is_empty() {
            causes.push(field::required(path, "an empty string is disallowed"));
        } else {
            push_invalid(causes, path, class, names::subdomain_errors(class));
        }
        if !has(spec, "csi") {
            let detail = "has to be specified when using volumeAttributesClassName";
            causes.push(field::required("spec.csi", detail));
        }
    }
    if let Some(old) = old {
        validate_update(&old["spec"], spec, causes);
    }
}

/// Checks that an update keeps the source and the mode of a PersistentVolume.
fn validate_update(before: &Value, after: &Value, causes: &mut Causes) {
    const EXPANSION_SECRET: &str = "controllerExpandSecretRef";
    let sets_secret = !has(&before["csi"], EXPANSION_SECRET) && has(&after["csi"], EXPANSION_SECRET);
    let is_changed = |source: &str| {
        let mut new = after[source].clone();
        if source == "csi" && before["csi"].is_object() && sets_secret {
            new.as_object_mut().map(|members| members.remove(EXPANSION_SECRET));
        }
        new != before[source]
    };
    if PERSISTENT_SOURCES.into_iter().any(is_changed) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        causes.push(field::forbidden("spec.persistentvolumesource", detail));
    }
    if before["volumeMode"] != after["volumeMode"] {
        causes.push(field::invalid("volumeMode", &after["volumeMode"], "field is immutable"));
    }
    const CLASS: &str = "volumeAttributesClassName";
    if has(before, CLASS) && !has(after, CLASS) {
        let detail = "update from non-nil value to nil is forbidden";
        causes.push(field::forbidden(&field::child("spec", CLASS), detail));
    }
}

/// Whether a path leads to the root.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn validate_capacity(capacity: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.capacity";
    let amounts: Map<String, Value> = entries(Some(capacity))
        .map(|(name, amount)| (name.clone(), quantity::canonical(amount).into()))
        .collect();
    if amounts.is_empty() {
        causes.push(field::required(PATH, ""));
    }
    if amounts.len() > 1 || !amounts.contains_key("storage") {
        let mut names: Vec<&String> = amounts.keys().collect();
        names.sort_unstable();
        let members =
            names.into_iter().map(|name| format!("{}:{}", Value::from(name.as_str()), amounts[name]));
        let shown = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        causes.push(field::not_supported_shown(PATH, &shown, &["storage"]));
    }
    for (name, amount) in entries(Some(capacity)) {
        let at = field::key(PATH, name);
        if let Some(nanos) = quantity::nanos(amount).filter(|nanos| *nanos < 0) {
            // Go rounds it away from zero.
            let shown = (nanos - 999_999_999) / 1_000_000_000;
            causes.push(field::invalid_shown(&at, &shown.to_string(), "must be a valid resource quantity"));
        }
        claim::validate_positive(amount, &at, causes);
    }
}

/// Checks that a volume has exactly one source. Of several sources, only the first one is validated further.
fn validate_sources(spec: &Value, causes: &mut Causes) {
    let mut present = PERSISTENT_SOURCES.into_iter().filter(|source| has(spec, source));
    match present.next() {
        None => causes.push(field::required("spec", "must specify a volume type")),
        Some(first) => validate_source(first, spec, causes),
    }
    for source in present {
        let detail = "may not specify more than 1 volume type";
        causes.push(field::forbidden(&field::child("spec", source), detail));
    }
}

fn validate_source(name: &str, spec: &Value, causes: &mut Causes) {
    let (source, at) = (&spec[name], field::child("spec", name));
    match name {
        "hostPath" => volume_source::validate_host_path(source, &at, causes),
        "local" => volume_source::validate_local(source, &at, causes),
        "csi" => {
            csi::validate_driver_name(text(source, "driver"), &field::child(&at, "driver"), causes);
            if text(source, "volumeHandle").is_empty() {
                causes.push(field::required(&field::child(&at, "volumeHandle"), ""));
            }
            for name in CSI_SECRETS.iter().filter(|name| has(source, name)) {
                validate_secret(&source[*name], &field::child(&at, name), causes);
            }
        }
        _ => volume_vendors::validate(name, source, &at, true, causes),
    }
    if name == "local" && !has(spec, "nodeAffinity") {
        causes.push(field::required("spec.nodeAffinity", "Local volume requires node affinity"));
    }
}

/// Checks a reference to a Secret.
fn validate_secret(secret: &Value, at: &str, causes: &mut Causes) {
    for (member, errors) in
        [("name", names::subdomain_errors as fn(&str) -> Vec<String>), ("namespace", names::label_errors)]
    {
        let (value, path) = (text(secret, member), field::child(at, member));
        if value.is_empty() {
            causes.push(field::required(&path, ""));
        } else {
            push_invalid(causes, &path, value, errors(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn source_and_mode_of_a_persistent_volume_cannot_change() {
        let spec = |source: Value, mode: &str| {
            json!({
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "volumeMode": mode,
                "storageClassName": "c", "csi": source,
            })
        };
        let problems = |source: Value, mode: &str| -> Vec<String> {
            let old = json!({"spec": spec(json!({"driver": "d", "volumeHandle": "h"}), "Filesystem")});
            let mut causes = Causes::default();
            validate(&spec(source, mode), Some(&old), &mut causes);
            causes.iter().map(|cause| cause.field.clone()).collect()
        };
        let source = json!({"driver": "d", "volumeHandle": "h"});
        assert_eq!(problems(source.clone(), "Filesystem"), [""; 0]);
        let with_secret = json!({
            "driver": "d", "volumeHandle": "h", "controllerExpandSecretRef": {"name": "s", "namespace": "n"},
        });
        assert_eq!(problems(with_secret, "Filesystem"), [""; 0], "the secret can be set once");
        assert_eq!(
            problems(json!({"driver": "d", "volumeHandle": "i"}), "Block"),
            ["spec.persistentvolumesource", "volumeMode"]
        );
        let mut causes = Causes::default();
        let mut named = spec(source, "Filesystem");
        named["storageClassName"] = json!("A b");
        validate(&named, None, &mut causes);
        assert_eq!(causes.len(), 1);
    }
}
