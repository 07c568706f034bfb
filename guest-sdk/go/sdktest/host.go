// Package sdktest has a fake host for unit tests of plugins. It holds objects in memory and records what the plugin does.
//
//	h := sdktest.New(t, describe)
//	h.Put(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`)
//	result, err := h.Reconcile(labeller{}, "configmaps", sdk.Key{Namespace: "default", Name: "a"})
//
// Requests have the results that a Kubernetes API server would give: resource versions and conflicts, generations, finalizers, the status
// subresource, JSON patches, merge patches and server-side apply, and the host's refusal of undeclared writes. The watches' selectors, projections
// and indexes are evaluated (the computed ones by what index.Export registered), the plugin's own writes are visible at once, and [Host.Fail]
// makes requests fail.
//
// It has no schemas, defaults, admission or garbage collector, no subresources but status, treats lists as one value in a server-side apply, and
// changes queue no work. To test what depends on these, use `pilothouse dev`.
package sdktest

import (
	"encoding/json"
	"log"
	"log/slog"
	"testing"
	"time"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/types"
)

// Host is a fake host with an in-memory cluster.
type Host struct {
	t        testing.TB
	plugin   sdk.Plugin
	cluster  *cluster
	failures []*Failure

	// Config is the sidecar's config; "{}" by default.
	Config string
	// Written lists the writes that succeeded: "create apps/v1 Deployment default/web", "apply apps/v1 Deployment default/web status".
	Written []string
	// Events lists the recorded Events: "Normal Synced default/web: Foo synced".
	Events []string
	// Queued lists the keys that were added to the queue, with their delays.
	Queued []Queued
	// Logged lists the lines that were written through slog, log and sdk.LogHandler.
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
	// Level is debug, info, warn or error.
	Level   string
	Message string
	Fields  map[string]string
}

// Trap is the panic of a programming error, such as the name of an unknown watch, at which the real host ends the instance.
type Trap string

func (t Trap) Error() string { return string(t) }

// New installs a host with the plugin's descriptor until the end of the test. Tests with hosts cannot run in parallel, because
// the SDK has one host at a time.
func New(t testing.TB, describe func(sdk.Config) (sdk.Plugin, error)) *Host {
	t.Helper()
	plugin, err := describe(sdk.Config("{}"))
	if err != nil {
		t.Fatalf("describe: %v", err)
	}
	h := &Host{t: t, plugin: plugin, cluster: newCluster(), Metrics: map[string]float64{}}
	for _, crd := range plugin.CRDs {
		manifest, err := manifestOf(crd)
		if err != nil {
			t.Fatalf("a CRD of the descriptor: %v", err)
		}
		h.cluster.crds = append(h.cluster.crds, manifest)
	}
	before := host.Current
	host.Current = fake{h}
	restoreLoggers := useLogHandler()
	t.Cleanup(func() {
		restoreLoggers()
		host.Current = before
	})
	return h
}

// useLogHandler makes the default loggers write to the host, as they do in a plugin. It returns a function that restores them.
func useLogHandler() func() {
	logger, writer, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(sdk.LogHandler()))
	return func() {
		slog.SetDefault(logger)
		// SetDefault does not undo what it did to the package log.
		log.SetOutput(writer)
		log.SetFlags(flags)
	}
}

// Put creates or replaces an object, as another client would. The object is a JSON string, or a value that encoding/json encodes as a manifest.
// UID, status and finalizers are stored as given. A resource version is ignored, so Put never conflicts.
func (h *Host) Put(object any) {
	h.t.Helper()
	manifest, err := manifestOf(object)
	if err != nil {
		h.t.Fatalf("put %v: %v", object, err)
	}
	h.cluster.put(manifest)
}

// Remove deletes an object as `kubectl delete` does: an object with finalizers only gets a deletion timestamp. It is gone once a Put leaves
// the finalizers out.
func (h *Host) Remove(kind sdk.Type, key sdk.Key) {
	h.t.Helper()
	if err := h.cluster.delete(id{kind, key}, "", ""); err != nil {
		h.t.Fatalf("remove %s %s: it does not exist", kind, key)
	}
}

// Delete is the former name of [Host.Remove].
//
// Deprecated: use Remove.
func (h *Host) Delete(kind sdk.Type, key sdk.Key) {
	h.t.Helper()
	h.Remove(kind, key)
}

