// Package export_pilothouse_controller_plugin implements the export plugin.describe. The generated bindings determine its name.
package export_pilothouse_controller_plugin

import (
	"pilothouse.dev/sdk/internal/exports"
	"pilothouse.dev/sdk/internal/wit/types"
)

// Handler is set by sdk.Describe.
var Handler func(config string) (string, error)

// Describe is called by the bindings.
func Describe(config string) types.Result[string, string] {
	defer exports.End()
	if Handler == nil {
		return types.Err[string, string]("the plugin did not call sdk.Describe; call it in an init function")
	}
	document, err := Handler(config)
	if err != nil {
		return types.Err[string, string](err.Error())
	}
	return types.Ok[string, string](document)
}
