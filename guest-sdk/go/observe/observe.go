// Package observe makes a plugin an observer, which receives every change. Importing it exports observe.observe.
package observe

import (
	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_observe"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/exports/observe"
	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/types"
)

type (
	notification  = pilothouse_controller_observe.Notification
	failure       = pilothouse_controller_types.Failure
	observeResult = types.Result[types.Unit, failure]
)

// Export registers the plugin's observer. Call it in init.
func Export(observer sdk.Observer) {
	export_pilothouse_controller_observe.Handler = func(received []notification, batch host.Batch) observeResult {
		ctx := sdk.NewContext()
		defer ctx.Close()
		return result(observer.Observe(ctx, notifications(ctx, received, batch)))
	}
}

func notifications(ctx *sdk.Context, received []notification, batch host.Batch) []sdk.Notification {
	all := make([]sdk.Notification, len(received))
	for i, one := range received {
		all[i] = sdk.NewNotification(ctx, sdk.Notification{Watch: one.Watch, Change: sdk.ChangeType(one.Change), Key: sdk.Key(one.Key),
			Initial: one.Initial, FinalStateUnknown: one.FinalStateUnknown}, batch, uint32(i))
	}
	return all
}

func result(err error) observeResult {
	switch {
	case err == nil:
		return types.Ok[types.Unit, failure](types.Unit{})
	case sdk.IsTerminal(err):
		return types.Err[types.Unit, failure](pilothouse_controller_types.MakeFailureTerminal(err.Error()))
	default:
		return types.Err[types.Unit, failure](pilothouse_controller_types.MakeFailureRetry(err.Error()))
	}
}
