// Package index lets a plugin compute the values of its indexes with Computed. Importing it exports index.values.
package index

import (
	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/exports/index"
	"pilothouse.dev/sdk/internal/host"
)

// Export registers the function that returns the values under which an object is listed in an index; an object without values is not listed.
// The values must depend on nothing but the object, because the host calls the function once per state of each object and keeps the result.
// The function may only log. Call Export in init.
func Export(values func(index string, object *sdk.Object) []string) {
	export_pilothouse_controller_index.Handler = func(index string, handle host.Object) []string {
		return values(index, sdk.WrapObject(handle))
	}
}
