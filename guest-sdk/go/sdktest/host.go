// Package sdktest has a fake host for unit tests of plugins. It holds objects in memory and records what the plugin does.
//
//	h := sdktest.New(t, describe)
//	h.Put(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`)
//	result, err := h.Reconcile(labeller{}, "configmaps", sdk.Key{Namespace: "default", Name: "a"})
//
// It supports label selectors, indexes by label, annotation and owner, and all requests except JSON and strategic patches. It does not validate
// or set defaults, and a server-side apply is a merge. To test what depends on a real server, use `pilothouse dev`.
package sdktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/host"
)

// Host is a fake host with an in-memory cluster.
type Host struct {
	t       testing.TB
	watches map[string]sdk.Watch
	objects map[id]map[string]any
	version int
	failure *host.APIError

	// Config is the sidecar's config; "{}" by default.
	Config string
	// Written lists the accepted writes: "create apps/v1 Deployment default/web".
	Written []string
	// Events lists the recorded Events: "Normal Synced default/web: Foo synced".
	Events []string
	// Queued lists the keys that were added to the queue, with their delays.
	Queued []Queued
	// Logged lists the log lines that were written through sdk.LogHandler.
	Logged []Line
	// Metrics has, by name, the sum of each counter, the last value of each gauge, and the number of observations of each histogram.
	Metrics map[string]float64
}

// Queued is a key that was added to the queue.
type Queued struct {
	Watch string
	Key   sdk.Key
	After time.Duration
}

// Line is a line of the log.
type Line struct {
	Message string
	Fields  map[string]string
}

type id struct {
	kind sdk.Type
	key  sdk.Key
}

// New installs a host with the watches of the plugin's descriptor until the end of the test. Tests with hosts cannot run in parallel, because
// the SDK has one host at a time.
func New(t testing.TB, describe func(sdk.Config) (sdk.Plugin, error)) *Host {
	t.Helper()
	plugin, err := describe(sdk.Config("{}"))
	if err != nil {
		t.Fatalf("describe: %v", err)
	}
	h := &Host{t: t, watches: map[string]sdk.Watch{}, objects: map[id]map[string]any{}, Metrics: map[string]float64{}}
	for _, watch := range plugin.Watches {
		h.watches[watch.Name] = watch
	}
	before := host.Current
	host.Current = fake{h}
	t.Cleanup(func() { host.Current = before })
	return h
}

// Put stores an object, given as a JSON string or as a value that encoding/json encodes as a manifest. Sets a UID and a resource version.
func (h *Host) Put(object any) {
	h.t.Helper()
	text, ok := object.(string)
	if !ok {
		encoded, err := json.Marshal(object)
		if err != nil {
			h.t.Fatalf("put %T: %v", object, err)
		}
		text = string(encoded)
	}
	manifest, err := parse(text)
	if err != nil {
		h.t.Fatalf("put %s: %v", text, err)
	}
	h.store(manifest)
}

// Remove removes an object, without regard to finalizers.
func (h *Host) Remove(kind sdk.Type, key sdk.Key) { delete(h.objects, id{kind, key}) }

// Get reads an object into a struct, and says whether it is there.
func (h *Host) Get(kind sdk.Type, key sdk.Key, into any) bool {
	h.t.Helper()
	manifest, ok := h.objects[id{kind, key}]
	if ok {
		if err := json.Unmarshal([]byte(jsonOf(manifest)), into); err != nil {
			h.t.Fatalf("read %s %s: %v", kind, key, err)
		}
	}
	return ok
}

// FailNext makes the next write fail with a conflict.
func (h *Host) FailNext(message string) { h.failure = conflict(message) }

// Reconcile runs the reconciler once, as the host would.
func (h *Host) Reconcile(reconciler sdk.Reconciler, watch string, key sdk.Key) (sdk.Result, error) {
	ctx := sdk.NewContext()
	defer ctx.Close()
	return reconciler.Reconcile(ctx, sdk.Request{Watch: watch, Key: key, Reasons: []sdk.Reason{sdk.Updated}})
}

// Context returns a context for calling a part of the plugin directly. It is closed at the end of the test.
func (h *Host) Context() *sdk.Context {
	ctx := sdk.NewContext()
	h.t.Cleanup(ctx.Close)
	return ctx
}

// store sets the metadata that a server sets, and stores the manifest.
func (h *Host) store(manifest map[string]any) map[string]any {
	h.version++
	metadata := object(manifest, "metadata")
	objectID := idOf(manifest)
	if present, ok := h.objects[objectID]; ok {
		metadata["uid"] = object(present, "metadata")["uid"]
	}
	if text(metadata, "uid") == "" {
		metadata["uid"] = "uid-" + strconv.Itoa(h.version)
	}
	metadata["resourceVersion"] = strconv.Itoa(h.version)
	h.objects[objectID] = manifest
	if text(metadata, "deletionTimestamp") != "" && len(list(metadata, "finalizers")) == 0 {
		delete(h.objects, objectID)
	}
	return manifest
}

// watched returns the objects of a watch, sorted by key.
func (h *Host) watched(name string) []map[string]any {
	watch, ok := h.watches[name]
	if !ok {
		panic(fmt.Sprintf("unknown watch %q: the descriptor declares %v", name, slices.Sorted(maps.Keys(h.watches))))
	}
	kind := sdk.Type{APIVersion: watch.APIVersion, Kind: watch.Kind}
	var found []map[string]any
	for id, manifest := range h.objects {
		inNamespace := len(watch.Namespaces) == 0 || slices.Contains(watch.Namespaces, id.key.Namespace)
		if id.kind == kind && inNamespace && selects(watch.LabelSelector, manifest) {
			found = append(found, manifest)
		}
	}
	slices.SortFunc(found, func(a, b map[string]any) int { return compareKeys(idOf(a).key, idOf(b).key) })
	return found
}
