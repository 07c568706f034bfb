// Counts the notifications after the list and measures their latency.
package main

import (
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sentAt is the annotation with the time at which the server sent an object, in nanoseconds since 1970.
const sentAt = "bench/sent-at"

// progress records notifications. The workers of a controller share it; a plain informer calls its handler from one goroutine.
type progress struct {
	mu        sync.Mutex
	delivered int
	// last is the resource version of the last event.
	last string
	// latencies has an entry for each event with a resource version above warm. It is nil if latency is not measured.
	latencies []int64
	// warm is the resource version of the last event of the warm-up, which is the first 5 % of the events.
	warm int
	done chan struct{}
}

func newProgress(o options) *progress {
	p := &progress{last: strconv.Itoa(o.objects + o.events), warm: o.objects + o.events/20, done: make(chan struct{})}
	if o.latency {
		p.latencies = make([]int64, 0, o.events)
	}
	return p
}

// now returns the time at the start of a handler or a reconcile; 0 if latency is not measured.
func (p *progress) now() int64 {
	if p.latencies == nil {
		return 0
	}
	return time.Now().UnixNano()
}

// record counts the notification of a change.
func (p *progress) record(now int64, object metav1.Object) {
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
		// A reconcile reads its object after it has read the time, so the object may have been sent later.
		p.latencies = append(p.latencies, max(0, now-sent))
	}
}

// wait waits for the last event and returns the results to print.
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
