package host

import (
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_cache"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_client"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_config"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_events"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_log"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_metrics"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_objects"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_queue"
	"pilothouse.dev/sdk/internal/wit/runtime"
	"pilothouse.dev/sdk/internal/wit/types"
)

func init() { Current = wasm{} }

// wasm calls the real host. After each call with a result it releases the memory that the host wrote the result to; the bindings by themselves
// would pin it until the next export is called.
type wasm struct{}

type object = pilothouse_controller_objects.Object

func (wasm) CacheGet(watch string, key Key) Object {
	defer runtime.Unpin()
	return optional(pilothouse_controller_cache.Get(watch, key))
}

func (wasm) CacheList(watch string, filter Filter) ([]Object, string) {
	defer runtime.Unpin()
	page := pilothouse_controller_cache.List(watch, filter)
	return objects(page.Items), page.Next
}

func (wasm) CacheListFields(watch string, filter Filter, pointers []string) []Row {
	defer runtime.Unpin()
	return pilothouse_controller_cache.ListFields(watch, filter, pointers)
}

func (wasm) CacheByIndex(watch, index, value string) []Object {
	defer runtime.Unpin()
	return objects(pilothouse_controller_cache.ByIndex(watch, index, value))
}

func (wasm) CacheIndexKeys(watch, index, value string) []Key {
	defer runtime.Unpin()
	return pilothouse_controller_cache.IndexKeys(watch, index, value)
}

func (wasm) CacheIndexValues(watch, index string) []string {
	defer runtime.Unpin()
	return pilothouse_controller_cache.IndexValues(watch, index)
}

func (wasm) CacheHasSynced(watch string) bool {
	return pilothouse_controller_cache.HasSynced(watch)
}

func (wasm) ClientGet(target Type, key Key, subresource string) (Object, *APIError) {
	defer runtime.Unpin()
	return result(pilothouse_controller_client.Get(target, key, subresource))
}

func (wasm) ClientList(target Type, options ListOptions) ([]Object, string, *APIError) {
	defer runtime.Unpin()
	answer := pilothouse_controller_client.List(target, options)
	if answer.Tag() == types.ResultErr {
		err := answer.Err()
		return nil, "", &err
	}
	page := answer.Ok()
	return objects(page.Items), page.Next, nil
}

func (wasm) ClientCreate(manifest, subresource string) (Object, *APIError) {
	defer runtime.Unpin()
	return result(pilothouse_controller_client.Create(manifest, subresource))
}

func (wasm) ClientUpdate(manifest, subresource string) (Object, *APIError) {
	defer runtime.Unpin()
	return result(pilothouse_controller_client.Update(manifest, subresource))
}

func (wasm) ClientPatch(target Type, key Key, patchType PatchType, body, subresource string) (Object, *APIError) {
	defer runtime.Unpin()
	return result(pilothouse_controller_client.Patch(target, key, patchType, body, subresource))
}

func (wasm) ClientDelete(target Type, key Key, options DeleteOptions) *APIError {
	defer runtime.Unpin()
	answer := pilothouse_controller_client.Delete(target, key, options)
	if answer.Tag() == types.ResultErr {
		err := answer.Err()
		return &err
	}
	return nil
}

func (wasm) Config() string {
	defer runtime.Unpin()
	return pilothouse_controller_config.Get()
}

func (wasm) QueueAdd(watch string, key Key) { pilothouse_controller_queue.Add(watch, key) }

func (wasm) QueueAddAfter(watch string, key Key, milliseconds uint32) {
	pilothouse_controller_queue.AddAfter(watch, key, milliseconds)
}

func (wasm) PublishEvent(regarding Object, warning bool, reason, action, note string) {
	eventType := pilothouse_controller_events.EventType_Normal
	if warning {
		eventType = pilothouse_controller_events.EventType_Warning
	}
	pilothouse_controller_events.Publish(regarding.(*object), eventType, reason, action, note)
}

func (wasm) Log(level uint8, message string, fields []Pair) {
	pilothouse_controller_log.Log(level, message, fields)
}

func (wasm) Counter(name string, labels []Pair, add float64) {
	pilothouse_controller_metrics.Counter(name, labels, add)
}

func (wasm) Gauge(name string, labels []Pair, value float64) {
	pilothouse_controller_metrics.Gauge(name, labels, value)
}

func (wasm) Histogram(name string, labels []Pair, value float64) {
	pilothouse_controller_metrics.Histogram(name, labels, value)
}

func objects(handles []*object) []Object {
	all := make([]Object, len(handles))
	for i, handle := range handles {
		all[i] = handle
	}
	return all
}

func result(answer types.Result[*object, APIError]) (Object, *APIError) {
	if answer.Tag() == types.ResultErr {
		err := answer.Err()
		return nil, &err
	}
	return answer.Ok(), nil
}
