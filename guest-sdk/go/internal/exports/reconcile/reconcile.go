// Package export_pilothouse_controller_reconcile is what the bindings of reconcile.reconcile call, by the name that they give it.
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

// Reconcile answers the host.
func Reconcile(work request) types.Result[outcome, failure] {
	defer exports.End()
	if Handler == nil {
		const text = "the plugin imports the package reconcile and calls no reconcile.Export in an init function"
		return types.Err[outcome, failure](pilothouse_controller_types.MakeFailureTerminal(text))
	}
	return Handler(work)
}
