//! Corrects built-in schemas, which come from the types of Rust, to those that kube-apiserver publishes.
//!
//! In Rust, a field without `Option` is required, although Kubernetes has a default for it, and types have no defaults. Of the defaults, those
//! that say something are published. Clients that merge lists by keys need that of `protocol`.

use serde_json::{Map, Value};

/// Fields that kube-apiserver does not publish as required, by the name of their schema.
const OPTIONAL: [(&str, &str); 17] = [
    ("io.k8s.api.apps.v1.ControllerRevision", "data"),
    ("io.k8s.api.apps.v1.DaemonSet", "spec"),
    ("io.k8s.api.apps.v1.Deployment", "spec"),
    ("io.k8s.api.apps.v1.ReplicaSet", "spec"),
    ("io.k8s.api.apps.v1.StatefulSet", "spec"),
    ("io.k8s.api.core.v1.ConfigMapEnvSource", "name"),
    ("io.k8s.api.core.v1.ConfigMapKeySelector", "name"),
    ("io.k8s.api.core.v1.ConfigMapProjection", "name"),
    ("io.k8s.api.core.v1.ConfigMapVolumeSource", "name"),
    ("io.k8s.api.core.v1.SecretEnvSource", "name"),
    ("io.k8s.api.core.v1.SecretKeySelector", "name"),
    ("io.k8s.api.core.v1.SecretProjection", "name"),
    ("io.k8s.api.flowcontrol.v1.FlowSchema", "spec"),
    ("io.k8s.api.flowcontrol.v1.FlowSchemaCondition", "type"),
    ("io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration", "limitResponse"),
    ("io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration", "spec"),
    ("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition", "type"),
];

/// Fields that only kube-apiserver publishes as required.
const REQUIRED: [(&str, &str); 23] = [
    ("io.k8s.api.apps.v1.ControllerRevision", "revision"),
    ("io.k8s.api.apps.v1.DaemonSetCondition", "type"),
    ("io.k8s.api.apps.v1.DaemonSetCondition", "status"),
    ("io.k8s.api.apps.v1.DeploymentCondition", "type"),
    ("io.k8s.api.apps.v1.DeploymentCondition", "status"),
    ("io.k8s.api.apps.v1.ReplicaSetCondition", "type"),
    ("io.k8s.api.apps.v1.ReplicaSetCondition", "status"),
    ("io.k8s.api.apps.v1.StatefulSetCondition", "type"),
    ("io.k8s.api.apps.v1.StatefulSetCondition", "status"),
    ("io.k8s.api.batch.v1.PodFailurePolicy", "rules"),
    ("io.k8s.api.core.v1.Event", "metadata"),
    ("io.k8s.api.core.v1.HTTPHeader", "value"),
    ("io.k8s.api.core.v1.ISCSIPersistentVolumeSource", "lun"),
    ("io.k8s.api.core.v1.ISCSIVolumeSource", "lun"),
    ("io.k8s.api.core.v1.LimitRangeSpec", "limits"),
    ("io.k8s.api.core.v1.SleepAction", "seconds"),
    ("io.k8s.api.core.v1.Sysctl", "value"),
    ("io.k8s.api.events.v1.Event", "eventTime"),
    ("io.k8s.api.resource.v1.DeviceClass", "spec"),
    ("io.k8s.api.resource.v1.ResourceClaim", "spec"),
    ("io.k8s.api.resource.v1.ResourceClaimTemplate", "spec"),
    ("io.k8s.api.resource.v1.ResourceClaimTemplateSpec", "spec"),
    ("io.k8s.api.storage.v1.CSINodeSpec", "drivers"),
];

