"""For every Foo, a Deployment."""

from crd import FOO
from pilothouse import Manifest, Plugin, Request, Retry, client, events, log, trigger
from pilothouse.owner import controller_owner_ref, is_controlled_by

plugin = Plugin("{{name}}", "0.1.0", summary="Runs a Deployment for every Foo")
plugin.crd(FOO)
foos = plugin.watch(
    "foos",
    "samplecontroller.k8s.io/v1alpha1",
    "Foo",
    trigger=trigger.ITSELF,
    # A Foo's own status, which this plugin writes, is no news to it.
    predicate="generationChanged()",
)
deployments = plugin.watch("deployments", "apps/v1", "Deployment", trigger=trigger.owner(foos))
plugin.writes("apps", "deployments", "create", "update")
plugin.writes("samplecontroller.k8s.io", "foos/status", "update")


@plugin.reconcile("foos")
def reconcile(request: Request) -> None:
    found = foos.get(request.key)
    if found is None or found.is_being_deleted:
        return  # Its Deployment goes with it, by the owner reference.
    foo = found.json()
    key = request.key.sibling(foo["spec"]["deploymentName"])
    present = deployments.get(key)
    if present and not is_controlled_by(present, foo):
        note = f"Deployment {key} already exists and is not managed by Foo {request.key}"
        events.warning(found, "ErrResourceExists", "Sync", note)
        raise Retry(note)
    deployment, change = client.create_or_update(
        present,
        absent=lambda: new_deployment(foo),
        mutate=lambda deployment: repair(deployment, foo),
    )
    if change != client.Change.UNCHANGED:
        log.info(f"Deployment {key}: {change}")
    report(foo, deployment)


def repair(deployment: Manifest, foo: Manifest) -> None:
    """Brings what the Foo decides to what it says, and leaves the rest to others."""
    if "replicas" in foo["spec"]:
        deployment["spec"]["replicas"] = foo["spec"]["replicas"]


def report(foo: Manifest, deployment: Manifest) -> None:
    """Writes the status when it differs."""
    available = deployment.get("status", {}).get("availableReplicas", 0)
    status = foo.get("status", {})
    if status.get("availableReplicas") != available:
        client.update_status({**foo, "status": {**status, "availableReplicas": available}})


def new_deployment(foo: Manifest) -> Manifest:
    """What a Foo without a Deployment gets."""
    metadata = foo["metadata"]
    labels = {"app": "nginx", "controller": metadata["name"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": foo["spec"]["deploymentName"],
            "namespace": metadata["namespace"],
            "ownerReferences": [controller_owner_ref(foo)],
        },
        "spec": {
            "replicas": foo["spec"].get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:1.29"}]},
            },
        },
    }
