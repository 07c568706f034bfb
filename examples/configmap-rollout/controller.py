"""Rolls out a Deployment when a ConfigMap changes that its Pods use.

Pods read a ConfigMap when they start. The plugin sets an annotation of the Pod template to a hash of all ConfigMaps that the template refers to.
A different hash changes the template, so Kubernetes rolls out the Deployment. The plugin handles Deployments with the label
`configmap-rollout: enabled`.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from pilothouse import Manifest, Object, Plugin, Request, client, events, index, log, trigger

ANNOTATION = "configmap-rollout.pilothouse.dev/hash"
POINTER = f"/spec/template/metadata/annotations/{ANNOTATION.replace('/', '~1')}"

plugin = Plugin("configmap-rollout", "0.1.0", summary="Rolls Deployments out when their ConfigMaps change")
deployments = plugin.watch(
    "deployments",
    "apps/v1",
    "Deployment",
    labels="configmap-rollout=enabled",
    trigger=trigger.ITSELF,
    predicate="generationChanged()",  # Ignores changes of the status.
    indexes={"byConfigMap": index.computed()},
)
# A change of a ConfigMap queues the Deployments that are listed under its key.
configmaps = plugin.watch("configmaps", "v1", "ConfigMap", trigger=trigger.index(deployments, "byConfigMap"))
plugin.writes("apps", "deployments", "patch")


@plugin.index("byConfigMap")
def by_config_map(deployment: Object) -> list[str]:
    """Returns the keys of the ConfigMaps that the Deployment uses."""
    return [str(deployment.key.sibling(name)) for name in references(deployment)]


@plugin.reconcile(deployments)
def reconcile(request: Request) -> None:
    deployment = deployments.get(request.key)
    if deployment is None or deployment.is_being_deleted:
        return
    names = references(deployment)
    desired = hash_of(request, names) if names else None
    if deployment.text(POINTER) == desired:
        return
    metadata = {"annotations": {ANNOTATION: desired}}  # None removes the annotation.
    client.patch("apps/v1", "Deployment", request.key, {"spec": {"template": {"metadata": metadata}}})
    log.info("rolled out", configmaps=",".join(names), hash=desired)
    note = f"ConfigMaps changed: {', '.join(names)}" if names else "The Deployment no longer uses ConfigMaps"
    events.normal(deployment, "ConfigMapsChanged", "RollOut", note)


def hash_of(request: Request, names: list[str]) -> str:
    """Returns a hash of the ConfigMaps' contents, without their metadata. A missing ConfigMap is part of it, so that its creation is a change."""
    digest = hashlib.sha256()
    for name in names:
        found = configmaps.get(request.key.sibling(name))
        content = found and {part: found.field(f"/{part}") or {} for part in ("data", "binaryData")}
        digest.update(json.dumps([name, content], sort_keys=True).encode())
    return digest.hexdigest()[:16]


def references(deployment: Object) -> list[str]:
    """Returns the names of the ConfigMaps that the Pod template refers to, sorted."""
    return sorted(set(references_of(deployment.field("/spec/template/spec", {}))))


def references_of(pod: Manifest) -> Iterator[str]:
    """Yields the names of the ConfigMaps in environment variables and volumes. A projected volume has several sources."""
    for container in pod.get("initContainers", []) + pod.get("containers", []):
        for variable in container.get("env", []):
            yield from name_in(variable.get("valueFrom", {}).get("configMapKeyRef"))
        for source in container.get("envFrom", []):
            yield from name_in(source.get("configMapRef"))
    for volume in pod.get("volumes", []):
        yield from name_in(volume.get("configMap"))
        for source in volume.get("projected", {}).get("sources", []):
            yield from name_in(source.get("configMap"))


def name_in(reference: dict[str, Any] | None) -> Iterator[str]:
    """Yields the name of an optional reference."""
    if reference and reference.get("name"):
        yield reference["name"]
