package applied

import (
	"slices"
	"testing"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/sdktest"
)

// writesService reconciles an App twice, the first time with a failure of the apply of the Service. It returns whether there is a Service then.
func writesService(t *testing.T, twin string, reconcile sdk.ReconcilerFunc) bool {
	h := sdktest.New(t, Case.Describe(twin))
	h.Put(`{"apiVersion":"catalogue.pilothouse.dev/v1","kind":"App","metadata":{"name":"a","namespace":"default","uid":"u1"},"spec":{"image":"x:1"}}`)
	h.Fail(sdktest.Failure{Err: sdk.ErrNotFound, Verb: "patch", Kind: "Service"})
	key := sdk.Key{Namespace: "default", Name: "a"}
	if _, err := h.Reconcile(reconcile, apps, key); err == nil {
		t.Fatal("the apply of the Service should fail")
	}
	if _, err := h.Reconcile(reconcile, apps, key); err != nil {
		t.Fatal(err)
	}
	return slices.Contains(h.Written, "apply v1 Service default/a")
}

func TestOnlyTheWrongTwinForgetsTheServiceAfterAFailure(t *testing.T) {
	if writesService(t, "wrong", Case.Wrong) || !writesService(t, "right", Case.Right) {
		t.Error("the twins are not as described")
	}
}
