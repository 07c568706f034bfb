package sdk

import (
	"maps"
	"slices"

	"pilothouse.dev/sdk/internal/host"
)

// Labels are the labels of a metric. Use labels with few values: a label per object makes a series per object.
type Labels map[string]string

// Counter adds to a counter. The host serves the plugin's metrics with the label "plugin".
func Counter(name string, labels Labels, add float64) {
	host.Current.Counter(name, labels.pairs(), add)
}

// Gauge sets a gauge.
func Gauge(name string, labels Labels, value float64) {
	host.Current.Gauge(name, labels.pairs(), value)
}

// Histogram records one observation in a histogram; use seconds for durations.
func Histogram(name string, labels Labels, value float64) {
	host.Current.Histogram(name, labels.pairs(), value)
}

func (l Labels) pairs() []host.Pair {
	pairs := make([]host.Pair, 0, len(l))
	for _, key := range slices.Sorted(maps.Keys(l)) {
		pairs = append(pairs, host.Pair{Key: key, Value: l[key]})
	}
	return pairs
}
