package sdk

import (
	"time"

	"pilothouse.dev/sdk/internal/host"
)

// Events records Kubernetes Events: see [Context.Events]. The host counts equal Events as one; recording one never waits or fails.
//
// reason and action are UpperCamelCase identifiers ("Created", "Scaling"); note is a sentence for people.
type Events struct{}

// Normal records a normal Event.
func (Events) Normal(regarding *Object, reason, action, note string) {
	host.Current.PublishEvent(regarding.handle, false, reason, action, note)
}

// Warning records a warning, for what may need attention.
func (Events) Warning(regarding *Object, reason, action, note string) {
	host.Current.PublishEvent(regarding.handle, true, reason, action, note)
}

// Queue queues work for objects of one target watch: see [Context.Queue]. The objects need not exist. For a watch that is not a target watch
// the methods trap, with a message that lists the target watches.
type Queue struct {
	watch string
}

// Add queues the object now. The queue holds a key at most once; adding the key that is being reconciled runs it once more afterwards.
func (q Queue) Add(key Key) { host.Current.QueueAdd(q.watch, host.Key(key)) }

// AddAfter queues the object after a delay of at most about 24 days. Of several delays the earliest applies.
func (q Queue) AddAfter(key Key, delay time.Duration) {
	host.Current.QueueAddAfter(q.watch, host.Key(key), host.Milliseconds(delay))
}
