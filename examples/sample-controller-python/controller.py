"""A controller that runs a Deployment for every Foo: the sample controller of the Kubernetes documentation, as a plugin.

A Foo names a Deployment and its number of replicas. The plugin creates the Deployment, reverts changes to it, recreates it when it is
deleted, and reports the number of available replicas.
"""

from crd import FOO
from pilothouse import Manifest, Plugin, Request, Retry, client, events, log, trigger
from pilothouse.owner import controller_owner_ref, is_controlled_by

#: The image that every Deployment runs. Change it and build again: the new version of the plugin rolls it out to every Foo.
IMAGE = "nginx:1.29"

plugin = Plugin("sample-controller-python", "0.1.0", summary="Runs a Deployment for every Foo")
plugin.crd(FOO)
foos = plugin.watch(
    "foos",
    "samplecontroller.k8s.io/v1alpha1",
    "Foo",
    trigger=trigger.ITSELF,
    # Ignores changes of a Foo's status, which this plugin writes itself.
    predicate="generationChanged()",
)
deployments = plugin.watch("deployments", "apps/v1", "Deployment", trigger=trigger.owner(foos))
plugin.writes("apps", "deployments", "create", "update")
plugin.writes("samplecontroller.k8s.io", "foos/status", "update")


@plugin.reconcile(foos)
def reconcile(request: Request) -> None:
    found = foos.get(request.key)
    if found is None or found.is_being_deleted:
        return  # The garbage collector deletes its Deployment.
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
        mutate=lambda deployment: set_desired_state(deployment, foo),
    )
    status_changed = update_status(foo, deployment)
    if status_changed or change != client.Change.UNCHANGED:
        log.info("synced", deployment=key, change=change)
        events.normal(found, "Synced", "Sync", "Foo synced successfully")


def set_desired_state(deployment: Manifest, foo: Manifest) -> None:
    """Sets the fields that the Foo determines, and leaves the others as they are."""
    if "replicas" in foo["spec"]:
        deployment["spec"]["replicas"] = foo["spec"]["replicas"]
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        if container["name"] == "nginx":
            container["image"] = IMAGE


def update_status(foo: Manifest, deployment: Manifest) -> bool:
    """Updates the Foo's status if it differs, and returns whether it did."""
    available = deployment.get("status", {}).get("availableReplicas", 0)
    status = foo.get("status", {})
    if status.get("availableReplicas") == available:
        return False
    client.update_status({**foo, "status": {**status, "availableReplicas": available}})
    return True


def new_deployment(foo: Manifest) -> Manifest:
    """Returns the Deployment to create for a Foo."""
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
                "spec": {"containers": [{"name": "nginx", "image": IMAGE}]},
            },
        },
    }
