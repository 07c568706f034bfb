//! Which fields of a built-in kind exist in Go even if an object lacks them: structs that are not behind a pointer, and lists that are written
//! when they are empty. A manager does not own such a struct or list for adding something to it.

use serde_json::Value;

use crate::schema::SchemaRef;

/// The fields that Go has behind a pointer, so that they are absent from a zero value (`k8s.io/api`). Fields of list items and within other
/// pointers need not be listed.
const POINTERS: [&str; 59] = [
    "affinity",
    "appArmorProfile",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "behavior",
    "cephfs",
    "cinder",
    "claimRef",
    "clientIP",
    "configSource",
    "controllerExpandSecretRef",
    "conversion",
    "csi",
    "dataSource",
    "dataSourceRef",
    "defaultBackend",
    "dnsConfig",
    "eviction",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "http",
    "iscsi",
    "local",
    "matchConstraints",
    "matchResources",
    "nfs",
    "nodeAffinity",
    "nodePublishSecretRef",
    "nodeStageSecretRef",
    "nonResourceAttributes",
    "ordinals",
    "os",
    "paramKind",
    "paramRef",
    "parameters",
    "persistentVolumeClaimRetentionPolicy",
    "photonPersistentDisk",
    "podFailurePolicy",
    "portworxVolume",
    "quobyte",
    "rbd",
    "related",
    "resourceAttributes",
    "rollingUpdate",
    "scaleDown",
    "scaleIO",
    "scaleUp",
    "securityContext",
    "series",
    "sessionAffinityConfig",
    "storageos",
    "successPolicy",
    "uncountedTerminatedPods",
    "vsphereVolume",
];

/// Fields that are pointers in these structs only. In other structs, a field of the same name is a value.
const POINTERS_OF: [(&str, &str); 7] = [
    ("io.k8s.api.core.v1.ReplicationControllerSpec", "template"),
    ("io.k8s.api.core.v1.PodSpec", "resources"),
    ("io.k8s.api.flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod"),
    ("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec", "exempt"),
    ("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec", "limited"),
    ("io.k8s.api.resource.v1.ResourceClaimStatus", "allocation"),
    ("io.k8s.api.resource.v1.ResourceSliceSpec", "nodeSelector"),
];

/// Lists that are not required and yet written when they are empty.
const WRITTEN_LISTS: [(&str, &str); 2] =
    [("io.k8s.api.core.v1.LimitRangeSpec", "limits"), ("io.k8s.api.storage.v1.CSINodeSpec", "drivers")];

/// The list that is required and yet left out when it is empty.
const OMITTED_LIST: &str = "validationActions";

/// Returns whether a field exists in the zero value of the struct around it.
pub(super) fn exists(parent: Option<SchemaRef<'_>>, name: &str, child: Option<SchemaRef<'_>>) -> bool {
    let definition =
        |schema: Option<SchemaRef<'_>>| schema.and_then(|schema| schema.node().definition.clone());
    let Some(around) = definition(parent) else { return false };
    if definition(child).is_some() {
        return !POINTERS.contains(&name) && !POINTERS_OF.contains(&(around.as_ref(), name));
    }
    let is_required =
        || parent.is_some_and(|parent| parent.node().required.iter().any(|other| other == name));
    WRITTEN_LISTS.contains(&(around.as_ref(), name)) || (name != OMITTED_LIST && is_required())
}

/// Returns whether the value of a field of an existing struct is the one that Go writes for an absent field.
pub(super) fn is_zero(parent: Option<SchemaRef<'_>>, name: &str, value: Option<&Value>) -> bool {
    if parent.is_none_or(|parent| parent.node().definition.is_none()) {
        return false;
    }
    match value {
        Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Object(members)) => {
            members.is_empty() && exists(parent, name, parent.and_then(|parent| parent.field(name)))
        }
        _ => false,
    }
}
