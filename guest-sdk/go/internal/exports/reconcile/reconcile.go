// Package export_pilothouse_controller_reconcile implements the export reconcile.reconcile. The generated bindings determine the package's name.
package export_pilothouse_controller_reconcile

import (
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/exports"
	"pilothouse.dev/sdk/internal/wit/types"
)

type (
	request = pilothouse_controller_types.Request
	outcome = pilothouse_controller_types.Outcome
	failure = pilothouse_controller_types.Failure
)

// Handler is set by reconcile.Export.
var Handler func(request) types.Result[outcome, failure]

// Reconcile is called by the bindings.
func Reconcile(req request) types.Result[outcome, failure] {
	defer exports.End()
	if Handler == nil {
		const text = "the plugin imports the package reconcile but did not call reconcile.Export; call it in an init function"
		return types.Err[outcome, failure](pilothouse_controller_types.MakeFailureTerminal(text))
	}
	return Handler(req)
}
