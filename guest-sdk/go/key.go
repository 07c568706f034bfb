package sdk

import "pilothouse.dev/sdk/internal/host"

// Key identifies an object within a watch.
type Key struct {
	// Empty for a cluster-scoped object.
	Namespace string
	Name      string
}

// String returns namespace/name, or name for a cluster-scoped object.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Sibling returns the key of another name in the same namespace.
func (k Key) Sibling(name string) Key { return Key{k.Namespace, name} }

// Type is a kind by its names in a manifest: {"apps/v1", "Deployment"}.
type Type struct {
	APIVersion string
	Kind       string
}

// String returns "apps/v1 Deployment".
func (t Type) String() string { return t.APIVersion + " " + t.Kind }

func (t Type) wit() host.Type { return host.Type{ApiVersion: t.APIVersion, Kind: t.Kind} }
