// For every Foo, a Deployment.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/reconcile"
)

//go:embed crd.json
var crd []byte

func init() {
	sdk.Describe(describe)
	reconcile.Export(controller{})
}

func main() {}

func describe(sdk.Config) (sdk.Plugin, error) {
	return sdk.Plugin{
		Name:    "{{name}}",
		Version: "0.1.0",
		Summary: "Runs a Deployment for every Foo",
		CRDs:    []any{json.RawMessage(crd)},
		Watches: []sdk.Watch{
			// A Foo's own status, which this plugin writes, is no news to it.
			{Name: "foos", APIVersion: "samplecontroller.k8s.io/v1alpha1", Kind: "Foo", Trigger: sdk.Self(), Predicate: "generationChanged()"},
			{Name: "deployments", APIVersion: "apps/v1", Kind: "Deployment", Trigger: sdk.Owner("foos")},
		},
		Writes: []sdk.WriteRule{
			sdk.Writes("apps", "deployments", "create", "update"),
			sdk.Writes("samplecontroller.k8s.io", "foos/status", "update"),
		},
	}, nil
}

type controller struct{}

// Reconcile brings the Deployment of one Foo to what the Foo says.
func (controller) Reconcile(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	object := ctx.Cache("foos").Get(req.Key)
	if object == nil || object.IsBeingDeleted() {
		return sdk.Result{}, nil // Its Deployment goes with it, by the owner reference.
	}
	var foo Foo
	if err := object.Decode(&foo); err != nil {
		return sdk.Result{}, err
	}
	key := req.Key.Sibling(foo.Spec.DeploymentName)
	present := ctx.Cache("deployments").Get(key)
	if present != nil && !present.IsControlledBy(object) {
		note := fmt.Sprintf("Deployment %s already exists and is not managed by Foo %s", key, req.Key)
		ctx.Events().Warning(object, "ErrResourceExists", "Sync", note)
		return sdk.Result{}, fmt.Errorf("%s", note)
	}
	deployment := newDeployment(&foo, sdk.ControllerReference(object))
	change, err := sdk.CreateOrUpdate(ctx, present, deployment, func() error {
		repair(deployment, &foo)
		return nil
	})
	if err != nil {
		return sdk.Result{}, err
	}
	if change != sdk.WasUnchanged {
		slog.Info("Deployment "+string(change), "deployment", key)
	}
	return sdk.Result{}, report(ctx, &foo, deployment)
}

// repair brings what the Foo decides to what it says, and leaves the rest to others.
func repair(deployment *Deployment, foo *Foo) {
	if foo.Spec.Replicas != nil {
		deployment.Spec.Replicas = foo.Spec.Replicas
	}
}

// report writes the status when it differs.
func report(ctx *sdk.Context, foo *Foo, deployment *Deployment) error {
	available := deployment.Status.AvailableReplicas
	if foo.Status != nil && foo.Status.AvailableReplicas == available {
		return nil
	}
	foo.Status = &FooStatus{AvailableReplicas: available}
	_, err := ctx.Client().UpdateStatus(foo)
	return err
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
	deployment.Spec.Template.Spec.Containers = []Container{{Name: "nginx", Image: "nginx:1.29"}}
	return deployment
}
