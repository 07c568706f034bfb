// A controller that runs a Deployment for every Foo: the sample controller of the Kubernetes documentation, as a plugin in Go.
//
// A Foo names a Deployment and its number of replicas. The plugin creates the Deployment, reverts changes to it, recreates it when it
// is deleted, and reports the number of available replicas.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/reconcile"
)

// image is what every Deployment runs. Change it and build again: the new version of the plugin rolls it out to every Foo.
const image = "nginx:1.29"

// The names of the watches.
const foos = "foos"
const deployments = "deployments"

//go:embed crd.json
var crd []byte

func init() {
	sdk.Describe(describe)
	reconcile.Export(controller{})
}

func main() {}

func describe(sdk.Config) (sdk.Plugin, error) {
	return sdk.Plugin{
		Name:    "sample-controller-go",
		Version: "0.1.0",
		Summary: "Runs a Deployment for every Foo",
		CRDs:    []any{json.RawMessage(crd)},
		Watches: []sdk.Watch{
			// The predicate ignores changes of a Foo's status, which this plugin writes itself.
			{Name: foos, APIVersion: "samplecontroller.k8s.io/v1alpha1", Kind: "Foo", Trigger: sdk.Self(), Predicate: "generationChanged()"},
			{Name: deployments, APIVersion: "apps/v1", Kind: "Deployment", Trigger: sdk.Owner(foos)},
		},
		Writes: []sdk.WriteRule{
			sdk.Writes("apps", "deployments", "create", "update"),
			sdk.Writes("samplecontroller.k8s.io", "foos/status", "update"),
		},
	}, nil
}

type controller struct{}

// Reconcile brings the Deployment of one Foo to its desired state.
func (controller) Reconcile(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	object := ctx.Cache(foos).Get(req.Key)
	if object == nil || object.IsBeingDeleted() {
		return sdk.Result{}, nil // The garbage collector deletes its Deployment.
	}
	var foo Foo
	if err := object.Decode(&foo); err != nil {
		return sdk.Result{}, err
	}
	key := req.Key.Sibling(foo.Spec.DeploymentName)
	present := ctx.Cache(deployments).Get(key)
	if present != nil && !present.IsControlledBy(object) {
		note := fmt.Sprintf("Deployment %s already exists and is not managed by Foo %s", key, req.Key)
		ctx.Events().Warning(object, "ErrResourceExists", "Sync", note)
		return sdk.Result{}, fmt.Errorf("%s", note)
	}
	deployment := newDeployment(&foo, sdk.ControllerReference(object))
	change, err := sdk.CreateOrUpdate(ctx, present, deployment, func() error {
		setDesiredState(deployment, &foo)
		return nil
	})
	if err != nil {
		return sdk.Result{}, err
	}
	statusChanged, err := updateStatus(ctx, &foo, deployment)
	if err != nil {
		return sdk.Result{}, err
	}
	if change != sdk.WasUnchanged || statusChanged {
		slog.Info("synced", "deployment", key, "change", change)
		ctx.Events().Normal(object, "Synced", "Sync", "Foo synced successfully")
	}
	return sdk.Result{}, nil
}

// setDesiredState sets the fields that the Foo determines, and leaves the others as they are.
func setDesiredState(deployment *Deployment, foo *Foo) {
	if foo.Spec.Replicas != nil {
		deployment.Spec.Replicas = foo.Spec.Replicas
	}
	containers := deployment.Spec.Template.Spec.Containers
	for i := range containers {
		if containers[i].Name == "nginx" {
			containers[i].Image = image
		}
	}
}

// updateStatus updates the Foo's status if it differs, and returns whether it did.
func updateStatus(ctx *sdk.Context, foo *Foo, deployment *Deployment) (bool, error) {
	available := deployment.Status.AvailableReplicas
	if foo.Status != nil && foo.Status.AvailableReplicas == available {
		return false, nil
	}
	foo.Status = &FooStatus{AvailableReplicas: available}
	_, err := ctx.Client().UpdateStatus(foo)
	return true, err
}

func newDeployment(foo *Foo, owner sdk.OwnerReference) *Deployment {
	one := int32(1)
	labels := map[string]string{"app": "nginx", "controller": foo.Metadata.Name}
	deployment := &Deployment{
		TypeMeta: sdk.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		Metadata: sdk.ObjectMeta{
			Name: foo.Spec.DeploymentName, Namespace: foo.Metadata.Namespace, OwnerReferences: []sdk.OwnerReference{owner},
		},
		Spec: DeploymentSpec{Replicas: &one, Selector: Selector{MatchLabels: labels}},
	}
	deployment.Spec.Template.Metadata.Labels = labels
	deployment.Spec.Template.Spec.Containers = []Container{{Name: "nginx", Image: image}}
	return deployment
}
