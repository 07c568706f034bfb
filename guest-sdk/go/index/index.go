// Package index lets a plugin compute the values of its indexes with Computed. Importing it exports index.values.
package index

import (
	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_objects"
	"pilothouse.dev/sdk/internal/exports/index"
)

// Export registers the function that gives the values under which an object is found in an index; none to leave it out. They must depend
// on the object alone: the host calls the function once per state of each object and keeps the result. It may log, no more. Call it in init.
func Export(values func(index string, object *sdk.Object) []string) {
	export_pilothouse_controller_index.Handler = func(index string, handle *pilothouse_controller_objects.Object) []string {
		return values(index, sdk.WrapObject(handle))
	}
}
