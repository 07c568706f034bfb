"""Rolls a Deployment out when a ConfigMap that its Pods use has changed.

Pods read a ConfigMap when they start. The plugin puts a hash of all the ConfigMaps that a Deployment's Pod template refers to into an annotation of
that template; another hash is another template, and Kubernetes rolls it out. It concerns Deployments with the label
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
    predicate="generationChanged()",  # Not every status.
    indexes={"byConfigMap": index.computed()},
)
# A change of a ConfigMap is work for the Deployments that are found under its key.
configmaps = plugin.watch("configmaps", "v1", "ConfigMap", trigger=trigger.index(deployments, "byConfigMap"))
plugin.writes("apps", "deployments", "patch")


@plugin.index("byConfigMap")
def by_config_map(deployment: Object) -> list[str]:
    """The keys of the ConfigMaps that it uses."""
    return [str(deployment.key.sibling(name)) for name in references(deployment)]


@plugin.reconcile("deployments")
def reconcile(request: Request) -> None:
    deployment = deployments.get(request.key)
    if deployment is None or deployment.is_being_deleted:
        return
    names = references(deployment)
    wanted = hash_of(request, names) if names else None
    if deployment.text(POINTER) == wanted:
        return
    metadata = {"annotations": {ANNOTATION: wanted}}  # None takes it away.
    client.patch("apps/v1", "Deployment", request.key, {"spec": {"template": {"metadata": metadata}}})
    log.info("rolled out", configmaps=",".join(names), hash=wanted)
    note = f"Its ConfigMaps have changed: {', '.join(names)}" if names else "It uses no ConfigMap any more"
    events.normal(deployment, "ConfigMapsChanged", "RollOut", note)


def hash_of(request: Request, names: list[str]) -> str:
    """Of what the ConfigMaps hold, whatever their metadata. One that is not there counts too: when it comes, it is a change."""
    digest = hashlib.sha256()
    for name in names:
        found = configmaps.get(request.key.sibling(name))
        content = found and {part: found.field(f"/{part}") or {} for part in ("data", "binaryData")}
        digest.update(json.dumps([name, content], sort_keys=True).encode())
    return digest.hexdigest()[:16]


def references(deployment: Object) -> list[str]:
    """The names of the ConfigMaps that the Pod template refers to, in order."""
    return sorted(set(references_of(deployment.field("/spec/template/spec", {}))))


def references_of(pod: Manifest) -> Iterator[str]:
    """From environment and volumes; a projected volume has several sources."""
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
    """The name of a reference that may not be there."""
    if reference and reference.get("name"):
        yield reference["name"]
