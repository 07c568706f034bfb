// Package kit has what the cases in Go share.
package kit

import (
	"encoding/json"
	"errors"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/reconcile"
)

// APIVersion is that of the catalogue's custom resources.
const APIVersion = "catalogue.pilothouse.dev/v1"

// Group is the API group of the catalogue's custom resources.
const Group = "catalogue.pilothouse.dev"

// Case is a bug: what both twins declare, and how each of them reconciles.
type Case struct {
	Name         string
	Plugin       sdk.Plugin
	Wrong, Right sdk.ReconcilerFunc
}

// Describe returns the descriptor of one twin.
func (c Case) Describe(twin string) func(sdk.Config) (sdk.Plugin, error) {
	plugin := c.Plugin
	plugin.Name, plugin.Version = c.Name+"-"+twin, "0.1.0"
	return func(sdk.Config) (sdk.Plugin, error) { return plugin, nil }
}

// ExportWrong exports the twin with the bug as the plugin.
func (c Case) ExportWrong() {
	sdk.Describe(c.Describe("wrong"))
	reconcile.Export(c.Wrong)
}

// ExportRight exports the twin without the bug as the plugin.
func (c Case) ExportRight() {
	sdk.Describe(c.Describe("right"))
	reconcile.Export(c.Right)
}

// Own returns the type of a custom resource of the catalogue.
func Own(kind string) sdk.Type { return sdk.Type{APIVersion: APIVersion, Kind: kind} }

// StatefulSets is the type of StatefulSets.
var StatefulSets = sdk.Type{APIVersion: "apps/v1", Kind: "StatefulSet"}

// Definition returns a CustomResourceDefinition for the descriptor.
func Definition(text []byte) any { return json.RawMessage(text) }

// Live returns the object as the server has it now; nil if it does not exist.
func Live(ctx *sdk.Context, kind sdk.Type, key sdk.Key) (*sdk.Object, error) {
	object, err := ctx.Client().Get(kind, key)
	if errors.Is(err, sdk.ErrNotFound) {
		return nil, nil
	}
	return object, err
}

// Integer returns the integer at a JSON pointer; 0 if there is none.
func Integer(object *sdk.Object, pointer string) (int, error) {
	var value int
	_, err := object.DecodeField(pointer, &value)
	return value, err
}

// Map is a JSON object.
type Map = map[string]any

// StatefulSet returns the manifest of a StatefulSet that owner controls and that has the owner's name.
func StatefulSet(owner *sdk.Object, replicas int, annotations Map) Map {
	key := owner.Key()
	return Map{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": Map{"name": key.Name, "namespace": key.Namespace, "annotations": annotations,
			"ownerReferences": []sdk.OwnerReference{sdk.ControllerReference(owner)}},
		"spec": Map{
			"replicas": replicas, "serviceName": key.Name,
			"selector": Map{"matchLabels": Map{"app": key.Name}},
			"template": PodTemplate(key.Name, "example/app:1"),
		},
	}
}

// PodTemplate returns the template of a Pod with one container and the label app.
func PodTemplate(app, image string) Map {
	return Map{
		"metadata": Map{"labels": Map{"app": app}},
		"spec":     Map{"containers": []Map{{"name": "app", "image": image}}},
	}
}
