package sdk

import (
	"time"

	"pilothouse.dev/sdk/internal/host"
)

// Events records Kubernetes Events. Like ones are aggregated by the host; writing never waits and never fails.
//
// reason and action are UpperCamelCase words for machines ("Created", "Scaling"), note a sentence for people.
type Events struct{}

// Normal: something went as it should.
func (Events) Normal(regarding *Object, reason, action, note string) {
	host.Current.PublishEvent(regarding.handle, false, reason, action, note)
}

// Warning: somebody may have to look at something.
func (Events) Warning(regarding *Object, reason, action, note string) {
	host.Current.PublishEvent(regarding.handle, true, reason, action, note)
}

// Queue is more work, for objects of one target watch. The objects need not exist. A watch that is no target traps, with a message that
// lists the targets.
type Queue struct {
	watch string
}

// Add queues the object now, once however often it is added. The one being reconciled runs once more afterwards.
func (q Queue) Add(key Key) { host.Current.QueueAdd(q.watch, host.Key(key)) }

// AddAfter queues the object after a time; of two delays the earlier wins. At most about 24 days.
func (q Queue) AddAfter(key Key, delay time.Duration) {
	host.Current.QueueAddAfter(q.watch, host.Key(key), host.Milliseconds(delay))
}
