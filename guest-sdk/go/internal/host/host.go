// Package host is the interface between the SDK and the host's functions. In a plugin, the generated bindings implement it; in a test, a fake does.
package host

import (
	"time"

	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_cache"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_changes"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_client"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_objects"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/wit/runtime"
	"pilothouse.dev/sdk/internal/wit/types"
)

// Shorter names for the types of the contract.
type (
	Key           = pilothouse_controller_types.ObjectKey
	Type          = pilothouse_controller_types.ObjectType
	Pair          = pilothouse_controller_types.Pair
	APIError      = pilothouse_controller_types.ApiError
	Owner         = pilothouse_controller_objects.Owner
	Filter        = pilothouse_controller_cache.Filter
	Row           = pilothouse_controller_cache.Row
	ListOptions   = pilothouse_controller_client.ListOptions
	PatchType     = pilothouse_controller_client.PatchType
	DeleteOptions = pilothouse_controller_client.DeleteOptions
)

// Object is the resource objects.object.
type Object interface {
	Key() Key
	ApiVersion() string
	Kind() string
	Uid() string
	ResourceVersion() string
	Generation() uint32
	Labels() []Pair
	Label(key string) types.Option[string]
	Annotation(key string) types.Option[string]
	DeletionTimestamp() types.Option[string]
	Controller() types.Option[Owner]
	Field(pointer string) types.Option[string]
	Text(pointer string) types.Option[string]
	Fields(pointers []string) []types.Option[string]
	Texts(pointers []string) []types.Option[string]
	Json() string
	Drop()
}

// Batch is the resource changes.batch.
type Batch interface {
	Before(position uint32) Object
	After(position uint32) Object
	AfterField(position uint32, pointer string) types.Option[string]
}

// Host declares the host functions of the contract. Functions that return an Object return nil if there is none.
type Host interface {
	CacheGet(watch string, key Key) Object
	CacheList(watch string, filter Filter) ([]Object, string)
	CacheListFields(watch string, filter Filter, pointers []string) []Row
	CacheByIndex(watch, index, value string) []Object
	CacheIndexKeys(watch, index, value string) []Key
	CacheIndexValues(watch, index string) []string
	CacheHasSynced(watch string) bool

	ClientGet(target Type, key Key, subresource string) (Object, *APIError)
	ClientList(target Type, options ListOptions) ([]Object, string, *APIError)
	ClientCreate(manifest, subresource string) (Object, *APIError)
	ClientUpdate(manifest, subresource string) (Object, *APIError)
	ClientPatch(target Type, key Key, patchType PatchType, body, subresource string) (Object, *APIError)
	ClientDelete(target Type, key Key, options DeleteOptions) *APIError

	Config() string
	QueueAdd(watch string, key Key)
	QueueAddAfter(watch string, key Key, milliseconds uint32)
	PublishEvent(regarding Object, warning bool, reason, action, note string)
	Log(level uint8, message string, fields []Pair)
	Counter(name string, labels []Pair, add float64)
	Gauge(name string, labels []Pair, value float64)
	Histogram(name string, labels []Pair, value float64)
}

// Current is the implementation that the SDK calls.
var Current Host = absent{}

// absent is the Host that is used when the code does not run in a plugin. Every call but Log panics, because the embedded interface is nil.
type absent struct{ Host }

// Log does nothing. It is the only call that works without a host.
func (absent) Log(uint8, string, []Pair) {}

// maxDelayMilliseconds is the longest delay that the contract allows.
const maxDelayMilliseconds = 1<<31 - 1

// Milliseconds converts a delay to milliseconds, rounding up, so that a non-zero delay never becomes 0. Delays above the maximum become the
// maximum.
func Milliseconds(delay time.Duration) uint32 {
	if delay <= 0 {
		return 0
	}
	whole := delay / time.Millisecond
	if delay%time.Millisecond != 0 {
		whole++
	}
	return uint32(min(whole, maxDelayMilliseconds))
}

type wasmBatch struct {
	*pilothouse_controller_changes.Batch
}

// WrapBatch converts a batch of the bindings to a Batch.
func WrapBatch(batch *pilothouse_controller_changes.Batch) Batch { return wasmBatch{batch} }

func (b wasmBatch) Before(position uint32) Object { return optional(b.Batch.Before(position)) }
func (b wasmBatch) After(position uint32) Object  { return optional(b.Batch.After(position)) }

func (b wasmBatch) AfterField(position uint32, pointer string) types.Option[string] {
	defer runtime.Unpin()
	return b.Batch.AfterField(position, pointer)
}

func optional(handle types.Option[*pilothouse_controller_objects.Object]) Object {
	if value, ok := handle.Get(); ok {
		return value
	}
	return nil
}
