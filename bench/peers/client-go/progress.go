// What the consumers count and measure: notifications since the list, and the age of events when they arrive.
package main

import (
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sentAt is the annotation in which the server says when it sent an object: nanoseconds since 1970.
const sentAt = "bench/sent-at"

// progress is shared by the workers of a controller; a plain informer calls its handler from one goroutine.
type progress struct {
	mu        sync.Mutex
	delivered int
	// last is the resource version of the last event.
	last string
	// latencies are kept of events with a resource version above warm: the first 5 % are not counted. Nil when nothing is measured.
	latencies []int64
	warm      int
	done      chan struct{}
}

func newProgress(o options) *progress {
	p := &progress{last: strconv.Itoa(o.objects + o.events), warm: o.objects + o.events/20, done: make(chan struct{})}
	if o.latency {
		p.latencies = make([]int64, 0, o.events)
	}
	return p
}

// now is the first thing that a handler or a reconcile asks for; 0 when nothing is measured.
func (p *progress) now() int64 {
	if p.latencies == nil {
		return 0
	}
	return time.Now().UnixNano()
}

// seen counts a notification of a change.
func (p *progress) seen(now int64, object metav1.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delivered++
	version := object.GetResourceVersion()
	if p.latencies != nil {
		p.measure(now, version, object.GetAnnotations()[sentAt])
	}
	if version == p.last {
		close(p.done)
	}
}

func (p *progress) measure(now int64, version, sent string) {
	number, err := strconv.Atoi(version)
	if err != nil || number <= p.warm {
		return
	}
	if sent, err := strconv.ParseInt(sent, 10, 64); err == nil {
		// A reconcile reads its object after its first instruction, so the object may be newer than that.
		p.latencies = append(p.latencies, max(0, now-sent))
	}
}

// wait returns when the last event was seen, with what is to be printed of it.
func (p *progress) wait() map[string]any {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	done := map[string]any{"delivered": p.delivered}
	if len(p.latencies) > 0 {
		slices.Sort(p.latencies)
		at := func(percent int) int64 { return p.latencies[(len(p.latencies)-1)*percent/100] }
		done["latencyNanos"] = map[string]int64{"p50": at(50), "p90": at(90), "p99": at(99), "max": at(100)}
	}
	return done
}
