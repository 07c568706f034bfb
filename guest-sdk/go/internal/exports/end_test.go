package exports_test

import (
	"strings"
	"testing"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	export "pilothouse.dev/sdk/internal/exports/reconcile"
	"pilothouse.dev/sdk/internal/wit/types"
	"pilothouse.dev/sdk/reconcile"
	"pilothouse.dev/sdk/sdktest"
)

func describe(sdk.Config) (sdk.Plugin, error) { return sdk.Plugin{}, nil }

func breaks(*sdk.Context, sdk.Request) (sdk.Result, error) { panic("no image") }

func TestPanicIsLoggedWithThePluginsStackAndEndsTheInstance(t *testing.T) {
	h := sdktest.New(t, describe)
	reconcile.Export(sdk.ReconcilerFunc(breaks))
	ended := func() (ended any) {
		defer func() { ended = recover() }()
		export.Reconcile(pilothouse_controller_types.Request{})
		return nil
	}()
	if ended == nil || len(h.Logged) != 1 || h.Logged[0].Message != "panic: no image" {
		t.Fatalf("%v %v", ended, h.Logged)
	}
	stack := h.Logged[0].Fields["stack"]
	if !strings.HasPrefix(stack, "pilothouse.dev/sdk/internal/exports_test.breaks (") || strings.Contains(stack, "gopanic") {
		t.Error(stack)
	}
}

func TestErrorsAreConvertedToTheContract(t *testing.T) {
	sdktest.New(t, describe)
	for attempt, wanted := range []string{"ok 2000", "retry busy", "terminal hopeless"} {
		reconcile.Export(sdk.ReconcilerFunc(func(_ *sdk.Context, req sdk.Request) (sdk.Result, error) {
			switch req.Attempt {
			case 0:
				return sdk.Result{RequeueAfter: 2e9}, nil
			case 1:
				return sdk.Result{}, errText("busy")
			default:
				return sdk.Result{}, sdk.Terminal(errText("hopeless"))
			}
		}))
		if found := text(export.Reconcile(pilothouse_controller_types.Request{Attempt: uint32(attempt)})); found != wanted {
			t.Errorf("%s, wanted %s", found, wanted)
		}
	}
}

type errText string

func (e errText) Error() string { return string(e) }

func text(answer types.Result[pilothouse_controller_types.Outcome, pilothouse_controller_types.Failure]) string {
	if answer.Tag() == types.ResultOk {
		if answer.Ok().RequeueAfter() == 2000 {
			return "ok 2000"
		}
		return "ok"
	}
	if failure := answer.Err(); failure.Tag() == pilothouse_controller_types.Failure_Terminal {
		return "terminal " + failure.Terminal()
	}
	return "retry " + answer.Err().Retry()
}
