package storage

import (
	"fmt"
	"testing"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/sdktest"
)

// written reconciles a Store of 20 gigabytes, and then the Store with another size. It returns the number of writes of the second reconcile.
func written(t *testing.T, twin string, reconcile sdk.ReconcilerFunc, gigabytes int) int {
	h := sdktest.New(t, Case.Describe(twin))
	key := sdk.Key{Namespace: "default", Name: "a"}
	var before int
	for _, size := range []int{20, gigabytes} {
		before = len(h.Written)
		h.Put(fmt.Sprintf(`{"apiVersion":"catalogue.pilothouse.dev/v1","kind":"Store","metadata":{"name":"a","namespace":"default","uid":"u1"},
			"spec":{"gigabytes":%d}}`, size))
		if _, err := h.Reconcile(reconcile, stores, key); err != nil {
			t.Fatal(err)
		}
	}
	return len(h.Written) - before
}

func TestOnlyTheWrongTwinReplacesTheStatefulSetByASmallerOne(t *testing.T) {
	for _, c := range []struct{ gigabytes, wrong, right int }{{10, 2, 0}, {20, 0, 0}, {30, 2, 2}} {
		wrong, right := written(t, "wrong", Case.Wrong, c.gigabytes), written(t, "right", Case.Right, c.gigabytes)
		if wrong != c.wrong || right != c.right {
			t.Errorf("from 20 to %d: %d and %d writes", c.gigabytes, wrong, right)
		}
	}
}
