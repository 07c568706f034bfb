// Package export_pilothouse_controller_index implements the export index.values. The generated bindings determine its name.
package export_pilothouse_controller_index

import (
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_objects"
	"pilothouse.dev/sdk/internal/exports"
	"pilothouse.dev/sdk/internal/host"
)

// Handler is set by index.Export. It takes the interface, because tests link it without the bindings, whose functions exist only in wasm.
var Handler func(index string, object host.Object) []string

// Values is called by the bindings.
func Values(index string, object *pilothouse_controller_objects.Object) []string {
	defer exports.End()
	defer object.Drop()
	if Handler == nil {
		panic("the plugin imports the package index but did not call index.Export; call it in an init function")
	}
	return Handler(index, object)
}
