package shrink

import (
	"fmt"
	"testing"

	"pilothouse.dev/examples/catalogue/kit"
	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/sdktest"
)

// replicas reconciles a Queue with each of these numbers of replicas, and returns the replicas of the StatefulSet in the end.
func replicas(t *testing.T, twin string, reconcile sdk.ReconcilerFunc, path ...int) int {
	h := sdktest.New(t, Case.Describe(twin))
	key := sdk.Key{Namespace: "default", Name: "a"}
	for _, count := range path {
		h.Put(fmt.Sprintf(`{"apiVersion":"catalogue.pilothouse.dev/v1","kind":"Queue","metadata":{"name":"a","namespace":"default","uid":"u1"},
			"spec":{"replicas":%d}}`, count))
		if _, err := h.Reconcile(reconcile, queues, key); err != nil {
			t.Fatal(err)
		}
	}
	var set struct{ Spec struct{ Replicas int } }
	if !h.Get(kit.StatefulSets, key, &set) {
		t.Fatal("there is no StatefulSet")
	}
	return set.Spec.Replicas
}

func TestTheEndOfTheWrongTwinDependsOnThePath(t *testing.T) {
	if all, merged := replicas(t, "wrong", Case.Wrong, 1, 3, 2), replicas(t, "wrong", Case.Wrong, 1, 2); all != 3 || merged != 2 {
		t.Errorf("%d and %d", all, merged)
	}
	if all, merged := replicas(t, "right", Case.Right, 1, 3, 2), replicas(t, "right", Case.Right, 1, 2); all != 2 || merged != 2 {
		t.Errorf("%d and %d", all, merged)
	}
}
