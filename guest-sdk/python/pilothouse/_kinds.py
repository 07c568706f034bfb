"""What the fake API server knows about kinds: their names in URLs, their scope and their subresources."""

from __future__ import annotations

from typing import Any, NamedTuple

_BUILT_IN_GROUPS = frozenset(
    ["", "apps", "autoscaling", "batch", "extensions", "policy"]
    + [
        f"{name}.k8s.io"
        for name in (
            "admissionregistration apiextensions apiregistration authentication authorization certificates coordination discovery events "
            "flowcontrol.apiserver networking node rbac.authorization resource scheduling storage"
        ).split()
    ]
)

_CLUSTER_SCOPED = frozenset(
    "APIService CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding CustomResourceDefinition DeviceClass FlowSchema "
    "IngressClass MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass PriorityLevelConfiguration ResourceSlice "
    "RuntimeClass StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration "
    "VolumeAttachment".split()
)

_WITH_STATUS = frozenset(
    "APIService CertificateSigningRequest CronJob CustomResourceDefinition DaemonSet Deployment FlowSchema HorizontalPodAutoscaler Ingress "
    "Job Namespace Node PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget PriorityLevelConfiguration ReplicaSet "
    "ReplicationController ResourceClaim ResourceQuota Service StatefulSet ValidatingAdmissionPolicy VolumeAttachment".split()
)

_WITH_GENERATION = frozenset(
    "CSIDriver CronJob CustomResourceDefinition DaemonSet Deployment EndpointSlice FlowSchema Ingress IngressClass Job "
    "MutatingWebhookConfiguration NetworkPolicy Pod PodDisruptionBudget PodTemplate PriorityClass PriorityLevelConfiguration ReplicaSet "
    "ReplicationController StatefulSet ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration".split()
)

#: Built-in kinds whose update needs a resource version.
_CONDITIONAL_UPDATE = frozenset("CustomResourceDefinition Lease PodDisruptionBudget".split())

#: The resources that a subresource is posted to when the manifest has another kind.
_PARENTS = {"eviction": "Pod", "binding": "Pod", "token": "ServiceAccount"}


class Kind(NamedTuple):
    """A kind in one API group."""

    group: str
    plural: str
    #: None when the scope is not known: the kind of a CRD that the plugin does not bring.
    namespaced: bool | None
    has_status: bool
    #: Whether `metadata.generation` counts changes of the spec.
    has_generation: bool
    #: Whether an update without a resource version is refused.
    needs_version: bool


def kind_of(crds: list[dict[str, Any]], api_version: str, kind: str) -> Kind:
    """Returns what is known about a kind, from the plugin's CRDs and the built-in kinds."""
    group, _, version = api_version.rpartition("/")
    for crd in crds:
        spec = crd["spec"]
        if spec["group"] == group and spec["names"]["kind"] == kind:
            served = next((one for one in spec["versions"] if one["name"] == version), {})
            has_status = "status" in (served.get("subresources") or {})
            return Kind(group, spec["names"]["plural"], spec["scope"] == "Namespaced", has_status, True, True)
    if group not in _BUILT_IN_GROUPS:
        return Kind(group, plural(kind), None, True, True, True)
    return Kind(
        group,
        plural(kind),
        kind not in _CLUSTER_SCOPED,
        kind in _WITH_STATUS,
        kind in _WITH_GENERATION,
        kind in _CONDITIONAL_UPDATE,
    )


def parent_of(api_version: str, kind: str, subresource: str) -> tuple[str, str]:
    """Returns the API version and kind that a create request for a subresource is sent to."""
    return ("v1", _PARENTS[subresource]) if subresource in _PARENTS else (api_version, kind)


def plural(kind: str) -> str:
    """Returns the resource name of a kind."""
    lower = kind.lower()
    if lower == "endpoints":
        return lower
    if lower.endswith("y") and not lower.endswith(("ay", "ey", "iy", "oy", "uy")):
        return lower[:-1] + "ies"
    return lower + ("es" if lower.endswith(("s", "x", "ch")) else "s")
