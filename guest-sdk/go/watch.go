package sdk

import (
	"encoding/json"
	"time"

	"pilothouse.dev/sdk/internal/host"
)

// Watch is one kind of object to watch, and which work its changes start.
type Watch struct {
	// How the plugin calls this watch.
	Name string `json:"name"`
	// As in a manifest: "apps/v1".
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// The plural name in URLs, where several resources have the kind; else the host finds it by discovery.
	Resource string `json:"resource,omitempty"`
	// Empty for all.
	Namespaces []string `json:"namespaces,omitempty"`
	// In kubectl's syntax: "app=web,tier in (a, b)".
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	// Full when empty.
	Projection Projection `json:"projection,omitempty"`
	// Which object a change queues; the zero Trigger only fills the cache. Work always names an object of a target watch, one whose
	// trigger is [Self].
	Trigger Trigger `json:"trigger,omitzero"`
	// Changes for which this CEL expression over object, old and event is false start no work: "generationChanged() || labelsChanged()".
	Predicate string `json:"predicate,omitempty"`
	// Tells every change to the plugin's observer.
	Notify bool `json:"notify,omitempty"`
	// Starts the work of every object again after this time, changed or not.
	Resync  Milliseconds `json:"resync,omitempty"`
	Indexes []Index      `json:"indexes,omitempty"`
}

// Milliseconds is a duration that is written as a number of milliseconds: sdk.Milliseconds(10 * time.Minute).
type Milliseconds time.Duration

// MarshalJSON rounds up.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(host.Milliseconds(time.Duration(m)))
}

// Projection says how much of each object is held.
type Projection string

// The projections.
const (
	Full Projection = "full"
	// Metadata is apiVersion, kind and metadata.
	Metadata Projection = "metadata"
)

// Trigger says which object a change queues. Made by [Self], [Owner] and the others.
type Trigger struct {
	value any
}

// MarshalJSON writes the trigger as the host reads it.
func (t Trigger) MarshalJSON() ([]byte, error) { return json.Marshal(t.value) }

// Self queues the changed object itself, and makes the watch a target.
func Self() Trigger { return Trigger{"self"} }

type target map[string]string

// Owner queues the owner that controls the object and is an object of the target watch.
func Owner(watch string) Trigger {
	return Trigger{map[string]target{"owner": {"watch": watch}}}
}

// EveryOwner queues every owner that is an object of the target watch.
func EveryOwner(watch string) Trigger {
	return Trigger{map[string]target{"ownerAny": {"watch": watch}}}
}

// ByLabel queues the object of the target watch that the label's value names.
func ByLabel(key, watch string) Trigger {
	return Trigger{map[string]target{"label": {"key": key, "watch": watch}}}
}

// ByField queues the objects of the target watch that the value or values at a JSONPath name, in the same namespace.
func ByField(path, watch string) Trigger {
	return Trigger{map[string]target{"field": {"path": path, "watch": watch}}}
}

// ByNamespacedField is ByField, with the namespace in another field.
func ByNamespacedField(path, namespacePath, watch string) Trigger {
	return Trigger{map[string]target{"field": {"path": path, "namespacePath": namespacePath, "watch": watch}}}
}

// ByIndex queues every object of the target watch that has this object's key as a value of its index: a Secret, and the Ingresses that use
// it.
func ByIndex(watch, index string) Trigger {
	return Trigger{map[string]target{"index": {"watch": watch, "index": index}}}
}

// Index is a way to find objects by a value, in exactly one of the ways.
type Index struct {
	Name string `json:"name"`
	// By the value of this label.
	Label string `json:"label,omitempty"`
	// By the value of this annotation.
	Annotation string `json:"annotation,omitempty"`
	// By what this JSONPath finds: "{.spec.containers[*].image}".
	Field string `json:"field,omitempty"`
	// By the UIDs of the owners.
	Owner bool `json:"owner,omitempty"`
	// By what the plugin's own function answers: see package index.
	Computed bool `json:"computed,omitempty"`
}
