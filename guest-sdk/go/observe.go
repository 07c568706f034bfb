package sdk

import (
	"encoding/json"

	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/runtime"
)

// An Observer receives every change of the watches with Notify, in batches, in order. See package observe.
//
// All calls go to one instance, one at a time, so the observer may keep state in memory. Every new instance first receives a ChangeAdded with
// Initial for each existing object. After an error the host delivers the batch again.
type Observer interface {
	Observe(ctx *Context, notifications []Notification) error
}

// ObserverFunc makes an Observer of a function.
type ObserverFunc func(ctx *Context, notifications []Notification) error

// Observe calls the function.
func (f ObserverFunc) Observe(ctx *Context, notifications []Notification) error {
	return f(ctx, notifications)
}

// ChangeType is what happened to an object of a watch.
type ChangeType uint8

// The changes.
const (
	ChangeAdded ChangeType = iota
	ChangeUpdated
	ChangeDeleted
	// ChangeResync: the resync period elapsed; the object is unchanged.
	ChangeResync
)

// String returns the name in the contract, such as "added".
func (c ChangeType) String() string {
	names := [...]string{"added", "updated", "deleted", "resync"}
	if int(c) < len(names) {
		return names[c]
	}
	return "other"
}

// Notification is one change of one object.
type Notification struct {
	Watch  string
	Change ChangeType
	Key    Key
	// Whether this ChangeAdded replays an object that existed before this instance started to observe.
	Initial bool
	// Whether the watch missed this ChangeDeleted, so that the last known state may be older than the object's final state.
	FinalStateUnknown bool

	ctx      *Context
	batch    host.Batch
	position uint32
}

// NewNotification adds the objects at a position of a batch to a notification. It is for the SDK's own packages.
func NewNotification(ctx *Context, notification Notification, batch host.Batch, position uint32) Notification {
	notification.ctx, notification.batch, notification.position = ctx, batch, position
	return notification
}

// Before returns the object before the change: nil for an addition, the last known state for a deletion.
func (n Notification) Before() *Object { return n.ctx.hold(n.batch.Before(n.position)) }

// After returns the object after the change; nil for a deletion.
func (n Notification) After() *Object { return n.ctx.hold(n.batch.After(n.position)) }

// AfterField returns the JSON at a pointer of the object after the change. This is the cheapest way to read one value, because it opens no
// handle.
func (n Notification) AfterField(pointer string) (value json.RawMessage, ok bool) {
	defer runtime.Unpin()
	text, ok := n.batch.AfterField(n.position, pointer).Get()
	return json.RawMessage(text), ok
}
