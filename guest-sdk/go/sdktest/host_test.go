package sdktest_test

import (
	"errors"
	"slices"
	"testing"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/observe"
	"pilothouse.dev/sdk/sdktest"
)

// A plugin exports its observer in an init function, so its tests must link with it.
func init() {
	observe.Export(sdk.ObserverFunc(func(*sdk.Context, []sdk.Notification) error { return nil }))
}

func describe(sdk.Config) (sdk.Plugin, error) {
	return sdk.Plugin{Name: "test", Watches: []sdk.Watch{{Name: "maps", APIVersion: "v1", Kind: "ConfigMap", Notify: true}}}, nil
}

func TestObserverReceivesTheChangesOfABatch(t *testing.T) {
	h := sdktest.New(t, describe)
	const one = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"},"data":{"k":"1"}}`
	const two = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"},"data":{"k":"2"}}`
	var seen []string
	observer := sdk.ObserverFunc(func(_ *sdk.Context, notifications []sdk.Notification) error {
		for _, n := range notifications {
			before, after := "none", "none"
			if n.Before() != nil {
				before, _ = n.Before().Text("/data/k")
			}
			if n.After() != nil {
				value, _ := n.AfterField("/data/k")
				after = string(value)
			}
			seen = append(seen, n.Watch+" "+n.Change.String()+" "+n.Key.String()+" "+before+" "+after)
		}
		if !notifications[0].Initial || notifications[1].Initial || !notifications[2].FinalStateUnknown {
			t.Error(notifications)
		}
		return errors.New("again")
	})
	err := h.Observe(observer,
		sdktest.Change{Watch: "maps", After: one, Initial: true},
		sdktest.Change{Watch: "maps", Before: one, After: two},
		sdktest.Change{Watch: "maps", Before: two, FinalStateUnknown: true})
	wanted := []string{`maps added n/a none "1"`, `maps updated n/a 1 "2"`, "maps deleted n/a 2 none"}
	if err == nil || !slices.Equal(seen, wanted) {
		t.Errorf("%v %q", err, seen)
	}
}

func TestComputedIndexIsTheExportedFunction(t *testing.T) {
	h := sdktest.New(t, describe)
	values := h.IndexValues("byWord", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"words":"x y"}}`)
	if !slices.Equal(values, []string{"x", "y"}) {
		t.Error(values)
	}
}

func TestRemovedObjectStaysUntilItHasNoFinalizers(t *testing.T) {
	h := sdktest.New(t, describe)
	kind, key := sdk.Type{APIVersion: "v1", Kind: "ConfigMap"}, sdk.Key{Namespace: "n", Name: "a"}
	h.Put(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","finalizers":["example.com/f"]}}`)
	h.Remove(kind, key)
	h.Remove(kind, key)
	var found struct{ Metadata sdk.ObjectMeta }
	if !h.Get(kind, key, &found) || found.Metadata.DeletionTimestamp == nil {
		t.Errorf("%+v", found)
	}
	found.Metadata.Finalizers = nil
	h.Put(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": found.Metadata})
	if h.Get(kind, key, &found) {
		t.Error("it is still there")
	}
}
