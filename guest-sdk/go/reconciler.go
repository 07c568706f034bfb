package sdk

import (
	"errors"
	"time"
)

// A Reconciler brings one object at a time to its desired state.
//
// Reconcile is level-triggered: decide from what the cache holds now; the reasons in the request are informational. The object may have been
// deleted. An object is never reconciled by two calls at the same time. The value is lost with its instance, so use it only as a cache.
//
// An error is retried with backoff; one made by [Terminal] waits for a change of the object. A panic is logged with its stack and ends the
// instance; a new instance retries the work.
type Reconciler interface {
	Reconcile(ctx *Context, req Request) (Result, error)
}

// ReconcilerFunc makes a Reconciler of a function.
type ReconcilerFunc func(ctx *Context, req Request) (Result, error)

// Reconcile calls the function.
func (f ReconcilerFunc) Reconcile(ctx *Context, req Request) (Result, error) { return f(ctx, req) }

// Request is one item of work: an object of a target watch. Read the object with ctx.Cache(req.Watch).Get(req.Key).
type Request struct {
	Watch string
	Key   Key
	// All reasons merged into this item. They are informational: a correct reconcile produces the same result without them.
	Reasons []Reason
	// The number of consecutive failures of this key: 0 on the first attempt.
	Attempt int
	// Reserved for additions by later versions of the host.
	Extra map[string]string
}

// Has returns whether the request has this reason.
func (r Request) Has(reason Reason) bool {
	for _, present := range r.Reasons {
		if present == reason {
			return true
		}
	}
	return false
}

// Reason is why a key was queued.
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

// String returns the name in the contract, such as "created".
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "other"
}

// Result is what a successful reconcile asks for next. The zero Result asks for nothing, until a change queues the object again.
type Result struct {
	// Reconcile the object again after this time (at most about 24 days), or earlier if a change queues it. 0 for never.
	RequeueAfter time.Duration
}

// Terminal wraps an error so that it is not retried until the object changes, because a retry cannot succeed before. It returns nil for nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return terminalError{err}
}

type terminalError struct{ error }

func (e terminalError) Unwrap() error { return e.error }

// IsTerminal returns whether the error, or one that it wraps, was made by [Terminal] or is a [DecodeError].
func IsTerminal(err error) bool {
	var terminal terminalError
	var decode *DecodeError
	return errors.As(err, &terminal) || errors.As(err, &decode)
}
