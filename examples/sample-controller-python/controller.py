"""Foo → Deployment: the controller that Kubernetes' own documentation teaches with, as a plugin.

A Foo names a Deployment and says how many replicas it has. The plugin creates that Deployment, repairs it when somebody changes it, creates it
again when somebody deletes it, and reports how many replicas are available.
"""

from crd import FOO
from pilothouse import Manifest, Plugin, Request, Retry, client, events, log, trigger
from pilothouse.owner import controller_owner_ref, is_controlled_by

#: What every Deployment runs. Try it: change this line, build again, and watch the new version of the plugin roll it out to every Foo.
IMAGE = "nginx:1.29"

plugin = Plugin("sample-controller-python", "0.1.0", summary="Runs a Deployment for every Foo")
plugin.crd(FOO)
foos = plugin.watch("foos", "samplecontroller.k8s.io/v1alpha1", "Foo", trigger=trigger.ITSELF)
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
    reported = report(foo, deployment)
    if reported or change != client.Change.UNCHANGED:
        log.info("synced", deployment=key, change=change)
        events.normal(found, "Synced", "Sync", "Foo synced successfully")


def repair(deployment: Manifest, foo: Manifest) -> None:
    """Brings what the Foo decides to what it says, and leaves the rest to others."""
    if "replicas" in foo["spec"]:
        deployment["spec"]["replicas"] = foo["spec"]["replicas"]
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        if container["name"] == "nginx":
            container["image"] = IMAGE


def report(foo: Manifest, deployment: Manifest) -> bool:
    """Writes the status when it differs, and says whether it did."""
    available = deployment.get("status", {}).get("availableReplicas", 0)
    status = foo.get("status", {})
    if status.get("availableReplicas") == available:
        return False
    client.update_status({**foo, "status": {**status, "availableReplicas": available}})
    return True


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
                "spec": {"containers": [{"name": "nginx", "image": IMAGE}]},
            },
        },
    }