/// The defaults of fields.
const DEFAULTS: [(&str, &str, &str); 21] = [
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "cachingMode", "ReadWrite"),
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "fsType", "ext4"),
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "kind", "Shared"),
    ("io.k8s.api.core.v1.ContainerPort", "protocol", "TCP"),
    ("io.k8s.api.core.v1.ISCSIPersistentVolumeSource", "iscsiInterface", "default"),
    ("io.k8s.api.core.v1.ISCSIVolumeSource", "iscsiInterface", "default"),
    ("io.k8s.api.core.v1.LocalObjectReference", "name", ""),
    ("io.k8s.api.core.v1.RBDPersistentVolumeSource", "keyring", "/etc/ceph/keyring"),
    ("io.k8s.api.core.v1.RBDPersistentVolumeSource", "pool", "rbd"),
    ("io.k8s.api.core.v1.RBDPersistentVolumeSource", "user", "admin"),
    ("io.k8s.api.core.v1.RBDVolumeSource", "keyring", "/etc/ceph/keyring"),
    ("io.k8s.api.core.v1.RBDVolumeSource", "pool", "rbd"),
    ("io.k8s.api.core.v1.RBDVolumeSource", "user", "admin"),
    ("io.k8s.api.core.v1.ScaleIOPersistentVolumeSource", "fsType", "xfs"),
    ("io.k8s.api.core.v1.ScaleIOPersistentVolumeSource", "storageMode", "ThinProvisioned"),
    ("io.k8s.api.core.v1.ScaleIOVolumeSource", "fsType", "xfs"),
    ("io.k8s.api.core.v1.ScaleIOVolumeSource", "storageMode", "ThinProvisioned"),
    ("io.k8s.api.core.v1.ServicePort", "protocol", "TCP"),
    ("io.k8s.api.resource.v1.DeviceToleration", "operator", "Equal"),
    ("io.k8s.api.core.v1.ConfigMapKeySelector", "name", ""),
    ("io.k8s.api.core.v1.SecretKeySelector", "name", ""),
];

/// Changes the required fields of the built-in schema `name`, and adds defaults.
pub(super) fn correct(name: &str, schema: &mut Map<String, Value>) {
    for (_, field, default) in DEFAULTS.iter().filter(|(schema, ..)| *schema == name) {
        if let Some(property) = schema.get_mut("properties").and_then(|all| all.get_mut(*field)) {
            property["default"] = (*default).into();
        }
    }
    let mut fields: Vec<Value> =
        schema.remove("required").and_then(|list| list.as_array().cloned()).unwrap_or_default();
    fields.retain(|field| !OPTIONAL.iter().any(|(schema, optional)| *schema == name && field == optional));
    for (_, required) in REQUIRED.iter().filter(|(schema, _)| *schema == name) {
        if !fields.iter().any(|field| field == required) {
            fields.push((*required).into());
        }
    }
    if !fields.is_empty() {
        schema.insert("required".into(), fields.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::definitions;

    #[test]
    fn tables_name_fields_of_the_schemas() {
        let defaults = DEFAULTS.map(|(name, field, _)| (name, field));
        for (name, field) in OPTIONAL.iter().chain(&REQUIRED).chain(&defaults) {
            assert!(definitions().schemas[*name]["properties"].get(*field).is_some(), "{name}.{field}");
        }
    }

    #[test]
    fn required_fields_are_those_of_kubernetes() {
        let corrected = |name: &str| {
            let mut schema = definitions().schemas[name].as_object().expect("a schema").clone();
            correct(name, &mut schema);
            schema.get("required").cloned()
        };
        assert_eq!(corrected("io.k8s.api.core.v1.ConfigMapKeySelector"), Some(json!(["key"])));
        assert_eq!(corrected("io.k8s.api.apps.v1.Deployment"), None);
        assert_eq!(corrected("io.k8s.api.core.v1.ConfigMap"), None, "no list is empty");
        assert_eq!(corrected("io.k8s.api.core.v1.LimitRangeSpec"), Some(json!(["limits"])));
    }

    #[test]
    fn keys_of_lists_have_their_defaults() {
        let mut schema =
            definitions().schemas["io.k8s.api.core.v1.ServicePort"].as_object().expect("a schema").clone();
        correct("io.k8s.api.core.v1.ServicePort", &mut schema);
        assert_eq!(schema["properties"]["protocol"]["default"], "TCP");
    }
}
