package sdk

import "pilothouse.dev/sdk/internal/host"

// Key names an object inside one watch.
type Key struct {
	// Empty for a cluster-scoped object.
	Namespace string
	Name      string
}

// String is namespace/name, or name for cluster scope.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Sibling is another name in the same namespace.
func (k Key) Sibling(name string) Key { return Key{k.Namespace, name} }

// Type is a kind by the names that a manifest has: {"apps/v1", "Deployment"}.
type Type struct {
	APIVersion string
	Kind       string
}

// String is "apps/v1 Deployment".
func (t Type) String() string { return t.APIVersion + " " + t.Kind }

func (t Type) wit() host.Type { return host.Type{ApiVersion: t.APIVersion, Kind: t.Kind} }
