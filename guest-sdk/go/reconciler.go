package sdk

import (
	"errors"
	"time"
)

// A Reconciler is given one object at a time to bring to its desired state.
//
// It is level-triggered: the reasons inform, the decision comes from what the cache holds now. The object may be gone. Never called for one
// object twice at a time. What the value holds is lost with the instance, so cache in it and keep nothing there.
//
// An error is retried with backoff; one made by [Terminal] waits for a change of the object. A panic reaches the log with its stack, ends
// the instance, and is retried by a new one.
type Reconciler interface {
	Reconcile(ctx *Context, req Request) (Result, error)
}

// ReconcilerFunc is a Reconciler of one function.
type ReconcilerFunc func(ctx *Context, req Request) (Result, error)

// Reconcile calls the function.
func (f ReconcilerFunc) Reconcile(ctx *Context, req Request) (Result, error) { return f(ctx, req) }

// Request is work: one object of one target watch. It is read with ctx.Cache(req.Watch).Get(req.Key).
type Request struct {
	Watch string
	Key   Key
	// Every reason merged into this item. They inform; a correct reconcile gives the same result without them.
	Reasons []Reason
	// How many times in a row this key has failed: 0 the first time.
	Attempt int
	// What later versions of the host tell.
	Extra map[string]string
}

// Has says whether the reason is among the reasons.
func (r Request) Has(reason Reason) bool {
	for _, given := range r.Reasons {
		if given == reason {
			return true
		}
	}
	return false
}

// Reason is why a key is in the queue.
type Reason uint8

// The reasons.
const (
	Created Reason = iota
	Updated
	Deleted
	Resync
	Requeue
	Retry
	Startup
	OtherReason
)

var reasons = [...]string{"created", "updated", "deleted", "resync", "requeue", "retry", "startup", "other"}

// String is the reason as the contract spells it: "created".
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "other"
}

// Result is what a reconcile that succeeded wants next. The zero Result: nothing until something changes.
type Result struct {
	// The same object again after this time, or earlier if something changes. At most about 24 days; 0 for never.
	RequeueAfter time.Duration
}

// Terminal makes an error that trying again cannot help: the object waits until it changes. It is nil for nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return terminalError{err}
}

type terminalError struct{ error }

func (e terminalError) Unwrap() error { return e.error }

// IsTerminal says whether the error, or one that it wraps, was made by [Terminal] or is a [DecodeError], which stays until the object
// changes.
func IsTerminal(err error) bool {
	var terminal terminalError
	var decode *DecodeError
	return errors.As(err, &terminal) || errors.As(err, &decode)
}
