// Package reconcile makes a plugin a reconciler, which receives one work item per object. Importing it exports reconcile.reconcile.
package reconcile

import (
	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/exports/reconcile"
	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/types"
)

type (
	outcome = pilothouse_controller_types.Outcome
	failure = pilothouse_controller_types.Failure
)

// Export registers the plugin's reconciler. Call it in init.
func Export(reconciler sdk.Reconciler) {
	export_pilothouse_controller_reconcile.Handler = func(work pilothouse_controller_types.Request) types.Result[outcome, failure] {
		ctx := sdk.NewContext()
		defer ctx.Close()
		return answer(reconciler.Reconcile(ctx, request(work)))
	}
}

func request(work pilothouse_controller_types.Request) sdk.Request {
	request := sdk.Request{Watch: work.Watch, Key: sdk.Key(work.Key), Attempt: int(work.Attempt), Extra: map[string]string{}}
	for _, reason := range work.Reasons {
		request.Reasons = append(request.Reasons, sdk.Reason(reason))
	}
	for _, pair := range work.Extra {
		request.Extra[pair.Key] = pair.Value
	}
	return request
}

func answer(result sdk.Result, err error) types.Result[outcome, failure] {
	switch {
	case err != nil && sdk.IsTerminal(err):
		return types.Err[outcome, failure](pilothouse_controller_types.MakeFailureTerminal(err.Error()))
	case err != nil:
		return types.Err[outcome, failure](pilothouse_controller_types.MakeFailureRetry(err.Error()))
	case result.RequeueAfter > 0:
		delay := host.Milliseconds(result.RequeueAfter)
		return types.Ok[outcome, failure](pilothouse_controller_types.MakeOutcomeRequeueAfter(delay))
	default:
		return types.Ok[outcome, failure](pilothouse_controller_types.MakeOutcomeDone())
	}
}