// Get reads an object into a struct or a map, and says whether it is there.
func (h *Host) Get(kind sdk.Type, key sdk.Key, into any) bool {
	h.t.Helper()
	manifest, ok := h.cluster.objects[id{kind, key}]
	if ok {
		if err := json.Unmarshal([]byte(jsonOf(manifest)), into); err != nil {
			h.t.Fatalf("read %s %s: %v", kind, key, err)
		}
	}
	return ok
}

// Fail makes requests fail. A failed request changes nothing.
func (h *Host) Fail(failure Failure) {
	failure.Times = max(failure.Times, 1)
	h.failures = append(h.failures, &failure)
}

// FailNext makes the next request fail with a conflict.
func (h *Host) FailNext(message string) { h.Fail(Failure{Err: &sdk.ConflictError{Message: message}}) }

// Reconcile runs the reconciler once, as the host would.
func (h *Host) Reconcile(reconciler sdk.Reconciler, watch string, key sdk.Key) (sdk.Result, error) {
	return h.ReconcileRequest(reconciler, sdk.Request{Watch: watch, Key: key, Reasons: []sdk.Reason{sdk.Updated}})
}

// ReconcileRequest is like Reconcile, with the reasons and the attempt of the request.
func (h *Host) ReconcileRequest(reconciler sdk.Reconciler, request sdk.Request) (sdk.Result, error) {
	ctx := sdk.NewContext()
	defer ctx.Close()
	return reconciler.Reconcile(ctx, request)
}

// IndexValues returns what the plugin's function computes for an index. The function is the one that index.Export registered.
func (h *Host) IndexValues(index string, object any) []string {
	h.t.Helper()
	manifest, err := manifestOf(object)
	if err != nil {
		h.t.Fatalf("an object for the index %s: %v", index, err)
	}
	return fake{h}.computed(index, manifest)
}

// Change is one change that [Host.Observe] delivers. The objects are JSON strings, or values that encoding/json encodes as manifests.
type Change struct {
	Watch string
	// The object before the change; nil for an addition.
	Before any
	// The object after the change; nil for a deletion.
	After any
	// Whether the addition replays an object that existed before.
	Initial bool
	// Whether the watch missed the deletion.
	FinalStateUnknown bool
}

// Observe delivers changes to the observer, as one batch.
func (h *Host) Observe(observer sdk.Observer, changes ...Change) error {
	h.t.Helper()
	ctx := sdk.NewContext()
	defer ctx.Close()
	var delivered batch
	var notifications []sdk.Notification
	for i, change := range changes {
		states := [2]map[string]any{}
		for side, given := range []any{change.Before, change.After} {
			if given == nil {
				continue
			}
			manifest, err := manifestOf(given)
			if err != nil {
				h.t.Fatalf("change %d: %v", i, err)
			}
			states[side] = manifest
		}
		delivered = append(delivered, states)
		notification := sdk.Notification{Watch: change.Watch, Change: sdk.ChangeUpdated, Initial: change.Initial,
			FinalStateUnknown: change.FinalStateUnknown}
		switch before, after := states[0], states[1]; {
		case before == nil && after == nil:
			h.t.Fatalf("change %d has no object", i)
		case before == nil:
			notification.Change, notification.Key = sdk.ChangeAdded, idOf(after).key
		case after == nil:
			notification.Change, notification.Key = sdk.ChangeDeleted, idOf(before).key
		default:
			notification.Key = idOf(after).key
		}
		notifications = append(notifications, notification)
	}
	for i := range notifications {
		notifications[i] = sdk.NewNotification(ctx, notifications[i], delivered, uint32(i))
	}
	return observer.Observe(ctx, notifications)
}

// batch has the objects behind notifications: before and after each change.
type batch [][2]map[string]any

func (b batch) side(position uint32, side int) map[string]any {
	if int(position) >= len(b) {
		return nil
	}
	return b[position][side]
}

func (b batch) Before(position uint32) host.Object { return holdOrNil(b.side(position, 0)) }
func (b batch) After(position uint32) host.Object  { return holdOrNil(b.side(position, 1)) }

func (b batch) AfterField(position uint32, pointer string) types.Option[string] {
	after := b.side(position, 1)
	if after == nil {
		return types.None[string]()
	}
	return hold(after).Field(pointer)
}

// Context returns a context for calling a part of the plugin directly. It is closed at the end of the test.
func (h *Host) Context() *sdk.Context {
	ctx := sdk.NewContext()
	h.t.Cleanup(ctx.Close)
	return ctx
}
