package sdk

import (
	"encoding/json"
	"strconv"
	"time"
)

// Plugin is the plugin's descriptor: what it watches, indexes and writes. The host reads it once per load.
type Plugin struct {
	// Should be the name of the .wasm file.
	Name    string
	Version string
	// A one-sentence summary, which `pilothouse status` shows.
	Summary string
	Watches []Watch
	// The requests that the plugin sends. The host denies requests that are not listed, or not granted by the operator.
	Writes []WriteRule
	// CustomResourceDefinitions, which the host applies before it starts the watches: json.RawMessage, a map, or a type of
	// k8s.io/apiextensions-apiserver.
	CRDs []any
	// Runs all calls on a single instance with one worker, so that they share memory.
	Stateful bool
	// Requests limits other than the defaults; the operator's sidecar takes precedence.
	Limits Limits
}

// MarshalJSON encodes the descriptor for the host.
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

// WriteRule is a rule for requests that a plugin sends, with the fields of an RBAC PolicyRule plus namespaces.
type WriteRule struct {
	// "" for the core group.
	APIGroups []string `json:"apiGroups"`
	// Plural names as in URLs: "deployments", "deployments/scale".
	Resources []string `json:"resources"`
	// Any of get, list, create, update, patch and delete.
	Verbs []string `json:"verbs"`
	// Empty for all.
	Namespaces []string `json:"namespaces,omitempty"`
}

// Writes returns a rule for these verbs on one resource of a group: Writes("apps", "deployments", "create", "update").
func Writes(group, resource string, verbs ...string) WriteRule {
	return WriteRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// Limits are the limits that a plugin requests. Zero keeps the host's default.
type Limits struct {
	// The memory of one instance, as a quantity: "64Mi".
	Memory string
	// The time that one reconcile may take, including its requests.
	ReconcileTimeout time.Duration
	// The time that one call of observe may take.
	ObserveTimeout time.Duration
	// The number of object handles that one instance may hold.
	Handles int
}

// MarshalJSON encodes durations as Kubernetes does.
func (l Limits) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Memory           string `json:"memory,omitempty"`
		ReconcileTimeout string `json:"reconcileTimeout,omitempty"`
		ObserveTimeout   string `json:"observeTimeout,omitempty"`
		Handles          int    `json:"handles,omitempty"`
	}{l.Memory, durationText(l.ReconcileTimeout), durationText(l.ObserveTimeout), l.Handles})
}

// durationText formats a duration for the host: "10s", "1500ms".
func durationText(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	// Round up to milliseconds, so that a short duration does not become 0.
	d = (d + time.Millisecond - 1).Truncate(time.Millisecond)
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(int64(d/time.Millisecond), 10) + "ms"
}
