// What the fake API server knows about kinds: their names in URLs, their scope and their subresources.

const words = (text) => new Set(text.split(/\s+/));

const BUILT_IN_GROUPS = new Set([
  ...["", "apps", "autoscaling", "batch", "extensions", "policy"],
  ...[
    "admissionregistration apiextensions apiregistration authentication authorization certificates coordination discovery events",
    "flowcontrol.apiserver networking node rbac.authorization resource scheduling storage",
  ]
    .join(" ")
    .split(" ")
    .map((name) => `${name}.k8s.io`),
]);

const CLUSTER_SCOPED = words(
  `APIService CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding CustomResourceDefinition DeviceClass FlowSchema
   IngressClass MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass PriorityLevelConfiguration ResourceSlice
   RuntimeClass StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment`,
);

const WITH_STATUS = words(
  `APIService CertificateSigningRequest CronJob CustomResourceDefinition DaemonSet Deployment FlowSchema HorizontalPodAutoscaler Ingress
   Job Namespace Node PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget PriorityLevelConfiguration ReplicaSet
   ReplicationController ResourceClaim ResourceQuota Service StatefulSet ValidatingAdmissionPolicy VolumeAttachment`,
);

const WITH_GENERATION = words(
  `CSIDriver CronJob CustomResourceDefinition DaemonSet Deployment EndpointSlice FlowSchema Ingress IngressClass Job
   MutatingWebhookConfiguration NetworkPolicy Pod PodDisruptionBudget PodTemplate PriorityClass PriorityLevelConfiguration ReplicaSet
   ReplicationController StatefulSet ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration`,
);

/** Built-in kinds whose update needs a resource version. */
const CONDITIONAL_UPDATE = words("CustomResourceDefinition Lease PodDisruptionBudget");

/** The kinds that a subresource is posted to when the manifest has another kind. */
const PARENTS = { eviction: "Pod", binding: "Pod", token: "ServiceAccount" };

/**
 * Returns what is known about a kind, from the plugin's CRDs and the built-in kinds. `namespaced` is undefined for the kind of a CRD that the
 * plugin does not bring.
 */
export function kindOf(crds, { apiVersion, kind }) {
  const slash = apiVersion.lastIndexOf("/");
  const [group, version] = [apiVersion.slice(0, Math.max(slash, 0)), apiVersion.slice(slash + 1)];
  const spec = crds.map((crd) => crd.spec).find((one) => one.group === group && one.names.kind === kind);
  if (spec !== undefined) {
    const served = spec.versions.find(({ name }) => name === version);
    const hasStatus = served?.subresources?.status !== undefined;
    const namespaced = spec.scope === "Namespaced";
    return { group, plural: spec.names.plural, namespaced, hasStatus, hasGeneration: true, needsVersion: true };
  }
  if (!BUILT_IN_GROUPS.has(group)) {
    return { group, plural: pluralOf(kind), namespaced: undefined, hasStatus: true, hasGeneration: true, needsVersion: true };
  }
  return {
    group,
    plural: pluralOf(kind),
    namespaced: !CLUSTER_SCOPED.has(kind),
    hasStatus: WITH_STATUS.has(kind),
    hasGeneration: WITH_GENERATION.has(kind),
    needsVersion: CONDITIONAL_UPDATE.has(kind),
  };
}

/** Returns the type that a create request for a subresource is sent to. */
export function parentOf(type, subresource) {
  return PARENTS[subresource] === undefined ? type : { apiVersion: "v1", kind: PARENTS[subresource] };
}

function pluralOf(kind) {
  const lower = kind.toLowerCase();
  if (lower === "endpoints") return lower;
  if (/(s|x|ch)$/.test(lower)) return `${lower}es`;
  return lower.endsWith("y") && !/[aeiou]y$/.test(lower) ? `${lower.slice(0, -1)}ies` : `${lower}s`;
}
