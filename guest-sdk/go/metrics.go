package sdk

import (
	"maps"
	"slices"

	"pilothouse.dev/sdk/internal/host"
)

// Labels of a metric. They must have few values: a label per object makes a series per object.
type Labels map[string]string

// Counter adds to a counter. The plugin's metrics are served by the host, with the plugin's name as a label.
func Counter(name string, labels Labels, add float64) {
	host.Current.Counter(name, labels.pairs(), add)
}

// Gauge sets a gauge.
func Gauge(name string, labels Labels, value float64) {
	host.Current.Gauge(name, labels.pairs(), value)
}

// Histogram records one observation in a histogram; durations in seconds.
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
