// Package export_pilothouse_controller_observe implements the export observe.observe. The generated bindings determine its name.
package export_pilothouse_controller_observe

import (
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_changes"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_observe"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/exports"
	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/types"
)

type (
	notification = pilothouse_controller_observe.Notification
	failure      = pilothouse_controller_types.Failure
	answer       = types.Result[types.Unit, failure]
)

// Handler is set by observe.Export. It takes the interface, because tests link it without the bindings, whose functions exist only in wasm.
var Handler func([]notification, host.Batch) answer

// Observe is called by the bindings.
func Observe(notifications []notification, batch *pilothouse_controller_changes.Batch) answer {
	defer exports.End()
	defer batch.Drop()
	if Handler == nil {
		const text = "the plugin imports the package observe but did not call observe.Export; call it in an init function"
		return types.Err[types.Unit, failure](pilothouse_controller_types.MakeFailureTerminal(text))
	}
	return Handler(notifications, host.WrapBatch(batch))
}
