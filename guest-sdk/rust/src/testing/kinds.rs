//! What the fake API server knows about kinds: their names in URLs, their scope and their subresources.

use serde_json::Value;

/// A kind in one API group.
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) scope: Scope,
    pub(super) has_status: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub(super) has_generation: bool,
    /// Whether an update without a resource version is refused.
    pub(super) needs_version: bool,
}

/// Whether the objects of a kind are in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Namespaced,
    Cluster,
    /// The kind of a CRD that the plugin does not bring.
    Unknown,
}

const BUILT_IN_GROUPS: &[&str] = &[
    "",
    "apps",
    "autoscaling",
    "batch",
    "extensions",
    "policy",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

const CLUSTER_SCOPED: &str = "APIService CSIDriver CSINode CertificateSigningRequest ClusterRole \
    ClusterRoleBinding CustomResourceDefinition DeviceClass FlowSchema IngressClass \
    MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass PriorityLevelConfiguration \
    ResourceSlice RuntimeClass StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding \
    ValidatingWebhookConfiguration VolumeAttachment";

const WITH_STATUS: &str = "APIService CertificateSigningRequest CronJob CustomResourceDefinition DaemonSet \
    Deployment FlowSchema HorizontalPodAutoscaler Ingress Job Namespace Node PersistentVolume \
    PersistentVolumeClaim Pod PodDisruptionBudget PriorityLevelConfiguration ReplicaSet \
    ReplicationController ResourceClaim ResourceQuota Service StatefulSet ValidatingAdmissionPolicy \
    VolumeAttachment";

const WITH_GENERATION: &str = "CSIDriver CronJob CustomResourceDefinition DaemonSet Deployment EndpointSlice \
    FlowSchema Ingress IngressClass Job MutatingWebhookConfiguration NetworkPolicy Pod PodDisruptionBudget \
    PodTemplate PriorityClass PriorityLevelConfiguration ReplicaSet ReplicationController StatefulSet \
    ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration";

/// Built-in kinds whose update needs a resource version.
const CONDITIONAL_UPDATE: &str = "CustomResourceDefinition Lease PodDisruptionBudget";

fn is_listed(list: &str, kind: &str) -> bool {
    list.split_ascii_whitespace().any(|word| word == kind)
}

impl Kind {
    /// Returns what is known about a kind, from the plugin's CRDs and the built-in kinds.
    pub(super) fn of(crds: &[Value], api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let spec = crds
            .iter()
            .map(|crd| &crd["spec"])
            .find(|spec| spec["group"] == group && spec["names"]["kind"] == kind);
        if let Some(spec) = spec {
            let versions = spec["versions"].as_array().into_iter().flatten();
            return Self {
                group: group.to_owned(),
                plural: spec["names"]["plural"].as_str().unwrap_or_default().to_owned(),
                scope: if spec["scope"] == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
                has_status: versions
                    .filter(|served| served["name"] == version)
                    .any(|served| served["subresources"].get("status").is_some()),
                has_generation: true,
                needs_version: true,
            };
        }
        let is_built_in = BUILT_IN_GROUPS.contains(&group);
        Self {
            group: group.to_owned(),
            plural: plural(kind),
            scope: match (is_built_in, is_listed(CLUSTER_SCOPED, kind)) {
                (false, _) => Scope::Unknown,
                (true, true) => Scope::Cluster,
                (true, false) => Scope::Namespaced,
            },
            has_status: !is_built_in || is_listed(WITH_STATUS, kind),
            has_generation: !is_built_in || is_listed(WITH_GENERATION, kind),
            needs_version: !is_built_in || is_listed(CONDITIONAL_UPDATE, kind),
        }
    }

    /// Returns the resource's name as in error messages: `deployments.apps`.
    pub(super) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// Returns the API version and kind that a create request for a subresource is sent to, if they differ from the manifest's.
pub(super) fn parent(subresource: &str) -> Option<(&'static str, &'static str)> {
    match subresource {
        "eviction" | "binding" => Some(("v1", "Pod")),
        "token" => Some(("v1", "ServiceAccount")),
        _ => None,
    }
}

fn plural(kind: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    if lower == "endpoints" {
        return lower;
    }
    match lower.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if lower.ends_with(['s', 'x']) || lower.ends_with("ch") => format!("{lower}es"),
        _ => format!("{lower}s"),
    }
}
