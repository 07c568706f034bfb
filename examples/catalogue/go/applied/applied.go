// Package applied is case 14: a partial apply that is never finished.
//
// The plugin applies three children of an App, and notes a hash of the App's spec on it, so that it need not apply them again. The wrong twin
// notes the hash before the last child. If that apply fails, or the process ends before it, the child is missing for ever.
//
// Sources: https://github.com/kubernetes-sigs/kro/issues/1170, https://github.com/kubernetes-sigs/kro/issues/1171,
// https://github.com/kcp-dev/kcp/issues/3926, fixed by https://github.com/kcp-dev/kcp/pull/4004. The mechanism is modelled, not copied.
package applied

import (
	_ "embed"
	"fmt"
	"hash/fnv"

	"pilothouse.dev/examples/catalogue/kit"
	"pilothouse.dev/sdk"
)

const (
	apps        = "apps"
	configMaps  = "configmaps"
	deployments = "deployments"
	services    = "services"
	// hash is the annotation with the hash of what was applied: in the wrong twin on the App, in the right one on each child.
	hash = "catalogue.pilothouse.dev/hash"
)

//go:embed app.json
var definition []byte

// Case has both twins.
var Case = kit.Case{
	Name: "partial-apply",
	Plugin: sdk.Plugin{
		CRDs: []any{kit.Definition(definition)},
		Watches: []sdk.Watch{
			{Name: apps, APIVersion: kit.APIVersion, Kind: "App", Trigger: sdk.Self()},
			{Name: configMaps, APIVersion: "v1", Kind: "ConfigMap", Projection: sdk.Metadata, Trigger: sdk.Owner(apps)},
			{Name: deployments, APIVersion: "apps/v1", Kind: "Deployment", Projection: sdk.Metadata, Trigger: sdk.Owner(apps)},
			{Name: services, APIVersion: "v1", Kind: "Service", Projection: sdk.Metadata, Trigger: sdk.Owner(apps)},
		},
		Writes: []sdk.WriteRule{
			sdk.Writes(kit.Group, "apps", "patch"),
			sdk.Writes("", "configmaps", "create", "patch"),
			sdk.Writes("", "services", "create", "patch"),
			sdk.Writes("apps", "deployments", "create", "patch"),
		},
	},
	Wrong: wrong,
	Right: right,
}

func wrong(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	app := ctx.Cache(apps).Get(req.Key)
	if app == nil || app.IsBeingDeleted() {
		return sdk.Result{}, nil
	}
	wanted := hashOf(app)
	if noted, _ := app.Annotation(hash); noted == wanted {
		return sdk.Result{}, nil
	}
	all := children(app, wanted)
	for i, child := range all {
		if i == len(all)-1 {
			note := kit.Map{"metadata": kit.Map{"annotations": kit.Map{hash: wanted}}}
			if _, err := ctx.Client().Patch(app.Type(), req.Key, sdk.MergePatch(note)); err != nil {
				return sdk.Result{}, err
			}
		}
		if _, err := ctx.Client().Apply(child.manifest, sdk.Force()); err != nil {
			return sdk.Result{}, err
		}
	}
	return sdk.Result{}, nil
}

func right(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	app := ctx.Cache(apps).Get(req.Key)
	if app == nil || app.IsBeingDeleted() {
		return sdk.Result{}, nil
	}
	wanted := hashOf(app)
	for _, child := range children(app, wanted) {
		// The hash is written together with the child, so that there is no moment between the two.
		present := ctx.Cache(child.watch).Get(req.Key)
		if present != nil && present.IsControlledBy(app) {
			if noted, _ := present.Annotation(hash); noted == wanted {
				continue
			}
		}
		if _, err := ctx.Client().Apply(child.manifest, sdk.Force()); err != nil {
			return sdk.Result{}, err
		}
	}
	return sdk.Result{}, nil
}

func image(app *sdk.Object) string {
	text, _ := app.Text("/spec/image")
	return text
}

func hashOf(app *sdk.Object) string {
	sum := fnv.New64a()
	sum.Write([]byte(image(app)))
	return fmt.Sprintf("%016x", sum.Sum64())
}

type child struct {
	watch    string
	manifest kit.Map
}

// children returns the objects of an App in the order in which they are applied.
func children(app *sdk.Object, wanted string) []child {
	name := app.Key().Name
	manifest := func(apiVersion, kind, member string, value any) kit.Map {
		return kit.Map{
			"apiVersion": apiVersion, "kind": kind, member: value,
			"metadata": kit.Map{"name": name, "namespace": app.Key().Namespace, "annotations": kit.Map{hash: wanted},
				"ownerReferences": []sdk.OwnerReference{sdk.ControllerReference(app)}},
		}
	}
	return []child{
		{configMaps, manifest("v1", "ConfigMap", "data", kit.Map{"image": image(app)})},
		{deployments, manifest("apps/v1", "Deployment", "spec", kit.Map{
			"replicas": 1, "selector": kit.Map{"matchLabels": kit.Map{"app": name}}, "template": kit.PodTemplate(name, image(app))})},
		{services, manifest("v1", "Service", "spec", kit.Map{
			"selector": kit.Map{"app": name}, "ports": []kit.Map{{"port": 80, "protocol": "TCP"}}})},
	}
}
