package sdk

import (
	"encoding/json"
	"strconv"
	"time"
)

// Plugin is what a plugin watches, indexes and writes: the document that the host reads once per load.
type Plugin struct {
	// Should be the name of its .wasm file.
	Name    string
	Version string
	// One sentence for `pilothouse status`.
	Summary string
	Watches []Watch
	// What is not listed here, or not granted by the operator, is refused by the host.
	Writes []WriteRule
	// CustomResourceDefinitions, which the host applies before it starts the watches: json.RawMessage, a map, or a type of
	// k8s.io/apiextensions-apiserver.
	CRDs []any
	// Puts everything on one instance with one worker, so that memory is shared between calls.
	Stateful bool
	// Wishes for limits; the operator decides.
	Limits Limits
}

// MarshalJSON writes the document as the host reads it.
func (p Plugin) MarshalJSON() ([]byte, error) {
	watches := p.Watches
	if watches == nil {
		watches = []Watch{}
	}
	return json.Marshal(struct {
		APIVersion string      `json:"apiVersion"`
		Kind       string      `json:"kind"`
		Name       string      `json:"name"`
		Version    string      `json:"version"`
		Summary    string      `json:"summary,omitempty"`
		Watches    []Watch     `json:"watches"`
		Writes     []WriteRule `json:"writes,omitempty"`
		CRDs       []any       `json:"crds,omitempty"`
		Stateful   bool        `json:"stateful,omitempty"`
		Limits     Limits      `json:"limits,omitzero"`
	}{"pilothouse.dev/v1alpha1", "Plugin", p.Name, p.Version, p.Summary, watches, p.Writes, p.CRDs, p.Stateful, p.Limits})
}

// WriteRule is what a plugin will write, or read live: an RBAC PolicyRule, with namespaces.
type WriteRule struct {
	// "" for the core group.
	APIGroups []string `json:"apiGroups"`
	// Plural names as in URLs: "deployments", "deployments/scale".
	Resources []string `json:"resources"`
	// Of get, list, create, update, patch and delete.
	Verbs []string `json:"verbs"`
	// Empty for all.
	Namespaces []string `json:"namespaces,omitempty"`
}

// Writes is a rule for these verbs on one resource of a group: Writes("apps", "deployments", "create", "update").
func Writes(group, resource string, verbs ...string) WriteRule {
	return WriteRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// Limits that a plugin wishes for. What is zero keeps the host's default.
type Limits struct {
	// Memory of one instance, as a quantity: "64Mi".
	Memory string
	// How long one reconcile may take, its requests included.
	ReconcileTimeout time.Duration
	// How long one call of observe may take.
	ObserveTimeout time.Duration
	// How many object handles one instance may hold.
	Handles int
}

// MarshalJSON writes durations as Kubernetes does.
func (l Limits) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Memory           string `json:"memory,omitempty"`
		ReconcileTimeout string `json:"reconcileTimeout,omitempty"`
		ObserveTimeout   string `json:"observeTimeout,omitempty"`
		Handles          int    `json:"handles,omitempty"`
	}{l.Memory, durationText(l.ReconcileTimeout), durationText(l.ObserveTimeout), l.Handles})
}

// DurationText is a duration in units that the host reads: "10s", "1500ms".
func durationText(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	// Whole milliseconds, rounded up, so that no duration becomes none.
	d = (d + time.Millisecond - 1).Truncate(time.Millisecond)
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(int64(d/time.Millisecond), 10) + "ms"
}
