package sdk

import (
	"encoding/json"
	"time"

	"pilothouse.dev/sdk/internal/host"
)

// Watch declares a kind of object to watch, and the work that its changes queue.
type Watch struct {
	// The name of the watch in the plugin.
	Name string `json:"name"`
	// Spelled as in a manifest: "apps/v1".
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// The plural name in URLs, which is needed where several resources have the kind. By default the host finds it by discovery.
	Resource string `json:"resource,omitempty"`
	// Restricts the watch to these namespaces; empty for all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Restricts the watch to objects that match a selector in kubectl's syntax: "app=web,tier in (a, b)".
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	// How much of each object the host caches; Full by default.
	Projection Projection `json:"projection,omitempty"`
	// Which object a change queues. With the zero Trigger the objects are only cached. Work always is for an object of a target watch, that is,
	// a watch whose trigger is [Self].
	Trigger Trigger `json:"trigger,omitzero"`
	// A CEL expression over object, old and event. Changes for which it is false are ignored: "generationChanged() || labelsChanged()".
	Predicate string `json:"predicate,omitempty"`
	// Delivers every change to the plugin's observer.
	Notify bool `json:"notify,omitempty"`
	// Queues every object again at this interval, whether it changed or not. 0 for no resync.
	Resync  Milliseconds `json:"resync,omitempty"`
	Indexes []Index      `json:"indexes,omitempty"`
}

// Milliseconds is a duration that is encoded as a number of milliseconds: sdk.Milliseconds(10 * time.Minute).
type Milliseconds time.Duration

// MarshalJSON rounds up.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(host.Milliseconds(time.Duration(m)))
}

// Projection is how much of each object the host caches.
type Projection string

// The projections.
const (
	Full Projection = "full"
	// Metadata caches only apiVersion, kind and metadata.
	Metadata Projection = "metadata"
)

// Trigger is which object a change queues. It is made by [Self], [Owner] and the other functions here.
type Trigger struct {
	value any
}

// MarshalJSON encodes the trigger for the host.
func (t Trigger) MarshalJSON() ([]byte, error) { return json.Marshal(t.value) }

// Self queues the changed object itself, which makes the watch a target watch.
func Self() Trigger { return Trigger{"self"} }

type target map[string]string

// Owner queues the controlling owner, an object of the target watch.
func Owner(watch string) Trigger {
	return Trigger{map[string]target{"owner": {"watch": watch}}}
}

// EveryOwner queues every owner that is an object of the target watch.
func EveryOwner(watch string) Trigger {
	return Trigger{map[string]target{"ownerAny": {"watch": watch}}}
}

// ByLabel queues the object of the target watch that the label's value names, in the same namespace.
func ByLabel(key, watch string) Trigger {
	return Trigger{map[string]target{"label": {"key": key, "watch": watch}}}
}

// ByField queues the objects of the target watch that the values at a JSONPath name, in the same namespace.
func ByField(path, watch string) Trigger {
	return Trigger{map[string]target{"field": {"path": path, "watch": watch}}}
}

// ByNamespacedField is like ByField, with the namespace in another field.
func ByNamespacedField(path, namespacePath, watch string) Trigger {
	return Trigger{map[string]target{"field": {"path": path, "namespacePath": namespacePath, "watch": watch}}}
}

// ByIndex queues every object of the target watch that has this object's key as a value of the index: for a Secret, the Ingresses that use it.
func ByIndex(watch, index string) Trigger {
	return Trigger{map[string]target{"index": {"watch": watch, "index": index}}}
}

// ByNamespace queues every object of the target watch in this object's namespace; a Namespace queues every one in it.
func ByNamespace(watch string) Trigger {
	return Trigger{map[string]target{"namespace": {"watch": watch}}}
}

// Index declares an index over the objects of a watch, for lookups by [Cache.ByIndex]. Set the name and exactly one of the other fields.
type Index struct {
	Name string `json:"name"`
	// Indexes objects by the value of this label.
	Label string `json:"label,omitempty"`
	// Indexes objects by the value of this annotation.
	Annotation string `json:"annotation,omitempty"`
	// Indexes objects by the values at this JSONPath: "{.spec.containers[*].image}".
	Field string `json:"field,omitempty"`
	// Indexes objects by the UIDs of their owners.
	Owner bool `json:"owner,omitempty"`
	// Indexes objects by values that the plugin computes: see package index.
	Computed bool `json:"computed,omitempty"`
}
