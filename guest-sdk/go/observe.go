package sdk

import (
	"encoding/json"

	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/runtime"
)

// An Observer takes every change of the watches that say Notify, in batches, in order. See package observe.
//
// All calls go to one instance, one at a time, so its memory may hold what it learns. Every new instance first gets an Added with Initial
// for each object. After an error the batch comes again.
type Observer interface {
	Observe(ctx *Context, notifications []Notification) error
}

// ObserverFunc is an Observer of one function.
type ObserverFunc func(ctx *Context, notifications []Notification) error

// Observe calls the function.
func (f ObserverFunc) Observe(ctx *Context, notifications []Notification) error {
	return f(ctx, notifications)
}

// ChangeType is what happened to an object in a watch.
type ChangeType uint8

// The changes.
const (
	ChangeAdded ChangeType = iota
	ChangeUpdated
	ChangeDeleted
	// ChangeResync: the resync period passed; told again, unchanged.
	ChangeResync
)

// String is the change as the contract spells it: "added".
func (c ChangeType) String() string {
	names := [...]string{"added", "updated", "deleted", "resync"}
	if int(c) < len(names) {
		return names[c]
	}
	return "other"
}

// Notification is one change.
type Notification struct {
	Watch  string
	Change ChangeType
	Key    Key
	// An Added that replays what was there before this instance saw it.
	Initial bool
	// A Deleted that the watch missed: the last state known may be older than the last one there was.
	FinalStateUnknown bool

	ctx      *Context
	batch    host.Batch
	position uint32
}

// NewNotification is for the SDK's own packages: it adds the objects at a position of a batch to a notification.
func NewNotification(ctx *Context, told Notification, batch host.Batch, position uint32) Notification {
	told.ctx, told.batch, told.position = ctx, batch, position
	return told
}

// Before is the state before; nil for an addition. Of a deletion, the last state known.
func (n Notification) Before() *Object { return n.ctx.hold(n.batch.Before(n.position)) }

// After is the state after; nil for a deletion.
func (n Notification) After() *Object { return n.ctx.hold(n.batch.After(n.position)) }

// AfterField is the JSON at a pointer in the state after, without opening a handle: the cheapest way to one value.
func (n Notification) AfterField(pointer string) (value json.RawMessage, ok bool) {
	defer runtime.Unpin()
	text, ok := n.batch.AfterField(n.position, pointer).Get()
	return json.RawMessage(text), ok
}
