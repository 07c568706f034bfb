// A controller for Pilothouse.
package main

import (
	"log/slog"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/reconcile"
)

// The name of the watch.
const configMaps = "configmaps"

func init() {
	sdk.Describe(describe)
	reconcile.Export(controller{})
}

func main() {}

func describe(sdk.Config) (sdk.Plugin, error) {
	return sdk.Plugin{
		Name: "{{name}}", Version: "0.1.0",
		Watches: []sdk.Watch{{Name: configMaps, APIVersion: "v1", Kind: "ConfigMap", Trigger: sdk.Self()}},
	}, nil
}

type controller struct{}

// Reconcile brings one object to its desired state.
func (controller) Reconcile(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	if ctx.Cache(configMaps).Get(req.Key) != nil {
		slog.Info("hello, " + req.Key.String())
	}
	return sdk.Result{}, nil
}
